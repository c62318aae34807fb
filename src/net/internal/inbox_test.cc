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
  inbox.fail(nullptr);
}

}  // namespace
}  // namespace rookery::net::internal
