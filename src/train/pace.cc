#include "train/pace.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numbers>
#include <thread>
#include <utility>

#include "base/random.h"

namespace rookery::train {
namespace {

constexpr double kLeastFactor = 0.05;
constexpr std::size_t kLearningTimes = 30;
constexpr std::uint64_t kPace = 0x70616365;

std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

double jitter_factor(double jitter, std::uint64_t seed, const std::string& name, std::uint64_t step) {
  if (jitter <= 0) return 1;
  Random random({seed, kPace, word_of(name), step});
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  const double z = radius * std::cos(2 * std::numbers::pi * random.uniform());  // standard normal
  return std::max(kLeastFactor, 1 + jitter * z);
}

Pace::Pace(Options options, std::uint64_t seed, const std::string& name)
    : options_(options), seed_(seed), name_(name) {}

void Pace::begin(std::int64_t step, Kind kind) {
  if (!is_slowed()) return;
  work_ = &kinds_[kind];
  ++work_->times;
  place_ = 0;
  factor_ =
      jitter_factor(options_.jitter, seed_, name_, static_cast<std::uint64_t>(step)) / std::min(1.0, options_.speed);
  if (kind != Kind::kOther && work_->times > 1) {
    const std::chrono::nanoseconds whole = std::max(step_work(), std::chrono::nanoseconds(1));
    factor_ *= static_cast<double>(options_.step_time.count()) / static_cast<double>(whole.count());
  }
  start_ = std::chrono::steady_clock::now() - std::exchange(late_, {});
  worked_before_ = processor_time();
}

// What all of a step takes at full speed, as far as it is known.
std::chrono::nanoseconds Pace::step_work() const {
  const auto known = [&](Kind kind) {
    const auto found = kinds_.find(kind);
    return found == kinds_.end() || found->second.places.empty() ? std::chrono::nanoseconds(0)
                                                                 : found->second.places.back().usual;
  };
  const auto all = static_cast<std::int64_t>(options_.micro_batches),
             last = static_cast<std::int64_t>(options_.updates);
  return all * known(Kind::kForward) + (all - last) * known(Kind::kBackward) + last * known(Kind::kLastBackward);
}

void Pace::learn(Until& until, std::chrono::nanoseconds worked) {
  until.seen.push_back(worked);
  const auto middle = until.seen.begin() + static_cast<std::ptrdiff_t>(until.seen.size() / 2);
  std::ranges::nth_element(until.seen, middle);
  until.usual = *middle;
}

void Pace::keep() {
  if (!is_slowed()) return;
  const std::chrono::nanoseconds worked = processor_time() - worked_before_;
  if (place_ == work_->places.size()) work_->places.emplace_back();
  Until& until = work_->places[place_++];
  if (work_->times <= kLearningTimes) learn(until, worked);
  const auto wanted = std::chrono::duration_cast<std::chrono::nanoseconds>(until.usual * factor_);
  std::this_thread::sleep_until(start_ + wanted);
  late_ = std::clamp<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_ - wanted, {}, wanted);
}

}  // namespace rookery::train
