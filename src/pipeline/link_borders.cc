#include "pipeline/link_borders.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "base/error.h"
#include "wire/frame.h"

namespace rookery::pipeline {
namespace {

using net::LinkError;

// One channel for both directions between two stages.
constexpr std::uint16_t kBorderPurpose = 0x0400;

// Where only the newest matters: so many that were not worth sending.
constexpr std::uint64_t kMostSkipped = 1 << 20;

struct Outgoing {
  Border border;
  BorderMessage message;
  net::Send send;
  std::optional<Span> span;
};

}  // namespace

// Lasts until the last task has ended, which may be after LinkBorders has gone.
struct LinkBorders::Core {
  // One neighbour. The queue is of the home, the rest of the clock's executor.
  struct Side {
    std::unique_ptr<net::Channel> channel;
    std::string peer;  // constant
    std::deque<Border> come;
    std::size_t most = 0;   // that may wait in the queue; constant
    std::size_t bytes = 0;  // of each, at most
    std::uint64_t received = 0;
    std::atomic<std::size_t> on_their_way{0};  // from there to the queue; counted by both
  };

  Core(Clock& c, Executor h, LinkBordersOptions o) : clock(c), home(std::move(h)), options(o) {}

  void open(Side& side, net::Link* link, std::size_t most, std::size_t bytes) {
    if (link == nullptr) return;
    side.peer = link->peer();
    side.most = most;
    side.bytes = bytes;
    const std::size_t budget = most * (bytes + net::Channel::kMessageCost);
    side.channel = link->open({.purpose = kBorderPurpose, .generation = options.generation, .index = options.index},
                              std::max(budget, net::Channel::kBudget));
  }

  static Task<> receive(std::shared_ptr<Core> self, Side& side) {
    try {
      for (;;) {
        auto receiving = side.channel->receive();
        net::Message message = co_await std::move(receiving);
        if (message.payload.size() > side.bytes) throw wire::WireError("a border that is too large");
        Border came = from_message(std::move(message.payload));
        const std::uint64_t skipped = came.micro_batch - side.received;
        if (skipped > (self->is_newest(side, self->previous) ? kMostSkipped : 0)) {
          throw wire::WireError("a border of another micro-batch than was due");
        }
        side.received = came.micro_batch + 1;
        if (side.on_their_way++ >= self->most_on_their_way(side)) {
          throw wire::WireError("sent more micro-batches than it may");
        }
        boost::asio::post(self->home, [self, &side, border = std::move(came)]() mutable {
          --side.on_their_way;
          if (side.come.size() == side.most && self->is_newest(side, self->previous)) side.come.pop_front();
          if (side.come.size() < side.most) {
            side.come.push_back(std::move(border));
          } else if (!self->failure) {
            self->failure = std::make_exception_ptr(
                LinkError(net::Failure::kProtocol, side.peer, "sent more micro-batches than it may"));
          }
          self->changed.notify();
        });
      }
    } catch (const LinkError& error) {
      self->cancel(error);
    } catch (const wire::WireError& error) {
      self->cancel(LinkError(net::Failure::kProtocol, side.peer, error.what()));
    }
  }

  static Task<> deliver(std::shared_ptr<Core> self, Side& side, std::unique_ptr<Outgoing> outgoing) {
    try {
      side.channel->post(outgoing->send);
      auto sending = outgoing->send.finish();
      co_await std::move(sending);
    } catch (const LinkError& error) {
      self->cancel(error);
    }
  }

  // Sends one, and then what has come to wait meanwhile.
  static Task<> deliver_newest(std::shared_ptr<Core> self, Side& side, std::unique_ptr<Outgoing> outgoing) {
    for (; outgoing && !self->cancelled; outgoing = std::move(self->waiting)) {
      auto delivering = deliver(self, side, std::move(outgoing));
      co_await std::move(delivering);
    }
    self->is_delivering = false;
  }

  // While the home computes nothing is taken in; an honest neighbour has no more to send meanwhile.
  std::size_t most_on_their_way(const Side& side) const {
    constexpr std::size_t kMostUpdates = 256;  // in a micro-batch's time: as many as may be in flight
    return is_newest(side, previous) ? std::max(side.most, kMostUpdates) : side.most;
  }

  // Only the newest matters of what passes this side, `forward` being where it does.
  bool is_newest(const Side& side, const Side& forward) const { return options.newest_forward && &side == &forward; }

  void send(const std::shared_ptr<Core>& self, Side& side, Border border) {
    ROOKERY_CHECK(side.channel != nullptr);
    auto outgoing = std::make_unique<Outgoing>();
    const std::uint64_t number = border.micro_batch;
    outgoing->border = std::move(border);
    outgoing->message = to_message(outgoing->border, options.codec);
    outgoing->send.payload = outgoing->message.header;
    outgoing->send.more = outgoing->message.payload;
    outgoing->span.emplace(options.watch, &side == &next ? "send forward" : "send backward", number);
    boost::asio::post(clock.executor(), [self, &side, outgoing = std::move(outgoing)]() mutable {
      if (self->is_newest(side, self->next)) {
        if (std::exchange(self->is_delivering, true)) {
          self->waiting = std::move(outgoing);
          return;
        }
        boost::asio::co_spawn(self->clock.executor(), deliver_newest(self, side, std::move(outgoing)),
                              boost::asio::detached);
        return;
      }
      boost::asio::co_spawn(self->clock.executor(), deliver(self, side, std::move(outgoing)), boost::asio::detached);
    });
  }

  // What came before the failure is still there, in order.
  std::optional<Border> take(Side& side) {
    if (side.come.empty()) {
      if (failure) std::rethrow_exception(failure);
      return std::nullopt;
    }
    Border border = std::move(side.come.front());
    side.come.pop_front();
    return border;
  }

  void cancel(const LinkError& reason) {
    if (cancelled) return;
    cancelled = true;
    for (Side* side : {&previous, &next}) {
      if (side->channel) side->channel->close(reason);
    }
    boost::asio::post(home, [self = weak.lock(), reason] {
      if (!self) return;
      if (!self->failure) self->failure = std::make_exception_ptr(reason);
      self->changed.notify();
    });
  }

  Clock& clock;
  Executor home;
  LinkBordersOptions options;
  Side previous, next;
  std::weak_ptr<Core> weak;
  // Of the clock's executor. Where only the newest matters, one is being delivered at a time, and one waits.
  bool cancelled = false, is_delivering = false;
  std::unique_ptr<Outgoing> waiting;

  // Of the home.
  std::exception_ptr failure;
  Signal changed;
};

LinkBorders::LinkBorders(Clock& clock, Executor home, net::Link* previous, net::Link* next, LinkBordersOptions options)
    : core_(std::make_shared<Core>(clock, std::move(home), options)) {
  core_->weak = core_;
  core_->open(core_->previous, previous, options.most_forward, options.forward_bytes);
  core_->open(core_->next, next, options.most_backward, options.backward_bytes);
  for (Core::Side* side : {&core_->previous, &core_->next}) {
    if (!side->channel) continue;
    boost::asio::co_spawn(clock.executor(), Core::receive(core_, *side), boost::asio::detached);
  }
}

LinkBorders::~LinkBorders() { cancel(LinkError(net::Failure::kCancelled, "", "left the pipeline")); }

void LinkBorders::send_forward(Border border) { core_->send(core_, core_->next, std::move(border)); }
void LinkBorders::send_backward(Border border) { core_->send(core_, core_->previous, std::move(border)); }
std::optional<Border> LinkBorders::take_forward() { return core_->take(core_->previous); }
std::optional<Border> LinkBorders::take_backward() { return core_->take(core_->next); }
Signal& LinkBorders::changed() { return core_->changed; }
void LinkBorders::cancel(const LinkError& reason) { core_->cancel(reason); }

}  // namespace rookery::pipeline
