#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "net/link.h"
#include "wire/swarm_message.h"

namespace rookery::swarm {

// Messages of the swarm over a link, in order, both ways. Confined to the link's executor.
class Talk {
 public:
  explicit Talk(net::Link& link);

  // Says something, without waiting. Closes the link if the other end has not heard much of what was said before.
  void say(const wire::SwarmMessage& message);

  // How much of what was said is still on its way.
  std::size_t unheard();

  // The next message. Throws LinkError when the link ends, and WireError if what comes is no message.
  Task<wire::SwarmMessage> hear();

 private:
  struct Said {
    std::vector<std::byte> bytes;
    net::Send send;
  };

  net::Link& link_;
  std::deque<Said> said_;
  std::unique_ptr<net::Channel> channel_;  // goes first
};

}  // namespace rookery::swarm
