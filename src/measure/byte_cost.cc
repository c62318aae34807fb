#include "measure/byte_cost.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <functional>
#include <span>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "base/error.h"

namespace rookery::measure {
namespace {

namespace asio = boost::asio;
using Socket = asio::local::stream_protocol::socket;

constexpr std::size_t kPiece = 16 * 1024;         // floats that go in one go
constexpr std::size_t kFloats = 2 * 1024 * 1024;  // with those they are added to more than the inner caches hold
constexpr int kRepetitions = 9;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Both ends are this thread's, and what a socket does not take at once is not sent before some was read: nobody waits.
void pass_on(Socket& from, Socket& to, std::span<const float> values, std::span<float> sums) {
  static thread_local std::vector<float> came(kPiece);
  const auto bytes = std::as_bytes(values);
  const auto room = std::as_writable_bytes(std::span(came)).first(bytes.size());
  for (std::size_t sent = 0, read = 0; read < bytes.size();) {
    if (sent < bytes.size()) {
      boost::system::error_code error;
      sent += from.write_some(asio::buffer(bytes.data() + sent, bytes.size() - sent), error);
      if (error && error != asio::error::would_block) throw boost::system::system_error(error);
    }
    read += to.read_some(asio::buffer(room.data() + read, room.size() - read));
  }
  std::ranges::transform(sums, came, sums.begin(), std::plus<>());
}

}  // namespace

double byte_cost() try {
  asio::io_context context;
  Socket from(context), to(context);
  asio::local::connect_pair(from, to);
  from.non_blocking(true);
  to.non_blocking(true);
  const std::vector<float> values(kFloats, 1);
  std::vector<float> sums(kFloats);
  std::array<double, kRepetitions> takes{};
  for (double& own : takes) {
    const double start = processor_seconds();
    for (std::size_t at = 0; at < kFloats; at += kPiece) {
      pass_on(from, to, std::span(values).subspan(at, kPiece), std::span(sums).subspan(at, kPiece));
    }
    own = (processor_seconds() - start) / static_cast<double>(kFloats * sizeof(float));
  }
  std::ranges::nth_element(takes, takes.begin() + kRepetitions / 2);
  return takes[kRepetitions / 2];
} catch (const boost::system::system_error& error) {
  throw Error("what bytes cost cannot be measured: {}", error.what());
}

}  // namespace rookery::measure
