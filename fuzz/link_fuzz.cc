// Whatever a peer says on a link: the link goes on or is given up, memory stays bounded, and everything that was posted
// ends. The first byte chooses: the rest is either what travels, as it is, or short descriptions of frames, so that
// headers that make sense are found soon.
#include <cstdlib>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/virtual_world.h"
#include "net/link.h"
#include "net/memory/memory_pipe.h"

namespace {

using namespace rookery;
using namespace std::chrono_literals;

constexpr std::size_t kDescriptionBytes = 8;
constexpr std::size_t kMaxTravels = 1 << 18;

// Small numbers where they lead somewhere, and now and then a gigantic one.
std::uint64_t number(unsigned char byte) { return byte < 0xf0 ? byte : std::uint64_t{1} << (4 * (byte - 0xf0) + 3); }

std::vector<std::byte> frames_from(std::span<const unsigned char> descriptions) {
  std::vector<std::byte> bytes;
  for (; descriptions.size() >= kDescriptionBytes && bytes.size() < kMaxTravels;
       descriptions = descriptions.subspan(kDescriptionBytes)) {
    const auto* d = descriptions.data();
    wire::FrameHeader header;
    header.kind = static_cast<wire::FrameKind>(d[0] % 6 + 1);
    header.channel.purpose = d[1] % 4;
    const bool is_data = header.kind == wire::FrameKind::kData;
    const bool is_reason = header.kind == wire::FrameKind::kClose || header.kind == wire::FrameKind::kGoodbye;
    if (is_data || is_reason) header.length = static_cast<std::uint32_t>(number(d[2]));
    if (is_data) {
      header.message = number(d[3]);
      header.offset = number(d[4]);
      header.type = d[6];
    }
    if (is_data || header.kind == wire::FrameKind::kCredit) header.size = number(d[5]);
    if (!is_reason && header.kind != wire::FrameKind::kCredit) header.tag = number(d[7]);
    const auto encoded = wire::encode(header);
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
    bytes.resize(bytes.size() + std::min<std::size_t>(header.length, kMaxTravels), static_cast<std::byte>(d[6]));
  }
  return bytes;
}

// Counts its bytes, and checks that they come as they should.
class Count final : public net::Fold {
 public:
  void operator()(std::size_t offset, net::ConstBytes bytes) override {
    if (offset % grain() != 0 || offset + bytes.size() > kSize) std::abort();
    total_ += bytes.size();
    if (total_ > kSize) std::abort();
  }
  std::size_t grain() const override { return 4; }

  static constexpr std::size_t kSize = 100;

 private:
  std::size_t total_ = 0;
};

Task<> say(net::Pipe& pipe, net::ConstBytes bytes) {
  try {
    while (!bytes.empty()) {
      const std::size_t n = pipe.write(std::span(&bytes, 1));
      bytes = bytes.subspan(n);
      if (n > 0) continue;
      auto writable = pipe.writable();
      co_await std::move(writable);
    }
  } catch (const net::LinkError&) {  // the other end has had enough
  }
  pipe.close();
}

Task<> receive_any(net::Channel& channel) {
  try {
    for (;;) {
      auto receiving = channel.receive();
      const net::Message message = co_await std::move(receiving);
      if (message.payload.size() > net::Channel::kBudget) std::abort();
    }
  } catch (const net::LinkError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const unsigned char> rest(data + 1, size - 1);
  const auto raw = std::as_bytes(rest);
  const std::vector<std::byte> travels =
      data[0] % 2 == 0 ? frames_from(rest) : std::vector<std::byte>(raw.begin(), raw.end());

  std::array<std::byte, 10> into;
  Count count;
  net::Receive plain, folded;
  net::Send send;
  VirtualWorld world;
  auto [here, there] = net::make_memory_pipes(world.clock());
  std::vector<std::unique_ptr<net::Pipe>> pipes;
  pipes.push_back(std::move(here));
  const auto link = net::make_link(world.clock(), std::move(pipes), {.peer = "mallory"});
  const auto first = link->open({.purpose = 0}), second = link->open({.purpose = 1}),
             third = link->open({.purpose = 2});
  plain.into = into;
  folded.fold = &count;
  folded.size = Count::kSize;
  send.payload = into;
  first->post(plain);
  second->post(folded);
  first->post(send);
  boost::asio::co_spawn(world.executor(), receive_any(*third), boost::asio::detached);
  world.run(say(*there, travels), world.clock().now() + 1h);
  world.run(world.clock().now() + 1min);
  if (!plain.ended() || !folded.ended() || !send.ended() || !link->has_ended()) std::abort();
  return 0;
}
