#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "observe/metrics.h"

namespace rookery::dashboard {

// Columns of what is known of each step.
inline constexpr std::array<const char*, 12> kColumns = {
    "step",  "seconds",           "loss",         "eval_loss", "eval_accuracy", "lr", "grad_norm", "consensus_distance",
    "drift", "tokens_per_second", "step_seconds", "wait_share"};

using Row = std::array<std::optional<double>, kColumns.size()>;

// How a run went, in rows that have room on a screen: when there are more than `most`, two become one, and so do all
// that follow. Evaluations and distances stand in the row of their step; of the other columns a row has the mean, and
// of tokens those of its time, or of the last seconds if it is shorter.
class Series {
 public:
  // Requires: most is even and at least 2
  explicit Series(std::size_t most = 2000);

  // Steps come in order. One that came before is done again: what followed it is not true any more.
  void add(const observe::StepMetrics& metrics);

  const std::vector<Row>& rows() const { return rows_; }
  const std::optional<Row>& latest() const { return latest_; }  // the last step alone, whether or not its row is full
  std::size_t stride() const { return stride_; }                // steps in a row
  std::uint64_t edition() const { return edition_; }            // counts up when rows that were there have changed

 private:
  // How far all was after a step.
  struct Mark {
    double seconds = 0;
    std::int64_t tokens = 0;
    std::uint64_t part = 0;  // counts up when steps are done again: nothing is compared with what was before
  };

  void append(std::span<const Row> parts, const Mark& end);
  std::optional<double> tokens_per_second(const Mark& end) const;
  void take_back(std::int64_t step);
  void halve();

  std::size_t most_, stride_ = 1;
  std::uint64_t edition_ = 0, part_ = 0;
  std::vector<Row> rows_;
  std::vector<Mark> ends_;    // of each row
  std::vector<Row> pending_;  // of the next row
  std::optional<Row> latest_;
};

}  // namespace rookery::dashboard
