#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "net/channel.h"
#include "net/identity.h"
#include "wire/contact.h"

namespace rookery::net::internal {

// What relay and guest say to each other. `whom` is a fingerprint, 32 bytes.
enum Talk : std::uint32_t {
  kCall = 1,          // guest: whom; tag: index of the channel that carries the call, even, larger than the last
  kCalled = 2,        // relay: the caller's contact; tag: index, odd
  kAskToDial = 3,     // guest: whom, and then its own contact
  kPleaseDial = 4,    // relay: the contact of the guest that asks
  kCouldNotDial = 5,  // guest: whom (that had asked), and then why; relay: whom (that was asked), and then why
};

ChannelId talk_channel();
ChannelId call_channel(std::uint64_t index);

// Payloads. What is taken apart may be anything; throws LinkError (kProtocol) if it is not what it should be.
Fingerprint take_fingerprint(ConstBytes& bytes);  // leaves what follows
wire::Contact take_contact(ConstBytes bytes);
std::string take_text(ConstBytes bytes);
std::vector<std::byte> after(const Fingerprint& whom, ConstBytes rest = {});
std::vector<std::byte> after(const Fingerprint& whom, const std::string& text);

// A channel to talk on, whose sends nobody waits for.
class Talker {
 public:
  explicit Talker(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}

  // False if the other end has not heard much of what was said before: then this is not said.
  [[nodiscard]] bool say(Talk type, std::uint64_t tag, std::vector<std::byte> payload);

  Channel& channel() { return *channel_; }

 private:
  struct Said {
    std::vector<std::byte> payload;
    Send send;
  };

  std::deque<Said> said_;
  std::unique_ptr<Channel> channel_;  // goes first
};

}  // namespace rookery::net::internal
