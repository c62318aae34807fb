#include "wire/frame.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace rookery::wire {
namespace {

FrameHeader data_frame() {
  return {.kind = FrameKind::kData,
          .length = 1000,
          .channel = {.purpose = 3, .generation = 70000, .index = 5},
          .message = 12345678901234,
          .size = 5000,
          .offset = 4000,
          .tag = 0xfedcba9876543210,
          .type = 0x80000001};
}

TEST(FrameTest, EveryKindSurvivesTheRoundTrip) {
  const ChannelId channel{.purpose = 65535, .generation = 1, .index = 0xffffffff};
  for (const FrameHeader& header :
       {data_frame(), FrameHeader{.kind = FrameKind::kCredit, .channel = channel, .size = 77},
        FrameHeader{.kind = FrameKind::kClose, .length = 12, .channel = channel},
        FrameHeader{.kind = FrameKind::kPing, .tag = 9}, FrameHeader{.kind = FrameKind::kPong, .tag = 9},
        FrameHeader{.kind = FrameKind::kGoodbye, .length = 3}}) {
    EXPECT_EQ(decode_frame_header(encode(header)), header);
  }
}

// The layout is a promise to other versions: docs/wire-format.md.
TEST(FrameTest, LayoutIsAsDocumented) {
  const FrameHeaderBytes bytes = encode(data_frame());
  const std::array<int, kFrameHeaderBytes> expected = {
      1,    0,    3,    0,                             // kind, reserved, purpose
      0xe8, 3,    0,    0,                             // length
      0x70, 0x11, 1,    0,    5,    0,    0,    0,     // generation, index
      0xf2, 0x2f, 0xce, 0x73, 0x3a, 0x0b, 0,    0,     // message
      0x88, 0x13, 0,    0,    0,    0,    0,    0,     // size
      0xa0, 0x0f, 0,    0,    0,    0,    0,    0,     // offset
      0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe,  // tag
      1,    0,    0,    0x80, 0,    0,    0,    0,     // type, reserved
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(static_cast<int>(bytes[i]), expected[i]) << i;
}

TEST(FrameTest, RefusesWhatNoSenderMakes) {
  const auto refused = [](auto change) {
    FrameHeader header = data_frame();
    change(header);
    EXPECT_THROW(decode_frame_header(encode(header)), WireError);
  };
  refused([](FrameHeader& h) { h.kind = FrameKind{0}; });
  refused([](FrameHeader& h) { h.kind = FrameKind{7}; });
  refused([](FrameHeader& h) { h.length = kMaxFrameBytes + 1, h.size = 1 << 30; });
  refused([](FrameHeader& h) { h.size = kMaxMessageBytes + 1; });
  refused([](FrameHeader& h) { h.offset = 4001; });                     // past the end
  refused([](FrameHeader& h) { h.offset = ~std::uint64_t{0} - 500; });  // offset + length wraps around
  refused([](FrameHeader& h) { h.length = 0; });
  refused([](FrameHeader& h) { h.kind = FrameKind::kPing; });  // with a data frame's fields
  refused([](FrameHeader& h) { h = {.kind = FrameKind::kClose, .length = kMaxReasonBytes + 1}; });
  for (const std::size_t reserved : {1, 52, 53, 54, 55}) {
    FrameHeaderBytes bytes = encode(data_frame());
    bytes[reserved] = std::byte{1};
    EXPECT_THROW(decode_frame_header(bytes), WireError) << reserved;
  }
}

// Whatever the bytes: refused, or a header that means exactly them.
TEST(FrameTest, RandomBytesAreRefusedOrMeanThemselves) {
  Random random({1, word_of("frames")});
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    FrameHeaderBytes bytes = encode(data_frame());
    const auto flips = 1 + random.below(3);
    for (std::uint64_t k = 0; k < flips; ++k)
      bytes[random.below(bytes.size())] ^= static_cast<std::byte>(random.next());
    try {
      EXPECT_EQ(encode(decode_frame_header(bytes)), bytes);
      ++accepted;
    } catch (const WireError&) {
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(ReasonTest, SurvivesTheRoundTripAndIsCutToItsLimit) {
  const Reason reason{.code = 7, .culprit = "ada", .text = "silent for 5 s"};
  EXPECT_EQ(decode_reason(encode(reason)), reason);
  EXPECT_EQ(decode_reason(encode(Reason{})), Reason{});

  Reason longer{.code = 1, .culprit = std::string(400, 'x'), .text = {}};
  for (int i = 0; i < 1000; ++i) longer.text += "ü";
  const auto bytes = encode(longer);
  EXPECT_LE(bytes.size(), kMaxReasonBytes);
  const Reason cut = decode_reason(bytes);
  EXPECT_EQ(cut.culprit, std::string(255, 'x'));
  EXPECT_EQ(cut.text.size() % 2, 0u);  // no half character
  EXPECT_TRUE(longer.text.starts_with(cut.text));
  EXPECT_GT(cut.text.size(), 700u);
}

TEST(ReasonTest, RefusesABrokenOne) {
  auto bytes = encode(Reason{.code = 7, .culprit = "ada", .text = {}});
  bytes.pop_back();
  EXPECT_THROW(decode_reason(bytes), WireError);
  EXPECT_THROW(decode_reason({}), WireError);
}

}  // namespace
}  // namespace rookery::wire
