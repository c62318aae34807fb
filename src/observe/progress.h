#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "observe/metrics.h"

namespace rookery::observe {

// The columns of the terminal that `fd` is, or 0 if it is none. Asked anew at every redraw, as windows change size.
int terminal_columns(int fd);

// How a run is going, for a person:
//
//   [=======>            ] 120/300  loss 2.314  eval 2.298  41.2 k tokens/s  ETA 12 s
//
// On a terminal the line is redrawn in place, at most ten times a second, and cut to the terminal's width. Elsewhere
// it is a plain line without the bar, at most every five seconds, and one for every evaluation.
class Progress : public Sink {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Unit { kTokens, kSamples };

  struct Options {
    std::int64_t total_steps = 0;
    std::int64_t first_step = 0;  // steps that were done before this process started
    Unit unit = Unit::kTokens;
    std::function<int()> columns = [] { return 0; };  // 0: not a terminal
    std::function<Time()> now = [] { return std::chrono::steady_clock::now(); };
  };

  // `out` must outlive the sink.
  Progress(std::ostream& out, Options options);
  ~Progress() override;  // ends the line, so that what comes next (an error) starts on its own
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics) override;
  void finish(const Summary& summary) override;

 private:
  void account(const StepMetrics& metrics, Time now);
  void draw(int columns);
  void end_line();
  std::vector<std::string> facts() const;  // what the line says, the most important first

  std::ostream& out_;
  Options options_;

  std::int64_t step_;
  std::int64_t drawn_step_;
  double loss_ = 0;                  // exponentially smoothed
  std::optional<double> eval_loss_;  // of the last evaluation
  std::optional<double> distance_;   // of the copies, then
  // Work and time of the last steps, older ones fading out; their quotients are the speeds shown.
  double recent_work_ = 0, recent_steps_ = 0, recent_seconds_ = 0;
  double recent_wait_ = 0, recent_busy_ = 0, recent_bytes_ = 0;  // of a swarm
  std::optional<std::int64_t> last_work_;                        // none: a resumed run before its first step
  Time last_step_time_;
  std::optional<Time> last_draw_;
  bool line_is_open_ = false;  // a line on the terminal has been drawn and not ended
};

}  // namespace rookery::observe
