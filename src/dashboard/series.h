#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "observe/metrics.h"

namespace rookery::dashboard {

// Columns of what is known of each step.
inline constexpr std::array<const char*, 12> kColumns = {
    "step",  "seconds",           "loss",         "eval_loss", "eval_accuracy", "lr", "grad_norm", "consensus_distance",
    "drift", "tokens_per_second", "step_seconds", "wait_share"};

using Row = std::array<std::optional<double>, kColumns.size()>;

// How a run went, in rows that have room on a screen: when there are more than `most`, two become one, and so do all
// that follow. Evaluations and distances stand in the row of their step; of the other columns a row has the mean.
class Series {
 public:
  // Requires: most is even and at least 2
  explicit Series(std::size_t most = 2000);

  // Steps come in order. One that came before is done again: what followed it is not true any more.
  void add(const observe::StepMetrics& metrics);

  const std::vector<Row>& rows() const { return rows_; }
  std::size_t stride() const { return stride_; }      // steps in a row
  std::uint64_t edition() const { return edition_; }  // counts up when rows that were there have changed

 private:
  Row row_of(const observe::StepMetrics& metrics);
  void take_back(std::int64_t step);
  void halve();

  std::size_t most_, stride_ = 1;
  std::uint64_t edition_ = 0;
  std::vector<Row> rows_;
  std::vector<Row> pending_;                               // of the next row
  std::optional<std::pair<double, std::int64_t>> before_;  // seconds and tokens after the step before
};

}  // namespace rookery::dashboard
