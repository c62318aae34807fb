#include "net/internal/channel_pipe.h"

#include <algorithm>
#include <deque>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace rookery::net::internal {
namespace {

constexpr std::size_t kPiece = 32 * 1024;
constexpr std::size_t kWindow = 16;  // messages that were written and have not left yet
constexpr Duration kLinger = std::chrono::seconds(5);

struct Outgoing {
  std::vector<std::byte> bytes;
  Send send;
};

// What the pipe shares with its loops.
struct State {
  State(Clock& c, std::unique_ptr<Channel> ch) : clock(c), channel(std::move(ch)) {}

  void check_open() const {
    if (closed) throw LinkError(Failure::kClosed, "", "the connection was closed");
  }

  void end(std::optional<LinkError>& half, const LinkError& why) {
    half = LinkError(why.failure(), "", why.text());  // whoever uses the pipe knows better who it is
    changed.notify();
  }

  ConstBytes unread() const { return arrived ? ConstBytes(arrived->payload).subspan(taken) : ConstBytes(); }

  Clock& clock;
  std::deque<Outgoing> out;  // goes before the channel, which must not touch it any more
  std::unique_ptr<Channel> channel;
  std::optional<Message> arrived;
  std::size_t taken = 0;  // bytes of it
  bool closed = false;    // by this end
  // By the other end, or with the link. What came before can still be read when nothing can be written any more.
  std::optional<LinkError> read_ended, write_ended;
  Signal changed;
};

// Takes the next message when the last one has been read; the others wait in the channel, within its budget.
Task<> pull(std::shared_ptr<State> state) {
  try {
    while (!state->closed) {
      auto receiving = state->channel->receive();
      state->arrived = co_await std::move(receiving);
      state->taken = 0;
      state->changed.notify();
      while (!state->closed && !state->unread().empty()) {
        auto wait = state->changed.wait();
        co_await std::move(wait);
      }
    }
  } catch (const LinkError& error) {
    state->end(state->read_ended, error);
  }
}

// Frees what has left, and tells those who wait for room.
Task<> push(std::shared_ptr<State> state) {
  try {
    while (!state->closed || !state->out.empty()) {
      if (state->out.empty()) {
        auto wait = state->changed.wait();
        co_await std::move(wait);
        continue;
      }
      auto leaving = state->out.front().send.finish();
      co_await std::move(leaving);
      state->out.pop_front();
      state->changed.notify();
    }
  } catch (const LinkError& error) {
    state->end(state->write_ended, error);
    co_return;
  }
  state->channel->close();
}

class ChannelPipe final : public Pipe {
 public:
  explicit ChannelPipe(std::shared_ptr<State> state) : state_(std::move(state)) {
    for (auto* loop : {&pull, &push}) {
      boost::asio::co_spawn(state_->clock.executor(), loop(state_), boost::asio::detached);
    }
  }
  ~ChannelPipe() override { ChannelPipe::close(); }

  std::size_t write(std::span<const ConstBytes> parts) override {
    State& s = *state_;
    s.check_open();
    if (s.write_ended) throw LinkError(*s.write_ended);
    if (s.read_ended) throw LinkError(*s.read_ended);
    std::size_t total = 0;
    for (ConstBytes part : parts) {
      while (!part.empty() && s.out.size() < kWindow) {
        Outgoing& out = s.out.emplace_back();
        const std::size_t n = std::min(part.size(), kPiece);
        out.bytes.assign(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(n));
        out.send.payload = out.bytes;
        s.channel->post(out.send);
        part = part.subspan(n);
        total += n;
      }
    }
    s.changed.notify();
    return total;
  }

  Task<> writable() override {
    const auto state = state_;
    while (!state->closed && !state->write_ended && !state->read_ended && state->out.size() == kWindow) {
      auto wait = state->changed.wait();
      co_await std::move(wait);
    }
  }

  std::size_t read(MutableBytes into) override {
    const ConstBytes next = view(into.size());
    std::ranges::copy(next, into.begin());
    skip(next.size());
    return next.size();
  }

  ConstBytes view(std::size_t limit) override {
    const State& s = *state_;
    s.check_open();
    const ConstBytes unread = s.unread();
    if (unread.empty() && s.read_ended) throw LinkError(*s.read_ended);
    return unread.first(std::min(limit, unread.size()));
  }

  void skip(std::size_t bytes) override {
    state_->taken += bytes;
    if (state_->unread().empty()) state_->changed.notify();
  }

  Task<> readable() override {
    const auto state = state_;
    while (!state->closed && !state->read_ended && state->unread().empty()) {
      auto wait = state->changed.wait();
      co_await std::move(wait);
    }
  }

  void close() override {
    if (state_->closed) return;
    state_->closed = true;
    state_->changed.notify();
    boost::asio::co_spawn(state_->clock.executor(), give_up(state_), boost::asio::detached);
  }

  std::size_t piece() const override { return kPiece; }

 private:
  // Whoever does not read does not keep a closed pipe alive.
  static Task<> give_up(std::shared_ptr<State> state) {
    const Time limit = state->clock.now() + kLinger;
    while (!state->write_ended && !state->out.empty() && state->clock.now() < limit) {
      auto wait = state->changed.wait_until(state->clock, limit);
      co_await std::move(wait);
    }
    state->channel->close();
  }

  std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<Pipe> make_channel_pipe(Clock& clock, std::unique_ptr<Channel> channel) {
  return std::make_unique<ChannelPipe>(std::make_shared<State>(clock, std::move(channel)));
}

}  // namespace rookery::net::internal
