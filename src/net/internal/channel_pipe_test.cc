#include "net/internal/channel_pipe.h"

#include <gtest/gtest.h>

#include "base/virtual_world.h"
#include "net/link.h"
#include "net/memory/memory_pipe.h"

namespace rookery::net::internal {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<Link> link_over(Clock& clock, std::unique_ptr<Pipe> pipe) {
  std::vector<std::unique_ptr<Pipe>> pipes;
  pipes.push_back(std::move(pipe));
  return make_link(clock, std::move(pipes), {.peer = "other"});
}

// A write that fails because the other end has closed takes nothing away from what it said before.
TEST(ChannelPipeTest, WhatCameBeforeTheEndIsReadThoughNothingCanBeWritten) {
  VirtualWorld world;
  auto [a, b] = make_memory_pipes(world.clock());
  const auto link_a = link_over(world.clock(), std::move(a)), link_b = link_over(world.clock(), std::move(b));
  const auto here = make_channel_pipe(world.clock(), link_a->open({}, kChannelPipeBudget));
  const auto there = make_channel_pipe(world.clock(), link_b->open({}, kChannelPipeBudget));
  const std::vector<std::byte> message(1000, std::byte{3});
  const ConstBytes part = message;
  std::size_t heard = 0;
  const auto talk = [&]() -> Task<> {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(there->write(std::span(&part, 1)), 1000u);
      co_await world.clock().sleep_for(1ms);  // three messages, not one
    }
    there->close();
    const std::vector<std::byte> much(10 << 20);
    const ConstBytes all = much;
    here->write(std::span(&all, 1));
    co_await world.clock().sleep_for(10s);
    EXPECT_THROW(here->write(std::span(&all, 1)), LinkError);
    try {
      for (;;) {
        const std::size_t n = here->view(1 << 20).size();
        heard += n;
        here->skip(n);
        auto readable = here->readable();
        co_await std::move(readable);
      }
    } catch (const LinkError& end) {
      EXPECT_EQ(end.failure(), Failure::kClosed);
    }
  };
  world.run(talk(), Time(1h));
  EXPECT_EQ(heard, 3000u);
}

}  // namespace
}  // namespace rookery::net::internal
