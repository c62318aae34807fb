#include "train/pace.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numbers>
#include <thread>

#include "base/random.h"

namespace rookery::train {
namespace {

constexpr double kLeastFactor = 0.05;
constexpr std::size_t kLearningTimes = 30;  // while it is slowed,
constexpr std::size_t kAwakeTimes = 10;     // and before
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
  if (learns()) work_->awake.emplace_back();
  factor_ =
      jitter_factor(options_.jitter, seed_, name_, static_cast<std::uint64_t>(step)) / std::min(1.0, options_.speed);
  if (kind != Kind::kOther && options_.step_time.count() > 0 && work_->times > 1) {
    const std::chrono::nanoseconds whole = std::max(step_work(), std::chrono::nanoseconds(1));
    factor_ *= static_cast<double>(options_.step_time.count()) / static_cast<double>(whole.count());
  }
  start_ = std::chrono::steady_clock::now();
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

// A time that is pretended does not depend on what is learnt.
bool Pace::learns() const { return options_.step_time.count() == 0 && work_->times <= kAwakeTimes; }

void Pace::learn(Until& until, std::chrono::nanoseconds worked) {
  until.seen.push_back(worked);
  const auto middle = until.seen.begin() + static_cast<std::ptrdiff_t>(until.seen.size() / 2);
  std::ranges::nth_element(until.seen, middle);
  until.usual = *middle;
}

// What was left out while it learnt.
std::chrono::nanoseconds Pace::owed() {
  std::chrono::nanoseconds all{};
  for (const auto& [factor, took] : std::exchange(work_->awake, {})) {
    const auto wanted = std::chrono::duration_cast<std::chrono::nanoseconds>(work_->places.back().usual * factor);
    all += std::max(wanted - took, std::chrono::nanoseconds(0));
  }
  return all;
}

void Pace::keep() {
  if (!is_slowed()) return;
  const std::chrono::nanoseconds worked = processor_time() - worked_before_;
  if (place_ == work_->places.size()) work_->places.emplace_back();
  Until& until = work_->places[place_++];
  if (learns()) {
    learn(until, worked);
    work_->awake.back() = {factor_, std::chrono::steady_clock::now() - start_};
    return;
  }
  if (options_.step_time.count() > 0 && work_->times <= kLearningTimes) learn(until, worked);
  const auto wanted = std::chrono::duration_cast<std::chrono::nanoseconds>(until.usual * factor_);
  std::this_thread::sleep_until(start_ + wanted + owed());
}

}  // namespace rookery::train
