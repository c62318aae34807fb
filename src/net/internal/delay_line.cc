#include "net/internal/delay_line.h"

#include <algorithm>
#include <cstring>

namespace rookery::net::internal {
namespace {

// What may wait to leave. Where small messages stand for large ones, it is those that count: nobody waits longer.
std::size_t most_unsent(const LineOptions& o) {
  constexpr double kUsual = 256 * 1024, kLeast = 2 * 1024;
  return static_cast<std::size_t>(std::max(kLeast, kUsual / std::max(1.0, o.scale)));
}

// What may be on its way or wait for the reader: twice what fits the line, so that waiting never slows it down.
std::size_t window(const LineOptions& o) {
  constexpr std::size_t kLeast = 256 * 1024, kMost = 64 << 20;
  if (o.latency + o.jitter == Duration{}) return kLeast;
  if (o.bandwidth == 0) return kMost;
  const double seconds = std::chrono::duration<double>(2 * (o.latency + o.jitter)).count();
  return static_cast<std::size_t>(std::clamp(2 * seconds * o.bandwidth / 8 / o.scale, double{kLeast}, double{kMost}));
}

}  // namespace

DelayLine::DelayLine(Clock& clock, std::shared_ptr<Line> line) : clock_(clock), line_(std::move(line)) {}

std::size_t DelayLine::room() {
  while (departed_ < pieces_.size() && pieces_[departed_].departure <= clock_.now()) {
    unsent_ -= pieces_[departed_++].bytes.size();
  }
  const std::size_t unsent = most_unsent(line_->options()), by_line = unsent - std::min(unsent, unsent_);
  const std::size_t most = unsent + window(line_->options());
  const std::size_t room = std::min(by_line, most - std::min(most, queued_));
  return room < least_room() ? 0 : room;
}

// Less is not worth a piece of its own: whoever waits for every byte that leaves writes as few at a time.
std::size_t DelayLine::least_room() const { return most_unsent(line_->options()) / 2; }

// When as much will have left as room() is short of.
Time DelayLine::next_room() const {
  const std::size_t enough = most_unsent(line_->options()) - least_room();
  std::size_t left = unsent_;
  for (std::size_t i = departed_; i < pieces_.size(); ++i) {
    left -= pieces_[i].bytes.size();
    if (left <= enough) return pieces_[i].departure;
  }
  return kNever;  // it is the reader who has to make room
}

std::size_t DelayLine::write(std::span<const ConstBytes> parts) {
  if (reader_closed_ || writer_closed_) throw LinkError(Failure::kClosed, "", "the connection was closed");
  const std::size_t space = room();
  const bool was_empty = pieces_.empty();
  std::size_t written = 0;
  bool after_header = false;
  for (ConstBytes part : parts) {
    const bool is_control = part.size() <= Line::kControlBytes;
    while (!part.empty() && written < space) {
      std::size_t n = std::min({part.size(), space - written, line_->piece()});
      if (part.size() - n <= Line::kControlBytes) n = part.size();  // a rest would pass for a header
      const auto [departure, arrival] = line_->send(clock_.now(), n, is_control);
      // Nobody can do anything with a header before what follows it.
      if (is_control || !after_header) pieces_.emplace_back();
      Piece& piece = pieces_.back();
      piece.departure = departure;
      piece.arrival = arrival;
      piece.bytes.insert(piece.bytes.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
      after_header = is_control;
      part = part.subspan(n);
      written += n;
    }
  }
  queued_ += written;
  unsent_ += written;
  if (was_empty && written > 0) may_read_.notify();  // otherwise the reader waits for the first, not for these
  return written;
}

Task<> DelayLine::writable() {
  while (!reader_closed_ && !writer_closed_ && room() == 0) {
    auto wait = may_write_.wait_until(clock_, next_room());
    co_await std::move(wait);
  }
}

void DelayLine::check_reader() const {
  if (reader_closed_ || drained()) throw LinkError(Failure::kClosed, "", "the connection was closed");
}

ConstBytes DelayLine::view(std::size_t limit) {
  check_reader();
  if (cut_ || pieces_.empty() || pieces_.front().arrival > clock_.now()) return {};
  const ConstBytes left = ConstBytes(pieces_.front().bytes).subspan(skipped_);
  return left.first(std::min(limit, left.size()));
}

void DelayLine::skip(std::size_t bytes) {
  if (bytes == 0) return;
  skipped_ += bytes;
  queued_ -= bytes;
  if (skipped_ < pieces_.front().bytes.size()) return;
  skipped_ = 0;
  if (departed_ == 0) room();  // it has arrived, so it has departed; only nobody has looked
  --departed_;
  pieces_.pop_front();
  may_write_.notify();
}

std::size_t DelayLine::read(MutableBytes into) {
  std::size_t copied = 0;
  while (copied < into.size()) {
    const ConstBytes next = copied > 0 && drained() ? ConstBytes() : view(into.size() - copied);
    if (next.empty()) break;
    std::memcpy(into.data() + copied, next.data(), next.size());
    copied += next.size();
    skip(next.size());
  }
  return copied;
}

Task<> DelayLine::readable() {
  while (!reader_closed_ && !drained()) {
    const Time next = cut_ || pieces_.empty() ? kNever : pieces_.front().arrival;
    if (next <= clock_.now()) break;
    auto wait = may_read_.wait_until(clock_, next);
    co_await std::move(wait);
  }
}

void DelayLine::close_writer() {
  writer_closed_ = true;
  may_read_.notify();
  may_write_.notify();
}

void DelayLine::close_reader() {
  reader_closed_ = true;
  may_read_.notify();
  may_write_.notify();
}

void DelayLine::set_cut(bool cut) {
  cut_ = cut;
  may_read_.notify();
}

}  // namespace rookery::net::internal
