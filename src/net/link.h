#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/channel.h"

namespace rookery::net {

// What a link has carried, and how well.
struct LinkStatistics {
  std::uint64_t bytes_sent = 0;  // with headers
  std::uint64_t bytes_received = 0;
  std::uint64_t payload_sent = 0, payload_received = 0;  // of messages, without any headers
  Duration round_trip{};                                 // smoothed; 0 before the first measurement
  double bandwidth = 0;   // bytes/s from the other end, in the busiest moments of late; 0: there was none
  Duration silent_for{};  // since the last word from the other end
};

// What the messages of some channels have taken, with headers.
struct Traffic {
  std::uint64_t sent = 0, received = 0;                  // bytes
  std::uint64_t payload_sent = 0, payload_received = 0;  // of those, what is not headers
};

// The connection to one other peer. It carries many channels, over one pipe or several side by side.
//
// A link is alive while bytes arrive. Each end pings the other when it has nothing else to say; an end that hears
// nothing for too long gives up, so a frozen or unplugged peer is noticed even by those who only wait.
//
// Confined to one executor. Letting go of a link closes it.
class Link {
 public:
  virtual ~Link() = default;

  virtual const std::string& peer() const = 0;  // its name

  // The channel with this id, which the other end opens by the same id. Messages may come before; they wait, within the
  // budget. `budget`: what may be sent to this end unasked; at least Channel::kBudget. Requires: not open already.
  virtual std::unique_ptr<Channel> open(ChannelId id, std::size_t budget) = 0;
  std::unique_ptr<Channel> open(ChannelId id) { return open(id, Channel::kBudget); }

  // Lets the other end read messages where they lie, if it is a process of this host: a send from this memory is not
  // copied, and ends when the other end has read it. The link keeps the memory as long as it lasts, so it suits what is
  // sent again and again. False if the link cannot; everything works then, too.
  virtual bool share(std::shared_ptr<const SharedMemory> memory) = 0;

  // Waits until the link has ended, and says why. The wait may outlive the handle.
  virtual Task<LinkError> ended() = 0;
  virtual bool has_ended() const = 0;

  // Ends the link. The other end is told the reason, after what was sent before.
  virtual void close(const LinkError& reason) = 0;
  void close() { close(LinkError(Failure::kClosed, "", "closed the link")); }

  virtual LinkStatistics statistics() const = 0;

  // Of all channels with this purpose, those that were closed included.
  virtual Traffic traffic(std::uint16_t purpose) const = 0;

  // The size of a message that suits the link when something large is cut into many.
  virtual std::size_t piece() const = 0;
};

struct LinkOptions {
  std::string peer{};                                   // the other end's name, for messages
  Duration heartbeat = std::chrono::milliseconds(250);  // how often to speak at least
  Duration silence = std::chrono::seconds(10);          // how long not to hear anything before giving up, at first
  Duration linger = std::chrono::milliseconds(500);     // how long close() may take to say goodbye
};

// A link over pipes that are connected to the same peer, in the same order at both ends. Requires: at least one pipe.
std::unique_ptr<Link> make_link(Clock& clock, std::vector<std::unique_ptr<Pipe>> pipes, LinkOptions options);

}  // namespace rookery::net
