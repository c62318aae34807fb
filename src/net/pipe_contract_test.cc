#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "net/error.h"
#include "net/pipe.h"
#include "net/testing/pipe_worlds.h"

namespace rookery::net {
namespace {

using testing::PipeKind;

std::byte expected_at(std::uint64_t position) { return static_cast<std::byte>(position * 31 + (position >> 8)); }

// Writes `total` bytes of the pattern in parts of odd sizes.
Task<> write_pattern(Pipe& pipe, std::uint64_t total, std::uint64_t seed) {
  Random random({seed, word_of("write")});
  std::vector<std::byte> memory(100000);
  for (std::uint64_t at = 0; at < total;) {
    const std::size_t size = std::min<std::uint64_t>(1 + random.below(memory.size()), total - at);
    for (std::size_t i = 0; i < size; ++i) memory[i] = expected_at(at + i);
    const std::size_t cut = random.below(size + 1);
    std::vector<ConstBytes> parts;
    if (cut > 0) parts.push_back(ConstBytes(memory).first(cut));
    if (cut < size) parts.push_back(ConstBytes(memory).subspan(cut, size - cut));
    const std::size_t n = pipe.write(parts);
    EXPECT_LE(n, size);
    std::ranges::fill(memory, std::byte{0xee});  // the pipe has no claim on it any more
    at += n;
    if (n == 0) co_await pipe.writable();
  }
}

// Reads it again, now by copy and now in place.
Task<> read_pattern(Pipe& pipe, std::uint64_t total, std::uint64_t seed) {
  Random random({seed, word_of("read")});
  std::vector<std::byte> memory(100000);
  std::uint64_t wrong = 0;
  for (std::uint64_t at = 0; at < total;) {
    const std::size_t limit = std::min<std::uint64_t>(1 + random.below(memory.size()), total - at);
    std::size_t n = 0;
    if (random.below(2) == 0) {
      n = pipe.read(MutableBytes(memory).first(limit));
      EXPECT_LE(n, limit);
      for (std::size_t i = 0; i < n; ++i) wrong += memory[i] != expected_at(at + i);
    } else {
      const ConstBytes view = pipe.view(limit);
      n = view.size() - random.below(view.size() + 1) / 2;  // not always all of it
      EXPECT_LE(view.size(), limit);
      for (std::size_t i = 0; i < n; ++i) wrong += view[i] != expected_at(at + i);
      pipe.skip(n);
    }
    at += n;
    if (n == 0) co_await pipe.readable();
  }
  EXPECT_EQ(wrong, 0u);
}

class PipeContractTest : public ::testing::TestWithParam<PipeKind> {
 protected:
  Task<> close_soon(Pipe& pipe) {
    co_await world_->clock().sleep_for(std::chrono::milliseconds(20));
    pipe.close();
  }

  std::unique_ptr<testing::PipeWorld> world_ = GetParam().make();
};

TEST_P(PipeContractTest, BytesArriveInOrderBothWaysAtOnce) {
  const auto [a, b] = world_->connect();
  const std::uint64_t total = 1500000;
  TaskGroup group(world_->executor());
  group.spawn(write_pattern(*a, total, 1));
  group.spawn(write_pattern(*b, total, 2));
  group.spawn(read_pattern(*a, total, 3));
  group.spawn(read_pattern(*b, total, 4));
  world_->run(group.join());
}

TEST_P(PipeContractTest, AWriterIsStoppedWhenNobodyReads) {
  const auto [a, b] = world_->connect();
  const std::vector<std::byte> memory(1 << 20);
  const ConstBytes part = memory;
  std::size_t written = 0;
  const auto fill = [&]() -> Task<> {
    int full = 0;
    while (full < 20 && written < (200u << 20)) {
      const std::size_t n = a->write(std::span(&part, 1));
      written += n;
      full = n == 0 ? full + 1 : 0;
      co_await world_->clock().sleep_for(std::chrono::milliseconds(1));
    }
  };
  world_->run(fill());
  EXPECT_GT(written, 0u);
  EXPECT_LT(written, 40u << 20);
  // The other direction is not affected, and reading makes room again.
  TaskGroup group(world_->executor());
  group.spawn(write_pattern(*b, 10000, 1));
  group.spawn(read_pattern(*a, 10000, 2));
  world_->run(group.join());
  const auto drain = [&]() -> Task<> {
    for (std::size_t left = written; left > 0;) {
      const std::size_t n = b->view(left).size();
      b->skip(n);
      left -= n;
      if (n == 0) co_await b->readable();
    }
    co_await a->writable();
    EXPECT_GT(a->write(std::span(&part, 1)), 0u);
  };
  world_->run(drain());
}

TEST_P(PipeContractTest, WhatWasSentBeforeCloseArrivesAndThenTheEnd) {
  auto [a, b] = world_->connect();
  const std::uint64_t total = 50000;
  const auto send = [&]() -> Task<> {
    co_await write_pattern(*a, total, 1);
    a->close();
    a->close();
  };
  const auto receive = [&]() -> Task<> {
    co_await read_pattern(*b, total, 2);
    co_await b->readable();
    std::byte more;
    EXPECT_THROW(b->read(MutableBytes(&more, 1)), LinkError);
    EXPECT_THROW(b->view(1), LinkError);
  };
  TaskGroup group(world_->executor());
  group.spawn(send());
  group.spawn(receive());
  world_->run(group.join());
  EXPECT_THROW(a->view(1), LinkError);
  const ConstBytes nothing = std::as_bytes(std::span("x"));
  EXPECT_THROW(a->write(std::span(&nothing, 1)), LinkError);
}

TEST_P(PipeContractTest, CloseEndsTheWaitsOfThoseWhoRead) {
  auto [a, b] = world_->connect();
  const auto wait = [](Pipe& pipe) -> Task<> {
    co_await pipe.readable();
    EXPECT_THROW(pipe.view(1), LinkError);
  };
  TaskGroup group(world_->executor());
  group.spawn(wait(*a));
  group.spawn(wait(*b));
  group.spawn(close_soon(*b));
  world_->run(group.join());
}

TEST_P(PipeContractTest, CloseEndsTheWaitsOfThoseWhoWrite) {
  auto [a, b] = world_->connect();
  const std::vector<std::byte> memory(1 << 20);
  const auto wait = [&](Pipe& pipe) -> Task<> {
    const ConstBytes part = memory;
    try {
      for (;;) {
        if (pipe.write(std::span(&part, 1)) == 0) co_await pipe.writable();
      }
    } catch (const LinkError& error) {
      EXPECT_EQ(error.failure(), Failure::kClosed);
    }
  };
  TaskGroup group(world_->executor());
  group.spawn(wait(*a));
  group.spawn(wait(*b));
  group.spawn(close_soon(*b));
  world_->run(group.join());
}

INSTANTIATE_TEST_SUITE_P(All, PipeContractTest, ::testing::ValuesIn(testing::pipe_kinds()), testing::name_of);

}  // namespace
}  // namespace rookery::net
