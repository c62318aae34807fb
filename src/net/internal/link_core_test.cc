#include "net/internal/link_core.h"

#include <gtest/gtest.h>

#include "base/virtual_world.h"
#include "net/memory/memory_pipe.h"

namespace rookery::net::internal {
namespace {

using namespace std::chrono_literals;

// A peer that stays connected and reads nothing: this end goes on doing what it does, and gives it up in the end.
TEST(LinkCoreTest, APeerThatDoesNotReadIsGivenUp) {
  VirtualWorld world;
  auto [here, there] = make_memory_pipes(world.clock());
  std::vector<std::unique_ptr<Pipe>> pipes;
  pipes.push_back(std::move(here));
  const auto link = make_link(world.clock(), std::move(pipes), {.peer = "deaf", .silence = 1000h});
  LinkError why(Failure::kClosed, "", "");
  const auto talk = [&]() -> Task<> {
    for (std::uint32_t i = 0; i < 100000 && !link->has_ended(); ++i) {
      const auto channel = link->open({.purpose = 1, .index = i});
      channel->close(LinkError(Failure::kCancelled, "", std::string(500, 'x')));
      if (i % 100 == 0) co_await world.clock().sleep_for(1ms);
    }
    why = co_await link->ended();
  };
  world.run(talk(), Time(1h));
  EXPECT_EQ(why.failure(), Failure::kLate);
  EXPECT_EQ(why.peer(), "deaf");
}

// Links to those who were lost are kept for as long as somebody may look at them.
TEST(LinkCoreTest, ALinkThatHasEndedLetsGoOfItsPipes) {
  VirtualWorld world;
  std::vector<std::weak_ptr<Line>> lines;
  const auto line = [&] {
    const auto made = std::make_shared<Line>(LineOptions{}, 0);
    lines.push_back(made);
    return made;
  };
  auto [here, there] = make_memory_pipes(world.clock(), line(), line());
  const auto link_over = [&](std::unique_ptr<Pipe> pipe) {
    std::vector<std::unique_ptr<Pipe>> pipes;
    pipes.push_back(std::move(pipe));
    return make_link(world.clock(), std::move(pipes), {.peer = "other"});
  };
  const auto link = link_over(std::move(here)), other = link_over(std::move(there));
  const auto channel = link->open({.purpose = 1});
  world.run(Time(1s));
  EXPECT_FALSE(lines[0].expired() || lines[1].expired());
  other->close();
  world.run(Time(5s));
  EXPECT_TRUE(link->has_ended());
  EXPECT_TRUE(lines[0].expired() && lines[1].expired());
  EXPECT_GT(link->piece(), 0u);
  link->close();
  const auto ask = [&](Channel& asked) -> Task<> {
    auto receiving = asked.receive();
    EXPECT_THROW(co_await std::move(receiving), LinkError);
  };
  world.run(ask(*channel));
  const auto late = link->open({.purpose = 2});
  world.run(ask(*late));
}

// A peer that reads, but never closes its side of what is closed here.
TEST(LinkCoreTest, APeerThatKeepsChannelsHalfClosedIsGivenUp) {
  VirtualWorld world;
  auto [here, there] = make_memory_pipes(world.clock());
  std::vector<std::unique_ptr<Pipe>> pipes;
  pipes.push_back(std::move(here));
  const auto link = make_link(world.clock(), std::move(pipes), {.peer = "lazy", .silence = 1000h});
  LinkError why(Failure::kClosed, "", "");
  const auto talk = [&]() -> Task<> {
    for (std::uint32_t i = 0; i < 100000 && !link->has_ended(); ++i) {
      const auto channel = link->open({.purpose = 1, .index = i});
      channel->close();
      if (i % 100 != 0) continue;
      co_await world.clock().sleep_for(1ms);
      for (std::size_t n = 1; n > 0 && !link->has_ended();) {
        n = there->view(1 << 20).size();
        there->skip(n);
      }
    }
    why = co_await link->ended();
  };
  world.run(talk(), Time(1h));
  EXPECT_EQ(why.failure(), Failure::kProtocol);
}

// When each of some messages has come that are sent at the same time, over a line of 1 MB/s.
std::vector<double> arrivals(const std::vector<std::size_t>& sizes) {
  VirtualWorld world;
  const auto line = [] { return std::make_shared<Line>(LineOptions{.bandwidth = 8e6}, 0); };
  auto [here, there] = make_memory_pipes(world.clock(), line(), line());
  const auto link_over = [&](std::unique_ptr<Pipe> pipe) {
    std::vector<std::unique_ptr<Pipe>> pipes;
    pipes.push_back(std::move(pipe));
    return make_link(world.clock(), std::move(pipes), {.peer = "other"});
  };
  const auto from = link_over(std::move(here)), to = link_over(std::move(there));
  std::vector<double> seconds(sizes.size());
  const auto transfer = [&](std::uint32_t i) -> Task<> {
    const auto out = from->open({.purpose = 1, .index = i}), in = to->open({.purpose = 1, .index = i});
    const std::vector<std::byte> sent(sizes[i]);
    std::vector<std::byte> received(sizes[i]);
    Send send;
    send.payload = sent;
    Receive receive;
    receive.into = received;
    in->post(receive);
    out->post(send);
    co_await receive.finish();
    seconds[i] = std::chrono::duration<double>(world.clock().now().time_since_epoch()).count();
    co_await send.finish();
  };
  TaskGroup group(world.clock().executor());
  for (std::uint32_t i = 0; i < sizes.size(); ++i) group.spawn(transfer(i));
  world.run(group.join(), Time(1h));
  return seconds;
}

// A message that is whole is of use; two halves are not.
TEST(LinkCoreTest, AMessageIsSentBeforeTheNextOneBegins) {
  const std::vector<double> seconds = arrivals({200'000, 200'000, 200'000});
  EXPECT_NEAR(seconds[0], 0.2, 0.02);
  EXPECT_NEAR(seconds[1], 0.4, 0.02);
  EXPECT_NEAR(seconds[2], 0.6, 0.02);
}

TEST(LinkCoreTest, ALargeMessageDoesNotHoldUpASmallOne) {
  const std::vector<double> seconds = arrivals({4'000'000, 100'000});
  EXPECT_NEAR(seconds[1], 0.262 + 0.1, 0.05);
  EXPECT_NEAR(seconds[0], 4.1, 0.05);
}

}  // namespace
}  // namespace rookery::net::internal
