#include "net/internal/inbox.h"

#include <gtest/gtest.h>

namespace rookery::net::internal {
namespace {

class Blocks final : public Fold {
 public:
  void operator()(std::size_t offset, ConstBytes bytes) override { pieces.emplace_back(offset, bytes.size()); }
  std::size_t grain() const override { return 8; }

  std::vector<std::pair<std::size_t, std::size_t>> pieces;
};

wire::FrameHeader piece(std::size_t offset, std::uint32_t length) {
  return {.kind = wire::FrameKind::kData, .length = length, .size = 20, .offset = offset};
}

// What a fold gets are whole grains, whatever the other end sends.
TEST(InboxTest, PiecesThatCutAGrainAreRefused) {
  Inbox inbox;
  Blocks blocks;
  Receive receive;
  receive.fold = &blocks;
  receive.size = 20;
  inbox.post(receive);
  for (const auto& [offset, length] : std::vector<std::pair<std::size_t, std::uint32_t>>{{3, 8}, {0, 7}, {19, 1}}) {
    EXPECT_THROW(inbox.begin_piece(piece(offset, length)), wire::WireError) << offset;
  }
  inbox.begin_piece(piece(16, 4));  // the last one may be short
  inbox.begin_piece(piece(0, 16));
  inbox.fail(std::make_shared<LinkError>(Failure::kClosed, "p", "over"));
}

// With several lanes a message that was paid for by a grant may come before the rest of the one that the grant was for.
TEST(InboxTest, AMessageMayOvertakeTheRestOfOneThatHasBeenAskedForMeanwhile) {
  Inbox inbox;
  constexpr std::uint32_t kSize = 40000;  // the budget pays for one at a time
  const auto part = [](std::uint64_t number, std::size_t offset, std::uint32_t length) {
    return wire::FrameHeader{
        .kind = wire::FrameKind::kData, .length = length, .message = number, .size = kSize, .offset = offset};
  };
  inbox.begin_piece(part(0, 0, 10000));  // unasked, and not all of it
  EXPECT_THROW(inbox.begin_piece(part(1, 0, kSize)), wire::WireError);
  std::vector<std::byte> into(kSize);
  Receive receive;
  receive.into = into;
  inbox.post(receive);
  inbox.begin_piece(part(1, 0, kSize));
  inbox.fail(std::make_shared<LinkError>(Failure::kClosed, "p", "over"));
}

// Numbers cost nothing, so they must not cost memory here either.
TEST(InboxTest, MessagesFarAheadOfTheirTurnAreRefused) {
  Inbox inbox;
  inbox.widen(1 << 20);
  const auto empty_message = [](std::uint64_t number) {
    return wire::FrameHeader{.kind = wire::FrameKind::kData, .message = number};
  };
  const std::uint64_t last = (1 << 20) / Channel::kMessageCost - 1;  // what the budget pays for
  inbox.begin_piece(empty_message(last));
  EXPECT_THROW(inbox.begin_piece(empty_message(last + 1)), wire::WireError);
  EXPECT_THROW(inbox.begin_piece(empty_message(2 * last)), wire::WireError);
}

TEST(InboxTest, WhatNobodyReadsAnyMoreIsFreed) {
  Inbox inbox;
  inbox.begin_piece(piece(0, 20));
  inbox.end_piece(piece(0, 20));
  inbox.fail(std::make_shared<LinkError>(Failure::kClosed, "p", "over"));
  inbox.drop_all();
  EXPECT_FALSE(inbox.take(0));
}

}  // namespace
}  // namespace rookery::net::internal
