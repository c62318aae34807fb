#include "net/shaped_pipe.h"

#include <algorithm>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "net/internal/delay_line.h"

namespace rookery::net {
namespace {

constexpr Duration kLinger = std::chrono::seconds(1);

// What the pipe and its pump share. The pump moves what has passed the line on to the inner pipe; it ends when the
// shaped pipe is closed and everything has been moved, or when the inner pipe fails.
struct Shared {
  Shared(Clock& c, std::unique_ptr<Pipe> p, std::shared_ptr<Line> l)
      : clock(c), inner(std::move(p)), line(c, std::move(l)), linger(c) {}

  Clock& clock;

  std::unique_ptr<Pipe> inner;
  internal::DelayLine line;
  std::optional<LinkError> failure;
  bool closed = false;
  Alarm linger;  // how long a closed pipe may take for what is on its way
};

Task<> pump(std::shared_ptr<Shared> shared) {
  try {
    while (!shared->line.drained()) {
      const ConstBytes bytes = shared->line.view(1 << 20);
      if (bytes.empty()) {
        auto readable = shared->line.readable();
        co_await std::move(readable);
        continue;
      }
      const std::size_t n = shared->inner->write(std::span(&bytes, 1));
      if (n > 0) {
        shared->line.skip(n);
        continue;
      }
      auto writable = shared->inner->writable();
      co_await std::move(writable);
    }
  } catch (const LinkError& error) {
    shared->failure = error;
    shared->line.close_reader();
  }
  shared->linger.cancel();
  shared->inner->close();
}

class ShapedPipe final : public Pipe {
 public:
  ShapedPipe(Clock& clock, std::unique_ptr<Pipe> inner, std::shared_ptr<Line> line)
      : shared_(std::make_shared<Shared>(clock, std::move(inner), std::move(line))) {
    boost::asio::co_spawn(clock.executor(), pump(shared_), boost::asio::detached);
  }
  ~ShapedPipe() override { ShapedPipe::close(); }

  std::size_t write(std::span<const ConstBytes> parts) override {
    check();
    return shared_->line.write(parts);
  }
  Task<> writable() override { return shared_->line.writable(); }
  std::size_t read(MutableBytes into) override {
    check();
    return shared_->inner->read(into);
  }
  ConstBytes view(std::size_t limit) override {
    check();
    return shared_->inner->view(limit);
  }
  void skip(std::size_t bytes) override { shared_->inner->skip(bytes); }
  Task<> readable() override { return shared_->inner->readable(); }

  // The pump ends what is on its way, and then the inner pipe.
  void close() override {
    if (shared_->closed) return;
    shared_->closed = true;
    shared_->line.close_writer();
    const LineOptions& line = shared_->line.options();
    Pipe& inner = *shared_->inner;
    shared_->linger.set(shared_->clock.now() + kLinger + 2 * (line.latency + line.jitter), [&inner] { inner.close(); });
  }

  std::size_t piece() const override { return std::min<std::size_t>(shared_->inner->piece(), 64 * 1024); }

 private:
  void check() const {
    if (shared_->failure) throw LinkError(*shared_->failure);
    if (shared_->closed) throw LinkError(Failure::kClosed, "", "the connection was closed");
  }

  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<Pipe> make_shaped_pipe(Clock& clock, std::unique_ptr<Pipe> inner, std::shared_ptr<Line> line) {
  return std::make_unique<ShapedPipe>(clock, std::move(inner), std::move(line));
}

}  // namespace rookery::net
