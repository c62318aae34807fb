#include "dashboard/series.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace rookery::dashboard {
namespace {

enum Column : std::size_t {
  kStep,
  kSeconds,
  kLoss,
  kEvalLoss,
  kEvalAccuracy,
  kRate,
  kGradNorm,
  kDistance,
  kDrift,
  kTokens,
  kStepSeconds,
  kWaitShare
};

constexpr double kSmooth = 2;  // seconds over which a rate is taken at least, so that single steps do not matter

bool is_of_last(std::size_t column) {
  return column <= kSeconds || column == kEvalLoss || column == kEvalAccuracy || column == kDistance ||
         column == kDrift;
}

std::optional<double> finite(std::optional<double> value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

Row joined(std::span<const Row> rows) {
  Row result;
  for (std::size_t column = 0; column < result.size(); ++column) {
    double sum = 0;
    std::size_t count = 0;
    for (const Row& row : rows) {
      if (!row[column]) continue;
      sum = is_of_last(column) ? *row[column] : sum + *row[column];
      ++count;
    }
    if (count > 0) result[column] = is_of_last(column) ? sum : sum / static_cast<double>(count);
  }
  return result;
}

Row row_of(const observe::StepMetrics& m) {
  Row row{};
  row[kStep] = static_cast<double>(m.step);
  row[kSeconds] = finite(m.seconds);
  row[kLoss] = finite(m.loss);
  row[kEvalLoss] = finite(m.eval_loss);
  row[kEvalAccuracy] = finite(m.eval_accuracy);
  row[kRate] = finite(m.lr);
  row[kGradNorm] = finite(m.grad_norm);
  row[kDistance] = finite(m.consensus_distance);
  row[kDrift] = finite(m.drift);
  row[kStepSeconds] = finite(m.step_seconds);
  if (m.together) {
    const double busy = m.together->compute_seconds + m.together->wait_seconds;
    if (busy > 0) row[kWaitShare] = finite(m.together->wait_seconds / busy);
  }
  return row;
}

}  // namespace

Series::Series(std::size_t most) : most_(most) { ROOKERY_CHECK(most >= 2 && most % 2 == 0); }

void Series::add(const observe::StepMetrics& metrics) {
  take_back(metrics.step);
  const Mark end{.seconds = metrics.seconds, .tokens = metrics.tokens, .part = part_};
  latest_ = row_of(metrics);
  (*latest_)[kTokens] = tokens_per_second(end);
  pending_.push_back(*latest_);
  if (pending_.size() < stride_) return;
  append(pending_, end);
  pending_.clear();
  if (rows_.size() > most_) halve();
}

void Series::append(std::span<const Row> parts, const Mark& end) {
  Row row = joined(parts);
  if (const auto rate = tokens_per_second(end)) row[kTokens] = rate;
  rows_.push_back(row);
  ends_.push_back(end);
}

// From the end of the last row, or one that is long enough ago. The mean of rates would not be the rate of all.
std::optional<double> Series::tokens_per_second(const Mark& end) const {
  const Mark* begin = nullptr;
  for (auto mark = ends_.rbegin(); mark != ends_.rend() && mark->part == end.part; ++mark) {
    begin = &*mark;
    if (end.seconds - begin->seconds >= kSmooth) break;
  }
  if (begin == nullptr || !(end.seconds > begin->seconds) || end.tokens < begin->tokens) return std::nullopt;
  return finite(static_cast<double>(end.tokens - begin->tokens) / (end.seconds - begin->seconds));
}

void Series::take_back(std::int64_t step) {
  const auto is_later = [&](const Row& row) { return *row[kStep] >= static_cast<double>(step); };
  const bool is_within = std::erase_if(pending_, is_later) > 0, has_rows = !rows_.empty() && is_later(rows_.back());
  if (is_within || has_rows) ++part_;
  if (!has_rows) return;
  std::erase_if(rows_, is_later);
  ends_.resize(rows_.size());
  ++edition_;
}

void Series::halve() {
  const std::vector<Row> rows = std::exchange(rows_, {});
  const std::vector<Mark> ends = std::exchange(ends_, {});
  std::size_t i = 0;
  for (; i + 2 <= rows.size(); i += 2) append(std::span(rows).subspan(i, 2), ends[i + 1]);
  if (i < rows.size()) pending_ = {rows[i]};  // stands for half a row, and weighs a little more than it should
  stride_ *= 2;
  ++edition_;
}

}  // namespace rookery::dashboard
