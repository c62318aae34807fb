#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace rookery::train {

// How much longer than usual a peer takes for a step, if that varies by `jitter`: drawn from (seed, name, step).
double jitter_factor(double jitter, std::uint64_t seed, const std::string& name, std::uint64_t step);

// Makes this peer as slow as it is asked to be: a swarm of unequal computers on one. A step takes as long as it would
// take a computer of that speed by what was measured here before, whatever else this one does meanwhile, unless it
// cannot do the work in that time: what it is late by is made up for by the next. How a step's time is shared out among
// its parts is learnt from the first ones, in processor time of the calling thread.
class Pace {
 public:
  struct Options {
    double speed = 1;                              // share of this computer's; 1 or more: all of it
    double jitter = 0;                             // standard deviation of the time that a step takes, as a share
    std::chrono::nanoseconds step_time{0};         // of a step with gradients, at full speed; 0: it is not slowed
    std::uint64_t micro_batches = 1, updates = 1;  // of a step
  };

  Pace(Options options, std::uint64_t seed, const std::string& name);

  // Some work of a step begins. What is of one kind does the same work, and calls keep() at the same places.
  enum class Kind { kForward, kBackward, kLastBackward, kOther };  // the last before an update is a kind of its own
  void begin(std::int64_t step, Kind kind);

  // Sleeps until as much time has passed as the work so far was to take.
  void keep();

 private:
  bool is_slowed() const { return options_.step_time.count() > 0; }

  // What the work up to a place takes at full speed: the middle of what was seen in the first times.
  struct Until {
    std::vector<std::chrono::nanoseconds> seen{};
    std::chrono::nanoseconds usual{};
  };
  struct Work {
    std::size_t times = 0;
    std::vector<Until> places{};
  };
  void learn(Until& until, std::chrono::nanoseconds worked);

  Options options_;
  std::uint64_t seed_;
  std::string name_;
  std::map<Kind, Work> kinds_;
  std::chrono::nanoseconds step_work() const;

  Work* work_ = nullptr;   // that is under way
  std::size_t place_ = 0;  // in it
  double factor_ = 1;      // of it
  std::chrono::steady_clock::time_point start_;
  std::chrono::nanoseconds late_{};  // that the last work ended, and the next one may be shorter by
  std::chrono::nanoseconds worked_before_{};
};

}  // namespace rookery::train
