#include "sync/faulty_rounds.h"

#include <limits>

#include "base/error.h"

namespace rookery::sync {

Fault parse_fault(std::string_view name) {
  if (name == "none") return Fault::kNone;
  if (name == "nan") return Fault::kNan;
  if (name == "flip") return Fault::kFlip;
  if (name == "scale") return Fault::kScale;
  throw InputError("\"{}\" is no fault; there are nan, flip and scale", name);
}

std::unique_ptr<Round> FaultyRounds::average(Which which, std::span<float> values, float share, std::span<float> lost) {
  spoil(values);
  return rounds_.average(which, values, share, lost);
}

std::unique_ptr<Round> FaultyRounds::mix(std::uint64_t step, std::span<float> values, const plan::Mix& mix) {
  spoil(values);
  return rounds_.mix(step, values, mix);
}

void FaultyRounds::spoil(std::span<float> values) const {
  for (float& value : values) {
    switch (fault_) {
      case Fault::kNone:
        break;
      case Fault::kNan:
        value = std::numeric_limits<float>::quiet_NaN();
        break;
      case Fault::kFlip:
        value = -value;
        break;
      case Fault::kScale:
        value *= 100;
        break;
    }
  }
}

}  // namespace rookery::sync
