#pragma once

#include <cstdint>
#include <string>

namespace rookery {

struct ScheduleOptions {
  std::string kind = "cosine";  // constant cosine inverse-sqrt linear
  double peak = 1e-3;
  double floor = 0;         // cosine and linear end at peak·floor
  std::int64_t warmup = 0;  // steps of linear rise from 0
  std::int64_t steps = 1;   // of the whole run
};

// The learning rate of step `step` (from 0): a pure function, so nothing can get out of step. Rises linearly over the
// warm-up, then: constant; cosine or linear down to the floor at the last step; or peak·√(warmup/step).
// Throws InputError on an unknown kind.
double learning_rate(const ScheduleOptions& options, std::int64_t step);

}  // namespace rookery
