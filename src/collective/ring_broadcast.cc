#include "collective/ring_broadcast.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "base/units.h"
#include "collective/internal/stall_watch.h"

namespace rookery::collective {
namespace {

using net::LinkError;

constexpr std::size_t kWindow = 32;  // chunks on their way at a time

std::span<std::byte> chunk_of(std::span<std::byte> bytes, std::size_t chunk, std::size_t size) {
  return bytes.subspan(chunk * size, std::min(size, bytes.size() - chunk * size));
}

}  // namespace

RingBroadcast::RingBroadcast(Clock& clock, Ring ring, net::ChannelId channel, BroadcastOptions options)
    : clock_(clock), ring_(ring), options_(options) {
  ROOKERY_CHECK(ring.size >= 1 && ring.rank < ring.size && options.chunk_bytes > 0);
  if (ring.size == 1) return;
  to_next_ = ring.next->open(channel);
  if (ring.previous != ring.next) from_previous_ = ring.previous->open(channel);
}

RingBroadcast::~RingBroadcast() = default;

struct RingBroadcast::Operations {
  std::deque<net::Receive> receives;
  std::deque<net::Send> sends;
};

Task<> RingBroadcast::run(std::span<std::byte> bytes, std::size_t root) {
  ROOKERY_CHECK(root < ring_.size);
  if (ring_.size == 1) co_return;
  const std::size_t position = (ring_.rank + ring_.size - root) % ring_.size;
  Operations operations;  // outlive the failure, which is told with its reason before they are given up
  std::optional<LinkError> failure;
  try {
    if (position == 0) {
      co_await begin(bytes, operations);
    } else {
      co_await pass_on(bytes, position + 1 == ring_.size, operations);
    }
  } catch (const LinkError& error) {
    failure = error;
  }
  if (!failure) co_return;
  cancel(*failure);
  throw LinkError(*failure);
}

// Sends a chunk on, once there is room in the window.
Task<> RingBroadcast::send(std::span<std::byte> chunk, Operations& operations) {
  auto& sends = operations.sends;
  if (sends.size() == kWindow) {
    co_await sends.front().finish();
    sends.pop_front();
  }
  sends.emplace_back().payload = chunk;
  to_next_->post(sends.back());
}

Task<> RingBroadcast::begin(std::span<std::byte> bytes, Operations& operations) {
  for (std::size_t chunk = 0; chunk * options_.chunk_bytes < bytes.size(); ++chunk) {
    co_await send(chunk_of(bytes, chunk, options_.chunk_bytes), operations);
  }
  for (net::Send& send : operations.sends) co_await send.finish();
}

Task<> RingBroadcast::pass_on(std::span<std::byte> bytes, bool is_last, Operations& operations) {
  const std::size_t chunks = (bytes.size() + options_.chunk_bytes - 1) / options_.chunk_bytes;
  auto& receives = operations.receives;
  internal::StallWatch watch(clock_, options_.stall);
  const auto post = [&](std::size_t chunk) {
    receives.emplace_back().into = chunk_of(bytes, chunk, options_.chunk_bytes);
    in().post(receives.back());
  };
  for (std::size_t chunk = 0; chunk < std::min(chunks, kWindow); ++chunk) post(chunk);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    co_await receives.front().finish();
    receives.pop_front();
    watch.moved([this] {
      const std::string why = fmt::format("sent nothing for {}", format_duration(options_.stall));
      cancel(LinkError(net::Failure::kLate, ring_.previous->peer(), why));
    });
    if (chunk + kWindow < chunks) post(chunk + kWindow);
    if (!is_last) co_await send(chunk_of(bytes, chunk, options_.chunk_bytes), operations);
  }
  for (net::Send& send : operations.sends) co_await send.finish();
}

void RingBroadcast::cancel(const LinkError& reason) {
  if (to_next_) to_next_->close(reason);
  if (from_previous_) from_previous_->close(reason);
}

RingAllGather::RingAllGather(Clock& clock, Ring ring, net::ChannelId first, BroadcastOptions options)
    : clock_(clock), ring_(ring) {
  for (std::size_t root = 0; root < ring.size; ++root) {
    net::ChannelId id = first;
    id.index += static_cast<std::uint32_t>(root);
    broadcasts_.push_back(std::make_unique<RingBroadcast>(clock, ring, id, options));
  }
}

Task<> RingAllGather::run(std::span<std::byte> all) {
  ROOKERY_CHECK(all.size() % ring_.size == 0, "bytes = {}, peers = {}", all.size(), ring_.size);
  const std::size_t block = all.size() / ring_.size;
  const auto one = [&](std::size_t root) -> Task<> {
    std::optional<LinkError> failure;
    try {
      auto running = broadcasts_[root]->run(all.subspan(root * block, block), root);
      co_await std::move(running);
    } catch (const LinkError& error) {
      failure = error;
    }
    if (!failure) co_return;
    cancel(*failure);
    throw LinkError(*failure);
  };
  TaskGroup group(clock_.executor());
  for (std::size_t root = 0; root < ring_.size; ++root) group.spawn(one(root));
  auto joined = group.join();
  co_await std::move(joined);
}

Task<> RingAllGather::barrier() {
  std::vector<std::byte> signs(ring_.size);
  auto gathering = run(signs);
  co_await std::move(gathering);
}

void RingAllGather::cancel(const LinkError& reason) {
  for (const auto& broadcast : broadcasts_) broadcast->cancel(reason);
}

}  // namespace rookery::collective
