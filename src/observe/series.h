#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace rookery::observe {

// What a quantity was after a step, and how far the run had come.
struct Point {
  std::int64_t step = 0;
  double seconds = 0;
  double samples = 0;
  double value = 0;

  bool operator==(const Point&) const = default;
};

// How a quantity went in the course of a run, in bounded memory: of many points, evenly chosen ones are kept.
class Series {
 public:
  static constexpr std::size_t kMost = 4096;

  // A point of a step that was there already takes the place of all points from that step on: they were done again.
  void add(const Point& point);

  // In order of steps, with the first and the last; all if fewer than kMost were added, else at least half as many.
  std::vector<Point> points() const;

  bool is_empty() const { return !last_; }

 private:
  void forget_from(std::int64_t step);

  std::vector<Point> kept_;  // each `stride_`-th that was added
  std::optional<Point> last_;
  std::size_t added_ = 0, stride_ = 1;
};

}  // namespace rookery::observe
