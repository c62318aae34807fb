#include "measure/hop_time.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <thread>

#include <boost/asio/post.hpp>

#include "base/loop_thread.h"

namespace rookery::measure {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kRepetitions = 101;
constexpr std::chrono::microseconds kSleep(200);  // so that both have gone to sleep

// There and back.
SteadyClock::duration round_trip(LoopThread& other) {
  std::promise<void> answer;
  const auto start = SteadyClock::now();
  boost::asio::post(other.executor(), [&answer] { answer.set_value(); });
  answer.get_future().wait();
  return SteadyClock::now() - start;
}

}  // namespace

double hop_time() {
  LoopThread other;
  std::array<double, kRepetitions> takes{};
  for (double& own : takes) {
    std::this_thread::sleep_for(kSleep);
    own = std::chrono::duration<double>(round_trip(other)).count() / 2;
  }
  std::ranges::nth_element(takes, takes.begin() + kRepetitions / 2);
  return takes[kRepetitions / 2];
}

}  // namespace rookery::measure
