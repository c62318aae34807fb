#include "observe/series.h"

namespace rookery::observe {

void Series::add(const Point& point) {
  if (last_ && point.step <= last_->step) forget_from(point.step);
  last_ = point;
  if (added_++ % stride_ != 0) return;
  kept_.push_back(point);
  if (kept_.size() < kMost) return;
  for (std::size_t i = 0; i < kMost / 2; ++i) kept_[i] = kept_[2 * i];
  kept_.resize(kMost / 2);
  stride_ *= 2;
}

// Some of those before it may be forgotten, too, but none that would be kept.
void Series::forget_from(std::int64_t step) {
  while (!kept_.empty() && kept_.back().step >= step) kept_.pop_back();
  added_ = kept_.size() * stride_;
}

std::vector<Point> Series::points() const {
  std::vector<Point> points = kept_;
  if (last_ && (points.empty() || points.back().step != last_->step)) points.push_back(*last_);
  return points;
}

}  // namespace rookery::observe
