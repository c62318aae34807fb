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

}  // namespace
}  // namespace rookery::net::internal
