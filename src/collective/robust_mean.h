#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rookery::collective {

// How a mean is kept from those who bring nonsense to it.
//   clip           whoever brings a norm of more than twice the median norm has it scaled down to that
//   trimmed mean   of every value the highest and the lowest quarter are left out, and at least one of each
// With both, what is not finite is left out. The trimmed mean of every value is among those that honest members brought
// as long as no more than a quarter lie, or one of three; what is clipped moves the mean by a bounded amount.
enum class Robust { kClip, kTrimmedMean };

// "clip", "trimmed-mean"; nothing if it is "off". Throws InputError on another name.
std::optional<Robust> parse_robust(std::string_view name);

// What somebody has brought that cannot be right.
struct Finding {
  enum class Kind {
    kNotFinite,  // some of its values are no numbers
    kTooLarge,   // its norm is `measure` times the median
    kOpposed,    // most others go the same way, and it goes against them: `measure` is the cosine
  };

  std::size_t member = 0;
  Kind kind = Kind::kNotFinite;
  double measure = 0;

  std::string text() const;  // for people
  bool operator==(const Finding&) const = default;
};

// The mean of what several members bring, chunk by chunk, and what can be said about them afterwards. A chunk is judged
// by itself, so that no more than one has to be in memory; findings are about all of them.
//
// Takes a product of every two members for each value.
class RobustMean {
 public:
  // `weights`: of all members in the mean; only their ratios matter.
  RobustMean(Robust rule, std::vector<float> weights);

  // result = the mean of `brought`, one chunk of every member in their order. The result may be one of them. It is no
  // number where nobody brings any.
  void add(std::span<const std::span<const float>> brought, std::span<float> result);

  // About what was added so far, by member. With fewer than three members, or only a few values, nobody can tell who is
  // right, and only what is not finite is found.
  std::vector<Finding> findings() const;

 private:
  std::size_t members() const { return weights_.size(); }
  double& product(std::size_t a, std::size_t b) { return products_[a * members() + b]; }
  double cosine(std::size_t a, std::size_t b) const;
  double agreement(std::size_t member, std::span<const std::size_t> others) const;
  void clip(std::span<const std::span<const float>> brought, std::span<const std::size_t> kept,
            std::span<const double> squares, std::span<float> result) const;
  void trim(std::span<const std::span<const float>> brought, std::span<const std::size_t> kept,
            std::span<float> result) const;

  Robust rule_;
  std::vector<float> weights_;
  std::vector<double> products_;  // Σ a_i b_i of every two members
  std::vector<bool> is_finite_;   // so far
  std::size_t values_ = 0;
};

}  // namespace rookery::collective
