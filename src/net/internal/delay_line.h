#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/signal.h"
#include "net/error.h"
#include "net/line.h"
#include "net/pipe.h"

namespace rookery::net::internal {

// Bytes on their way through a line: what is written comes out when it has arrived. Bounded: a writer waits when too
// much waits to leave, or when nobody takes what has arrived.
class DelayLine {
 public:
  DelayLine(Clock& clock, std::shared_ptr<Line> line);

  // As in Pipe.
  std::size_t write(std::span<const ConstBytes> parts);
  Task<> writable();
  std::size_t read(MutableBytes into);
  ConstBytes view(std::size_t limit);
  void skip(std::size_t bytes);
  Task<> readable();

  void close_writer();  // the reader gets what is on its way, then an end
  void close_reader();  // the writer gets an end at once
  const LineOptions& options() const { return line_->options(); }
  bool drained() const { return writer_closed_ && pieces_.empty(); }

  // Nothing arrives while the line is cut. What was sent is not lost, as little as with TCP.
  void set_cut(bool cut);

 private:
  struct Piece {
    Time departure;
    Time arrival;
    std::vector<std::byte> bytes;
  };

  std::size_t room();
  std::size_t least_room() const;
  Time next_room() const;
  void check_reader() const;

  Clock& clock_;
  std::shared_ptr<Line> line_;
  std::deque<Piece> pieces_;
  std::size_t skipped_ = 0;   // bytes of the first piece that were taken
  std::size_t queued_ = 0;    // bytes in pieces_, without those
  std::size_t departed_ = 0;  // how many of the pieces have left
  std::size_t unsent_ = 0;    // bytes of the others
  bool writer_closed_ = false, reader_closed_ = false, cut_ = false;
  Signal may_read_, may_write_;
};

}  // namespace rookery::net::internal
