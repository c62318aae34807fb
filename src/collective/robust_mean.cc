#include "collective/robust_mean.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "collective/codec.h"

namespace rookery::collective {
namespace {

constexpr double kClippedTo = 2;     // times the median norm
constexpr double kTooLarge = 10;     // times the median norm; honest ones differ by less
constexpr double kAgreement = 0.1;   // cosine of those who go the same way, but for noise:
constexpr double kNoise = 4;         // standard deviations of the cosine of two vectors that have nothing in common
constexpr std::size_t kFewest = 64;  // values that say something about whoever brings them

// In an order that does not depend on the machine, in lanes that it can use.
double dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  for (; i < a.size(); ++i) sums[i % kLanes] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

// Of an even number the lower one: half of them cannot raise it.
double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::optional<Robust> parse_robust(std::string_view name) {
  if (name == "off") return std::nullopt;
  if (name == "clip") return Robust::kClip;
  if (name == "trimmed-mean") return Robust::kTrimmedMean;
  throw InputError("\"{}\" is no defence; there are clip and trimmed-mean", name);
}

std::string Finding::text() const {
  switch (kind) {
    case Kind::kNotFinite:
      return "brought values that are no numbers";
    case Kind::kTooLarge:
      return fmt::format("brought values with {:.3g} times the usual norm", measure);
    case Kind::kOpposed:
      return fmt::format("brought values that go against those of the others (cosine {:.2f})", measure);
  }
  ROOKERY_CHECK(false, "kind = {}", static_cast<int>(kind));
}

RobustMean::RobustMean(Robust rule, std::vector<float> weights)
    : rule_(rule),
      weights_(std::move(weights)),
      products_(weights_.size() * weights_.size()),
      is_finite_(weights_.size(), true) {}

void RobustMean::add(std::span<const std::span<const float>> brought, std::span<float> result) {
  ROOKERY_CHECK(brought.size() == members(), "{} of {}", brought.size(), members());
  values_ += result.size();
  std::vector<std::size_t> kept;
  std::vector<double> squares;
  for (std::size_t i = 0; i < members(); ++i) {
    const double square = dot(brought[i], brought[i]);  // of floats, which cannot be too large for this
    if (std::isfinite(square)) {
      kept.push_back(i);
      squares.push_back(square);
    } else {
      is_finite_[i] = false;
    }
  }
  for (std::size_t a = 0; a < kept.size(); ++a) {
    product(kept[a], kept[a]) += squares[a];
    for (std::size_t b = 0; b < a; ++b) {
      product(kept[b], kept[a]) = product(kept[a], kept[b]) += dot(brought[kept[a]], brought[kept[b]]);
    }
  }
  if (kept.empty()) {
    std::ranges::fill(result, std::numeric_limits<float>::quiet_NaN());
  } else if (rule_ == Robust::kClip) {
    clip(brought, kept, squares, result);
  } else {
    trim(brought, kept, result);
  }
}

void RobustMean::clip(std::span<const std::span<const float>> brought, std::span<const std::size_t> kept,
                      std::span<const double> squares, std::span<float> result) const {
  const double most = kClippedTo * std::sqrt(lower_median({squares.begin(), squares.end()}));
  double all = 0;
  for (const std::size_t i : kept) all += static_cast<double>(weights_[i]);
  std::vector<std::span<const float>> terms;
  std::vector<float> factors;
  for (std::size_t k = 0; k < kept.size(); ++k) {
    const double norm = std::sqrt(squares[k]), factor = norm > most ? most / norm : 1;
    terms.push_back(brought[kept[k]]);
    factors.push_back(static_cast<float>(factor * static_cast<double>(weights_[kept[k]]) / all));
  }
  weighted_sum(terms, factors, result);
}

void RobustMean::trim(std::span<const std::span<const float>> brought, std::span<const std::size_t> kept,
                      std::span<float> result) const {
  const std::size_t left_out = std::max<std::size_t>(kept.size() / 4, kept.size() >= 3 ? 1 : 0);
  struct Value {
    float value, weight;
  };
  std::vector<Value> sorted(kept.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::size_t k = 0; k < kept.size(); ++k) sorted[k] = {brought[kept[k]][i], weights_[kept[k]]};
    std::ranges::sort(sorted, {}, &Value::value);
    double sum = 0, all = 0;
    for (std::size_t k = left_out; k < kept.size() - left_out; ++k) {
      sum += static_cast<double>(sorted[k].value) * static_cast<double>(sorted[k].weight);
      all += static_cast<double>(sorted[k].weight);
    }
    result[i] = static_cast<float>(sum / all);
  }
}

double RobustMean::cosine(std::size_t a, std::size_t b) const {
  const std::size_t n = members();
  const double norms = std::sqrt(products_[a * n + a] * products_[b * n + b]);
  return norms > 0 ? products_[a * n + b] / norms : 0;
}

// With most of the others. Of three, one agrees with nobody, and the others with each other.
double RobustMean::agreement(std::size_t member, std::span<const std::size_t> others) const {
  std::vector<double> cosines;
  for (const std::size_t other : others) {
    if (other != member) cosines.push_back(cosine(member, other));
  }
  return upper_median(std::move(cosines));
}

std::vector<Finding> RobustMean::findings() const {
  std::vector<Finding> findings;
  std::vector<std::size_t> finite;
  std::vector<double> norms;
  for (std::size_t i = 0; i < members(); ++i) {
    if (is_finite_[i]) {
      finite.push_back(i);
      norms.push_back(std::sqrt(products_[i * members() + i]));
    } else {
      findings.push_back({.member = i, .kind = Finding::Kind::kNotFinite});
    }
  }
  if (finite.size() < 3 || values_ < kFewest) return findings;
  const double usual = lower_median(norms);
  if (usual == 0) return findings;
  std::vector<double> agreements;
  for (const std::size_t member : finite) agreements.push_back(agreement(member, finite));
  // Near an optimum honest members may all go against each other: then there is no way that most of them go.
  const double agreed = std::max(kAgreement, kNoise / std::sqrt(static_cast<double>(values_)));
  const bool is_agreed = lower_median(agreements) > agreed;
  for (std::size_t k = 0; k < finite.size(); ++k) {
    if (norms[k] > kTooLarge * usual) {
      findings.push_back({.member = finite[k], .kind = Finding::Kind::kTooLarge, .measure = norms[k] / usual});
    } else if (is_agreed && agreements[k] < -agreed) {
      findings.push_back({.member = finite[k], .kind = Finding::Kind::kOpposed, .measure = agreements[k]});
    }
  }
  std::ranges::sort(findings, {}, &Finding::member);
  return findings;
}

}  // namespace rookery::collective
