#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "observe/metrics.h"

namespace rookery::train {

// Which samples of a run were not used, because a cluster was not whole when it was to do a step, which were used in
// vain, because it lost a peer before others knew of them, and which were used twice, because it went back. Kept in a
// file, so that another coordinator, or the run when it is resumed, goes on with it; written when something begins or
// ends, not in every step.
class Ledger {
 public:
  // `file`: where it is kept; empty: nowhere. What is there is taken up as it was after `step`. Throws InputError
  // naming the file if it holds something else.
  Ledger(std::filesystem::path file, std::int64_t step);

  // A step is done, by these clusters.
  void done(std::int64_t step, const std::vector<bool>& clusters);

  // A cluster has lost what it did in these steps.
  void forgot(observe::ClusterSteps steps);

  // After step `from` all go back to `to`, and do what followed again.
  void rewound(std::int64_t from, std::int64_t to);

  const std::vector<observe::ClusterSteps>& left_out() const { return left_out_; }
  const std::vector<observe::ClusterSteps>& forgotten() const { return forgotten_; }
  const std::vector<observe::Repeated>& repeated() const { return repeated_; }
  std::int64_t steps_left_out() const;  // of all clusters together

 private:
  void load(std::int64_t step);
  void save() const;

  std::filesystem::path file_;
  std::int64_t last_step_;  // that was done
  std::vector<observe::ClusterSteps> left_out_, forgotten_;
  std::vector<observe::Repeated> repeated_;
};

}  // namespace rookery::train
