#include "train/look_on.h"

#include <optional>

#include "base/real_world.h"
#include "net/error.h"
#include "net/host.h"
#include "net/tcp/tcp_transport.h"
#include "swarm/talk.h"

namespace rookery::train {

using net::Failure;
using net::LinkError;

struct LookOn::Core {
  explicit Core(bool encrypt)
      : transport(net::make_tcp_transport(world.clock())),
        host(world.clock(), *transport, net::Identity::generate(), {.name = "onlooker", .encrypt = encrypt}) {}

  RealWorld world{};
  std::unique_ptr<net::Transport> transport;
  net::Host host;
  std::shared_ptr<net::Link> link{};
  std::optional<swarm::Talk> talk{};
};

LookOn::LookOn(const wire::Ticket& ticket, bool encrypt) : core_(std::make_unique<Core>(encrypt)) {
  const auto dial = [&]() -> Task<> {
    auto dialling = core_->host.dial(ticket);
    net::Meeting meeting = co_await std::move(dialling);
    core_->link = std::move(meeting.link);
    core_->talk.emplace(*core_->link);
  };
  core_->world.run(dial());
}

LookOn::~LookOn() {
  core_->talk.reset();
  core_->link->close(LinkError(Failure::kClosed, "", "has seen enough"));
  core_->host.close();
}

std::string LookOn::ask(wire::Look look) {
  constexpr Duration kPatience = std::chrono::seconds(10);
  std::string text;
  const auto ask = [&]() -> Task<> {
    Alarm alarm(core_->world.clock());
    alarm.set(core_->world.clock().now() + kPatience,
              [link = core_->link] { link->close(LinkError(Failure::kLate, link->peer(), "does not answer")); });
    core_->talk->say(look);
    auto hearing = core_->talk->hear();
    const wire::SwarmMessage message = co_await std::move(hearing);
    const auto* shown = std::get_if<wire::Shown>(&message);
    if (shown == nullptr) throw LinkError(Failure::kProtocol, core_->link->peer(), "says something else");
    text = shown->text;
  };
  core_->world.run(ask());
  return text;
}

}  // namespace rookery::train
