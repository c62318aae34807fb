#include "collective/handover.h"

#include <algorithm>

#include "base/units.h"

namespace rookery::collective {
namespace {

// Lets `move(chunk)` pass chunk after chunk over the channel, each in time.
template <typename Move>
Task<> chunk_by_chunk(Clock& clock, net::Channel& channel, std::span<float> values, HandoverOptions options,
                      Move move) {
  const std::size_t chunk = std::max<std::size_t>(1, options.chunk_bytes / sizeof(float));
  Alarm patience(clock);
  for (std::size_t begin = 0; begin < values.size(); begin += chunk) {
    patience.set(clock.now() + options.stall, [&] {
      channel.close(
          net::LinkError(net::Failure::kLate, channel.peer(), "moved nothing for " + format_duration(options.stall)));
    });
    auto moving = move(values.subspan(begin, std::min(chunk, values.size() - begin)));
    co_await std::move(moving);
  }
}

}  // namespace

Task<> hand_on(Clock& clock, net::Link& to, net::ChannelId channel, std::vector<float> values,
               HandoverOptions options) {
  const std::unique_ptr<net::Channel> way = to.open(channel);
  auto handing = chunk_by_chunk(clock, *way, values, options,
                                [&](std::span<float> chunk) { return way->send({}, std::as_bytes(chunk)); });
  co_await std::move(handing);
  // It has come when the other end says so: before that, letting go of the channel might take it away.
  std::byte thanks{};
  Alarm patience(clock);
  patience.set(clock.now() + options.stall, [&] {
    way->close(net::LinkError(net::Failure::kLate, way->peer(), "did not take what it was handed"));
  });
  auto hearing = way->receive(net::MutableBytes(&thanks, 1));
  co_await std::move(hearing);
}

Task<std::vector<float>> take_on(Clock& clock, net::Link& from, net::ChannelId channel, std::size_t count,
                                 HandoverOptions options) {
  const std::unique_ptr<net::Channel> way = from.open(channel);
  std::vector<float> values(count);
  const auto take = [&](std::span<float> chunk) -> Task<> {
    auto receiving = way->receive(std::as_writable_bytes(chunk));
    co_await std::move(receiving);
  };
  auto taking = chunk_by_chunk(clock, *way, values, options, take);
  co_await std::move(taking);
  constexpr std::byte kThanks{1};
  auto thanking = way->send({}, net::ConstBytes(&kThanks, 1));
  co_await std::move(thanking);
  co_return values;
}

}  // namespace rookery::collective
