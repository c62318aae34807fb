#include "measure/peer.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <optional>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/real_world.h"
#include "collective/group_exchange.h"
#include "collective/ring_all_reduce.h"
#include "measure/stream.h"
#include "net/host.h"
#include "net/shared_memory.h"
#include "net/tcp/tcp_transport.h"

namespace rookery::measure {
namespace {

using collective::Codec;
using collective::RingAllReduce;
using nlohmann::json;

constexpr net::ChannelId kValues{.purpose = 1}, kBarrier{.purpose = 2}, kStream{.purpose = 3}, kExchange{.purpose = 4};
constexpr std::size_t kWarmUp = 2;

class Peer {
 public:
  Peer(ControlSocket& control, const BenchOptions& options, std::size_t rank)
      : control_(control), options_(options), rank_(rank), transport_(net::make_tcp_transport(world_.clock())) {}

  int run() {
    net::Host host(world_.clock(), *transport_, net::Identity::generate(), host_options());
    host.listen("127.0.0.1:0", [](const net::Guest&) {});
    control_.send(json{{"address", host.address()}, {"key", host.identity().fingerprint().text()}}.dump());
    const auto others = control_.receive(kPatience);
    if (!others) throw Error("{}: nobody said where the others are", peer_name(rank_));
    int exit_code = 0;
    try {
      world_.run(measure(host, json::parse(*others)));
    } catch (const Error& error) {
      exit_code = 1;
      control_.send(json{{"failure", error.what()}}.dump());
    }
    world_.run(told_to_end(), kPatience);
    next_.link.reset();
    previous_.link.reset();
    host.close();
    return exit_code;
  }

 private:
  net::HostOptions host_options() const {
    net::HostOptions host{.name = peer_name(rank_),
                          .encrypt = options_.tls,
                          .share_memory = options_.transport != TransportChoice::kTcp,
                          .lanes = options_.lanes};
    host.shaping = options_.line;
    host.silence = options_.deadline;
    host.heartbeat = std::max<Duration>(options_.deadline / 5, std::chrono::milliseconds(1));
    return host;
  }

  net::Link& next() { return *next_.link; }
  net::Link& previous() { return options_.peers == 2 ? *next_.link : *previous_.link; }

  Task<> measure(net::Host& host, json others) {
    co_await connect(host, others);
    const collective::Ring ring{.rank = rank_, .size = options_.peers, .previous = &previous(), .next = &next()};
    RingAllReduce barrier(world_.clock(), ring, kBarrier, {});
    json report;
    if (options_.operation == Operation::kAllReduce) {
      co_await all_reduce(ring, barrier, report);
    } else if (options_.operation == Operation::kExchange) {
      co_await exchange(barrier, report);
    } else {
      co_await stream(barrier, report);
    }
    control_.send(report.dump());
  }

  // Everybody dials the next one, and is dialled by the one before; a ring of two needs one link only.
  Task<> connect(net::Host& host, const json& others) {
    const std::size_t peers = options_.peers;
    if (peers > 2 || rank_ == 0) {
      const json& other = others.at((rank_ + 1) % peers);
      auto dialling =
          host.dial(other.at("address"), net::Fingerprint::parse(other.at("key").get<std::string>()), std::nullopt);
      next_ = co_await std::move(dialling);
    }
    if (peers > 2 || rank_ == 1) {
      auto accepting = host.accept();
      (peers > 2 ? previous_ : next_) = co_await std::move(accepting);
    }
  }

  // Memory that peers on the same host read in place, as the parameters of a model are.
  std::span<float> shared_floats(std::size_t count) {
    memory_ = std::make_shared<net::SharedMemory>(std::max<std::size_t>(count, 1) * sizeof(float));
    next().share(memory_);
    if (options_.peers > 2) previous().share(memory_);
    return {reinterpret_cast<float*>(memory_->bytes().data()), count};
  }

  Task<> wait_for_all(RingAllReduce& barrier) {
    float nothing[1] = {0};
    auto waiting = barrier.run({.values = nothing});
    co_await std::move(waiting);
  }

  Task<> all_reduce(collective::Ring ring, RingAllReduce& barrier, json& report) {
    RingAllReduce reduce(world_.clock(), ring, kValues, {.codec = options_.codec, .stall = 3 * options_.deadline});
    const auto operation = [&](std::span<float> values) { return reduce.run({.values = values}); };
    std::vector<std::size_t> everybody(options_.peers);
    std::iota(everybody.begin(), everybody.end(), 0);
    co_await repeat(operation, barrier, everybody, 1, report);
  }

  // Ranks 0 and 1, 2 and 3, …
  Task<> exchange(RingAllReduce& barrier, json& report) {
    net::Link& link = rank_ % 2 == 0 ? next() : previous();
    collective::GroupExchange pair(world_.clock(), {&link}, rank_ % 2, kExchange,
                                   {.codec = options_.codec, .stall = 3 * options_.deadline});
    const auto operation = [&](std::span<float> values) { return pair.run(values, {0.5f, 0.5f}); };
    const std::vector<std::size_t> both = {rank_ / 2 * 2, rank_ / 2 * 2 + 1};
    co_await repeat(operation, barrier, both, 0.5, report);
  }

  // Times an operation that leaves `weight` times the sum over `members`.
  template <typename Operation>
  Task<> repeat(const Operation& operation, RingAllReduce& barrier, const std::vector<std::size_t>& members,
                double weight, json& report) {
    const std::size_t count = static_cast<std::size_t>(options_.bytes) / sizeof(float);
    const std::span<float> values = shared_floats(count);
    std::vector<double> seconds;
    std::optional<net::LinkError> failure;
    try {
      for (std::size_t i = 0; i < kWarmUp + options_.iterations; ++i) {
        for (std::size_t k = 0; k < count; ++k) values[k] = contribution(rank_, k);
        co_await wait_for_all(barrier);
        const Time start = world_.clock().now();
        auto running = operation(values);
        co_await std::move(running);
        if (i >= kWarmUp) seconds.push_back(std::chrono::duration<double>(world_.clock().now() - start).count());
        check(values, members, weight);
      }
    } catch (const net::LinkError& error) {
      failure = error;
    }
    if (failure) give_up(*failure);
    report["seconds"] = seconds;
  }

  // Others may wait for this peer in another operation than the one that has failed: they learn the reason, too.
  [[noreturn]] void give_up(const net::LinkError& why) {
    next().close(why);
    previous().close(why);
    throw net::LinkError(why);
  }

  // Small whole numbers, so that their sums are exact.
  static float contribution(std::size_t rank, std::size_t k) { return static_cast<float>((7 * k + 13 * rank) % 101); }

  void check(std::span<const float> values, const std::vector<std::size_t>& members, double weight) const {
    const double relative = options_.codec == Codec::kNone ? 0 : options_.codec == Codec::kBf16 ? 0.01 : 0.02;
    const double allowed = relative * 100 * static_cast<double>(members.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      float sum = 0;
      for (const std::size_t rank : members) sum += contribution(rank, k);
      if (!(std::abs(values[k] - weight * sum) <= allowed)) {
        throw Error("{}: the result at {} is {}, but should be {}", peer_name(rank_), k, values[k], weight * sum);
      }
    }
  }

  // The first peer sends to the second, in messages that suit the link, and waits for its answer.
  Task<> stream(RingAllReduce& barrier, json& report) {
    const auto channel = next().open(kStream);
    const auto bytes = std::as_writable_bytes(shared_floats(static_cast<std::size_t>(options_.bytes) / sizeof(float)));
    const std::size_t piece = next().piece();
    std::vector<double> seconds;
    for (std::size_t i = 0; i < kWarmUp + options_.iterations; ++i) {
      co_await wait_for_all(barrier);
      const Time start = world_.clock().now();
      if (rank_ == 0) {
        co_await send_stream(*channel, bytes, piece);
      } else {
        co_await receive_stream(*channel, bytes, piece);
      }
      if (i >= kWarmUp) seconds.push_back(std::chrono::duration<double>(world_.clock().now() - start).count());
    }
    report["seconds"] = seconds;
    report["latency"] = co_await ping_pong(*channel);
  }

  // The median of half a round trip.
  Task<double> ping_pong(net::Channel& channel) {
    std::vector<double> seconds;
    for (int i = 0; i < 101; ++i) {
      const Time start = world_.clock().now();
      for (const bool speaks : {rank_ == 0, rank_ != 0}) {
        if (speaks) {
          auto sending = channel.send({});
          co_await std::move(sending);
        } else {
          auto receiving = channel.receive();
          co_await std::move(receiving);
        }
      }
      seconds.push_back(std::chrono::duration<double>(world_.clock().now() - start).count() / 2);
    }
    std::ranges::sort(seconds);
    co_return quantile(seconds, 0.5);
  }

  // Until then the links stay alive, for those who are not done yet.
  Task<> told_to_end() {
    boost::asio::posix::stream_descriptor descriptor(world_.executor(), ::dup(control_.fd()));
    boost::system::error_code error;
    co_await descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                   boost::asio::redirect_error(kAwaitable, error));
  }

  ControlSocket& control_;
  const BenchOptions& options_;
  std::size_t rank_;
  RealWorld world_;
  std::unique_ptr<net::Transport> transport_;
  net::Meeting next_, previous_;
  std::shared_ptr<net::SharedMemory> memory_;
};

}  // namespace

std::string peer_name(std::size_t rank) { return "p" + std::to_string(rank); }

int run_peer(ControlSocket& control, const BenchOptions& options, std::size_t rank) {
  Peer peer(control, options, rank);
  return peer.run();
}

}  // namespace rookery::measure
