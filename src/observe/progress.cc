#include "observe/progress.h"

#include <algorithm>
#include <cmath>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "base/units.h"

namespace rookery::observe {
namespace {

using std::chrono::nanoseconds;

constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
constexpr auto kPlainLineEvery = std::chrono::seconds(5);
constexpr double kFade = 0.95;  // weight of the past at each step, in loss and speeds
constexpr int kUsualColumns = 80;

// "[=====>    ]", `width` characters with the brackets. Requires: width >= 3.
std::string bar(double share, int width) {
  const int inside = width - 2;
  const int done = static_cast<int>(std::clamp(share, 0.0, 1.0) * inside);
  std::string text(static_cast<std::size_t>(done), '=');
  if (done < inside) text += '>';
  return fmt::format("[{:<{}}]", text, inside);
}

}  // namespace

int terminal_columns(int fd) {
  if (::isatty(fd) == 0) return 0;
  winsize size{};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

Progress::Progress(std::ostream& out, Options options)
    : out_(out),
      options_(std::move(options)),
      step_(options_.first_step),
      drawn_step_(step_),
      last_step_time_(options_.now()) {
  if (options_.first_step == 0) last_work_ = 0;
}

void Progress::step(const StepMetrics& metrics) {
  const Time now = options_.now();
  account(metrics, now);
  const int columns = options_.columns();
  const bool is_due = !last_draw_ || now - *last_draw_ >= (columns > 0 ? nanoseconds(kRedrawEvery) : kPlainLineEvery);
  if (!is_due && (columns > 0 || !metrics.eval_loss)) return;
  draw(columns);
  last_draw_ = now;
}

void Progress::finish(const Summary&) {
  if (step_ != drawn_step_) draw(options_.columns());
  end_line();
}

Progress::~Progress() { end_line(); }

void Progress::end_line() {
  if (line_is_open_) out_ << '\n' << std::flush;
  line_is_open_ = false;
}

void Progress::account(const StepMetrics& metrics, Time now) {
  const bool first = step_ == options_.first_step;
  loss_ = first || !std::isfinite(loss_) ? metrics.loss : kFade * loss_ + (1 - kFade) * metrics.loss;
  if (metrics.eval_loss) eval_loss_ = metrics.eval_loss;
  if (metrics.consensus_distance) distance_ = metrics.consensus_distance;
  if (metrics.together) {
    recent_wait_ = kFade * recent_wait_ + metrics.together->wait_seconds;
    recent_busy_ = kFade * recent_busy_ + metrics.together->compute_seconds;
    recent_bytes_ = kFade * recent_bytes_ + static_cast<double>(metrics.together->bytes_sent);
  }

  const std::int64_t work = options_.unit == Unit::kTokens ? metrics.tokens : metrics.samples;
  if (last_work_) {
    recent_work_ = kFade * recent_work_ + static_cast<double>(work - *last_work_);
    recent_steps_ = kFade * recent_steps_ + static_cast<double>(metrics.step - step_);
    recent_seconds_ = kFade * recent_seconds_ + std::chrono::duration<double>(now - last_step_time_).count();
  }
  last_work_ = work;
  last_step_time_ = now;
  step_ = metrics.step;
}

std::vector<std::string> Progress::facts() const {
  std::vector<std::string> facts = {fmt::format("{}/{}", step_, options_.total_steps),
                                    fmt::format("loss {:.4g}", loss_)};
  if (eval_loss_) facts.push_back(fmt::format("eval {:.4g}", *eval_loss_));
  if (recent_seconds_ > 0) {
    const char* unit = options_.unit == Unit::kTokens ? "tokens" : "samples";
    facts.push_back(fmt::format("{} {}/s", format_count(recent_work_ / recent_seconds_), unit));
    const std::int64_t left = std::max<std::int64_t>(0, options_.total_steps - step_);
    const double seconds = static_cast<double>(left) * recent_seconds_ / std::max(recent_steps_, 1e-9);
    // Whole seconds: more would pretend to know the future. A hundred years is as good as for ever.
    const auto whole = std::chrono::seconds(std::llround(std::min(seconds, 3e9)));
    if (left > 0) facts.push_back(fmt::format("ETA {}", format_duration(whole)));
  }
  if (recent_busy_ + recent_wait_ > 0) {
    facts.push_back(fmt::format("waiting {:.0f}%", 100 * recent_wait_ / (recent_busy_ + recent_wait_)));
    if (recent_seconds_ > 0) {
      facts.push_back(fmt::format("{}/s sent", format_bytes(static_cast<Bytes>(recent_bytes_ / recent_seconds_))));
    }
  }
  if (distance_) facts.push_back(fmt::format("distance {:.2g}", *distance_));
  return facts;
}

void Progress::draw(int columns) {
  drawn_step_ = step_;
  const std::vector<std::string> all = facts();
  if (columns <= 0) {
    out_ << fmt::format("step {}\n", fmt::join(all, "  ")) << std::flush;
    return;
  }
  // What fits, without the last column, where some terminals wrap. The bar takes the room that is left.
  const auto room = static_cast<std::size_t>(columns - 1);
  std::string line = all.front().substr(0, room);
  for (auto fact = all.begin() + 1; fact != all.end() && line.size() + 2 + fact->size() <= room; ++fact) {
    line += "  " + *fact;
  }
  constexpr std::size_t kSmallestBar = 8, kLargestBar = 22;
  if (line.size() + 1 + kSmallestBar <= room) {
    const auto width = static_cast<int>(std::min(kLargestBar, room - line.size() - 1));
    line =
        bar(static_cast<double>(step_) / static_cast<double>(std::max<std::int64_t>(1, options_.total_steps)), width) +
        " " + line;
  }
  out_ << "\r" << line << "\x1b[K" << std::flush;  // to the end of the line: what the last drawing left
  line_is_open_ = true;
}

}  // namespace rookery::observe
