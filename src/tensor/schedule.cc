#include "tensor/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace rookery {

double learning_rate(const ScheduleOptions& options, std::int64_t step) {
  const auto warmup = static_cast<double>(options.warmup);
  const double at = static_cast<double>(step) + 1;  // the first step already moves
  if (at <= warmup) return options.peak * at / warmup;

  const double rest = std::max(1.0, static_cast<double>(options.steps) - warmup);
  const double done = std::clamp((at - warmup) / rest, 0.0, 1.0);
  const double low = options.peak * options.floor;
  if (options.kind == "constant") return options.peak;
  if (options.kind == "cosine") {
    return low + (options.peak - low) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  }
  if (options.kind == "linear") return low + (options.peak - low) * (1 - done);
  if (options.kind == "inverse-sqrt") return options.peak * std::sqrt(std::max(1.0, warmup) / at);
  const std::vector<std::string> known = {"constant", "cosine", "inverse-sqrt", "linear"};
  throw InputError("train.schedule: '{}' is not a known schedule{}", options.kind, did_you_mean(options.kind, known));
}

}  // namespace rookery
