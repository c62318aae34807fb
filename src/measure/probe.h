#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "net/host.h"
#include "net/link.h"

namespace rookery::measure {

// What one peer can find out about the way to another by asking it, over a link between them. Questions are short, and
// what they may cost the one who answers is limited.

// Answers a guest's questions until its link ends. `host` dials it back when it asks for that, and outlives this.
Task<> answer_probes(Clock& clock, net::Host& host, std::shared_ptr<net::Link> link, net::Guest guest);

// The one who asks. One question at a time; each throws LinkError when the other end goes, or does not answer in time.
class Prober {
 public:
  Prober(Clock& clock, net::Link& link, Duration patience);

  // How far the other's calendar is ahead of this one's.
  Task<std::chrono::seconds> date_difference();

  struct RoundTrip {
    Duration median, worst;
  };
  Task<RoundTrip> round_trip();

  // Bits per second, by sending until it has taken a few tenths of a second.
  Task<BitsPerSecond> upload(Duration round_trip);
  Task<BitsPerSecond> download(Duration round_trip);

  // Whether the other end can dial this peer, at the address it sees and this port: nothing, or why not.
  Task<std::optional<std::string>> dial_back(unsigned port);

 private:
  Task<net::Message> ask(net::Label question);
  Task<BitsPerSecond> transfer(std::uint32_t question, Duration round_trip);

  Clock& clock_;
  net::Link& link_;
  Duration patience_;
  std::unique_ptr<net::Channel> channel_;
};

}  // namespace rookery::measure
