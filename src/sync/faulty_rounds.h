#pragma once

#include <memory>
#include <string_view>

#include "sync/rounds.h"

namespace rookery::sync {

// What a peer does wrong, so that it can be seen how the others bear it.
//   nan     brings what is no number
//   flip    the opposite of what it has
//   scale   a hundred times what it has
enum class Fault { kNone, kNan, kFlip, kScale };

// "none", "nan", "flip", "scale". Throws InputError on another name.
Fault parse_fault(std::string_view name);

// The rounds of a peer that does something wrong: its values are spoilt before they go to the others.
class FaultyRounds final : public Rounds {
 public:
  // `rounds` outlives this.
  FaultyRounds(Rounds& rounds, Fault fault) : rounds_(rounds), fault_(fault) {}

  std::size_t rank() const override { return rounds_.rank(); }
  std::size_t peers() const override { return rounds_.peers(); }
  std::unique_ptr<Round> average(Which which, std::span<float> values, float share, std::span<float> lost) override;
  std::unique_ptr<Round> mix(std::uint64_t step, std::span<float> values, const plan::Mix& mix) override;

 private:
  void spoil(std::span<float> values) const;

  Rounds& rounds_;
  Fault fault_;
};

}  // namespace rookery::sync
