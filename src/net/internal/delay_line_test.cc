#include "net/internal/delay_line.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <gtest/gtest.h>

#include "base/virtual_world.h"

namespace rookery::net::internal {
namespace {

using std::chrono::milliseconds;

// Where small messages stand for large ones, every byte of them counts, however a writer's turns cut them; headers count
// as they are.
TEST(DelayLineTest, ScaledBytesTakeTheirTimeHoweverTheyAreCut) {
  constexpr double kScale = 100;
  constexpr std::size_t kMessages = 50, kMessageBytes = 1020, kHeaderBytes = 24;
  VirtualWorld world;
  Clock& clock = world.clock();
  // 1 ms for a byte that stands for a hundred.
  const LineOptions options{.bandwidth = 8e5, .latency = milliseconds(1), .scale = kScale};
  DelayLine line(clock, std::make_shared<Line>(options, 1));
  const std::vector<std::byte> header(kHeaderBytes), message(kMessageBytes);
  std::size_t read = 0;
  const auto write = [&]() -> Task<> {
    std::vector<ConstBytes> parts;
    for (std::size_t i = 0; i < kMessages; ++i) parts.insert(parts.end(), {header, message});
    while (!parts.empty()) {
      std::size_t n = line.write(parts);
      if (n == 0) {
        auto writable = line.writable();
        co_await std::move(writable);
      }
      while (n > 0) {
        const std::size_t own = std::min(n, parts.front().size());
        parts.front() = parts.front().subspan(own);
        n -= own;
        if (parts.front().empty()) parts.erase(parts.begin());
      }
    }
    line.close_writer();
  };
  const auto read_all = [&]() -> Task<> {
    std::vector<std::byte> buffer(4096);
    while (read < kMessages * (kHeaderBytes + kMessageBytes)) {
      const std::size_t n = line.read(buffer);
      read += n;
      if (n > 0) continue;
      auto readable = line.readable();
      co_await std::move(readable);
    }
  };
  boost::asio::co_spawn(world.executor(), write(), boost::asio::detached);
  world.run(read_all());
  const double seconds = std::chrono::duration<double>(clock.now() - Time{}).count();
  const double expected = kMessages * (kMessageBytes * kScale + kHeaderBytes) / 1e5;
  EXPECT_NEAR(seconds, expected + 0.001, 0.001 * expected);
}

}  // namespace
}  // namespace rookery::net::internal
