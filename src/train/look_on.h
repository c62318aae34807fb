#pragma once

#include <memory>
#include <string>

#include "wire/swarm_message.h"
#include "wire/ticket.h"

namespace rookery::train {

// Looks on at a swarm, by its ticket, without taking part. Lives on the calling thread.
class LookOn {
 public:
  // Throws LinkError if the coordinator cannot be reached, or does not let it in.
  LookOn(const wire::Ticket& ticket, bool encrypt);
  ~LookOn();
  LookOn(const LookOn&) = delete;
  LookOn& operator=(const LookOn&) = delete;

  // What there is to see now, as JSON; docs/dashboard.md has it. Throws LinkError when the coordinator is gone, or says
  // nothing for ten seconds.
  std::string brief() { return ask({}); }

  // Its peers and links as they were measured, as a peers.toml. Throws LinkError likewise, and if there is nothing yet.
  std::string measured() { return ask({.measured = true}); }

 private:
  std::string ask(wire::Look look);

  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace rookery::train
