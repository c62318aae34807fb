#include "net/testing/pipe_worlds.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/connect_pair.hpp>

#include "base/error.h"
#include "base/real_world.h"
#include "base/virtual_world.h"
#include "net/internal/channel_pipe.h"
#include "net/link.h"
#include "net/memory/memory_pipe.h"
#include "net/shaped_pipe.h"
#include "net/shm/shm_pipe.h"
#include "net/tcp/tcp_pipe.h"
#include "net/tls/tls_pipe.h"

namespace rookery::net::testing {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

const LineOptions kHomeNetwork{.bandwidth = 50e6, .latency = 20ms, .jitter = 5ms, .loss = 0.01};
const LineOptions kQuickNetwork{.bandwidth = 2e9, .latency = 100us, .jitter = 50us};

std::shared_ptr<Line> line(const LineOptions& options, std::uint64_t seed) {
  return std::make_shared<Line>(options, seed);
}

class Virtual : public PipeWorld {
 public:
  explicit Virtual(LineOptions options) : options_(options) {}

  Clock& clock() override { return world_.clock(); }
  PipePair connect() override { return make_memory_pipes(clock(), line(options_, 1), line(options_, 2)); }
  void run(Task<> task) override { world_.run(std::move(task), clock().now() + 1h); }

 private:
  LineOptions options_;
  VirtualWorld world_;
};

class Real : public PipeWorld {
 public:
  Clock& clock() override { return world_.clock(); }
  void run(Task<> task) override { world_.run(std::move(task), 60s); }

 protected:
  std::pair<asio::ip::tcp::socket, asio::ip::tcp::socket> connected_sockets() {
    asio::ip::tcp::acceptor acceptor(world_.io(), {asio::ip::address_v4::loopback(), 0});
    asio::ip::tcp::socket a(world_.io()), b(world_.io());
    a.connect(acceptor.local_endpoint());
    acceptor.accept(b);
    return {std::move(a), std::move(b)};
  }

  RealWorld world_;
};

class Tcp : public Real {
 public:
  PipePair connect() override {
    auto [a, b] = connected_sockets();
    return {make_tcp_pipe(std::move(a)), make_tcp_pipe(std::move(b))};
  }
};

class Shm : public Real {
 public:
  PipePair connect() override {
    UnixSocket a(world_.io()), b(world_.io());
    asio::local::connect_pair(a, b);
    auto offered = offer_shm_pipe(std::move(a));
    std::unique_ptr<Pipe> accepted;
    const auto accept = [&]() -> Task<> {
      auto accepting = accept_shm_pipe(clock(), std::move(b), clock().now() + 10s);
      accepted = co_await std::move(accepting);
    };
    run(accept());
    return {std::move(offered), std::move(accepted)};
  }
};

// Any world, with pipes that are channels of a link over its own.
template <typename World>
class Carried : public World {
 public:
  using World::World;
  ~Carried() override { links_.clear(); }

  PipePair connect() override {
    auto [a, b] = World::connect();
    return {carry(std::move(a)), carry(std::move(b))};
  }

 private:
  std::unique_ptr<Pipe> carry(std::unique_ptr<Pipe> pipe) {
    std::vector<std::unique_ptr<Pipe>> pipes;
    pipes.push_back(std::move(pipe));
    links_.push_back(make_link(this->clock(), std::move(pipes), {.peer = "carrier"}));
    return internal::make_channel_pipe(this->clock(), links_.back()->open({}, internal::kChannelPipeBudget));
  }

  std::vector<std::unique_ptr<Link>> links_;
};

// Any world, with its pipes encrypted.
template <typename World>
class Secured : public World {
 public:
  using World::World;
  PipePair connect() override {
    auto [a, b] = World::connect();
    const auto handshake = [&](std::unique_ptr<Pipe>& pipe, TlsRole role) -> Task<> {
      auto securing = secure(this->clock(), std::move(pipe), identity_, role, this->clock().now() + 10s);
      SecurePipe secured = co_await std::move(securing);
      pipe = std::move(secured.pipe);
    };
    TaskGroup group(this->executor());
    group.spawn(handshake(a, TlsRole::kClient));
    group.spawn(handshake(b, TlsRole::kServer));
    this->run(group.join());
    return {std::move(a), std::move(b)};
  }

 private:
  Identity identity_ = Identity::generate();
};

// Any world, with both ends of its pipes shaped.
template <typename World>
class Shaped : public World {
 public:
  using World::World;
  PipePair connect() override {
    auto [a, b] = World::connect();
    return {make_shaped_pipe(this->clock(), std::move(a), line(kQuickNetwork, 3)),
            make_shaped_pipe(this->clock(), std::move(b), line(kQuickNetwork, 4))};
  }
};

}  // namespace

const std::vector<PipeKind>& pipe_kinds() {
  static const std::vector<PipeKind> kinds = {
      {"memory", [] { return std::make_unique<Virtual>(LineOptions{}); }},
      {"virtual", [] { return std::make_unique<Virtual>(kHomeNetwork); }},
      {"tcp", [] { return std::make_unique<Tcp>(); }},
      {"shm", [] { return std::make_unique<Shm>(); }},
      {"carried_virtual", [] { return std::make_unique<Carried<Virtual>>(kHomeNetwork); }},
      {"carried_tcp", [] { return std::make_unique<Carried<Tcp>>(); }},
      {"tls_virtual", [] { return std::make_unique<Secured<Virtual>>(kHomeNetwork); }},
      {"tls_tcp", [] { return std::make_unique<Secured<Tcp>>(); }},
      {"shaped_tls_tcp", [] { return std::make_unique<Shaped<Secured<Tcp>>>(); }},
      {"shaped_shm", [] { return std::make_unique<Shaped<Shm>>(); }},
      {"shaped_memory", [] { return std::make_unique<Shaped<Virtual>>(LineOptions{}); }},
      {"shaped_tcp", [] { return std::make_unique<Shaped<Tcp>>(); }},
  };
  return kinds;
}

}  // namespace rookery::net::testing
