#include "swarm/talk.h"

namespace rookery::swarm {
namespace {

constexpr net::ChannelId kChannel{.purpose = 0x0300};
constexpr std::size_t kBudget = 1 << 20;  // a plan for thousands fits
constexpr std::size_t kMaxUnheard = 10000;

}  // namespace

Talk::Talk(net::Link& link) : link_(link), channel_(link.open(kChannel, kBudget)) {}

std::size_t Talk::unheard() {
  while (!said_.empty() && said_.front().send.ended()) said_.pop_front();
  return said_.size();
}

void Talk::say(const wire::SwarmMessage& message) {
  if (unheard() >= kMaxUnheard) {
    link_.close(net::LinkError(net::Failure::kLate, link_.peer(), "does not listen"));
    return;
  }
  Said& said = said_.emplace_back();
  said.bytes = wire::encode(message);
  said.send.payload = said.bytes;
  channel_->post(said.send);
}

Task<wire::SwarmMessage> Talk::hear() {
  auto receiving = channel_->receive();
  const net::Message message = co_await std::move(receiving);
  co_return wire::decode_swarm_message(message.payload);
}

}  // namespace rookery::swarm
