#include "dashboard/series.h"

#include <cmath>
#include <span>

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

}  // namespace

Series::Series(std::size_t most) : most_(most) { ROOKERY_CHECK(most >= 2 && most % 2 == 0); }

Row Series::row_of(const observe::StepMetrics& m) {
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
  if (before_ && m.seconds > before_->first && m.tokens >= before_->second) {
    row[kTokens] = static_cast<double>(m.tokens - before_->second) / (m.seconds - before_->first);
  }
  before_ = {m.seconds, m.tokens};
  row[kStepSeconds] = finite(m.step_seconds);
  if (m.together) {
    const double busy = m.together->compute_seconds + m.together->wait_seconds;
    if (busy > 0) row[kWaitShare] = finite(m.together->wait_seconds / busy);
  }
  return row;
}

void Series::add(const observe::StepMetrics& metrics) {
  take_back(metrics.step);
  pending_.push_back(row_of(metrics));
  if (pending_.size() < stride_) return;
  rows_.push_back(joined(pending_));
  pending_.clear();
  if (rows_.size() > most_) halve();
}

void Series::take_back(std::int64_t step) {
  const auto is_later = [&](const Row& row) { return *row[kStep] >= static_cast<double>(step); };
  if (std::erase_if(pending_, is_later) > 0) before_.reset();
  if (rows_.empty() || !is_later(rows_.back())) return;
  std::erase_if(rows_, is_later);
  before_.reset();
  ++edition_;
}

void Series::halve() {
  std::vector<Row> half;
  std::size_t i = 0;
  for (; i + 2 <= rows_.size(); i += 2) half.push_back(joined(std::span(rows_).subspan(i, 2)));
  if (i < rows_.size()) pending_ = {rows_[i]};  // stands for half a row, and weighs a little more than it should
  rows_ = std::move(half);
  stride_ *= 2;
  ++edition_;
}

}  // namespace rookery::dashboard
