#include "wire/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace rookery::wire {
namespace {

Bytes bytes_of(std::size_t size, int value) { return Bytes(size, static_cast<std::byte>(value)); }

Hello hello() {
  Hello h{.name = "ada@home", .lane = 2, .lanes = 3, .host = "abc", .signature = bytes_of(64, 4)};
  h.public_key.fill(std::byte{1});
  h.nonce.fill(std::byte{2});
  h.link.fill(std::byte{3});
  return h;
}

HandshakeMessage decode(const Bytes& bytes) {
  const auto preamble = decode_preamble(std::span(bytes).first<kPreambleBytes>());
  EXPECT_EQ(preamble.length, bytes.size() - kPreambleBytes);
  return decode_handshake(preamble.kind, std::span(bytes).subspan(kPreambleBytes));
}

TEST(HandshakeTest, EveryMessageSurvivesTheRoundTrip) {
  for (const HandshakeMessage& message :
       {HandshakeMessage(hello()), HandshakeMessage(Proof{bytes_of(64, 1), bytes_of(32, 2)}), HandshakeMessage(Proof{}),
        HandshakeMessage(Welcome{"rookery-x", bytes_of(16, 1)}), HandshakeMessage(Welcome{}),
        HandshakeMessage(Refusal{4, "no"})}) {
    EXPECT_EQ(decode(encode(message)), message);
  }
}

TEST(HandshakeTest, RefusesFieldsThatAreNotWhatTheyShouldBe) {
  const auto refused = [](auto change) {
    Hello h = hello();
    change(h);
    EXPECT_THROW(decode(encode(HandshakeMessage(h))), WireError);
  };
  refused([](Hello& h) { h.name = ""; });
  refused([](Hello& h) { h.name = "\x1b[2J"; });
  refused([](Hello& h) { h.name = std::string(65, 'a'); });
  refused([](Hello& h) { h.lane = 3; });
  refused([](Hello& h) { h.lanes = 0; });
  refused([](Hello& h) { h.lanes = kMaxLanes + 1; });
  refused([](Hello& h) { h.host = std::string(65, 'a'); });
  refused([](Hello& h) { h.signature.pop_back(); });
  EXPECT_THROW(decode(encode(HandshakeMessage(Proof{{}, bytes_of(31, 2)}))), WireError);
  EXPECT_THROW(decode(encode(HandshakeMessage(Welcome{std::string(65, 'x'), {}}))), WireError);
  EXPECT_THROW(decode_handshake(9, {}), WireError);
  EXPECT_THROW(decode_handshake(1, {}), WireError);  // a hello without anything
  EXPECT_THROW(decode_handshake(1, bytes_of(kMaxHandshakeBytes + 1, 0)), WireError);
}

TEST(HandshakeTest, ThePreambleTellsOtherProtocolsAndVersions) {
  const Bytes good = encode(HandshakeMessage(hello()));
  const auto why = [&](std::size_t at, int value) -> std::string {
    Bytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    try {
      decode_preamble(std::span(bytes).first<kPreambleBytes>());
    } catch (const WireError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(why(0, 'G'), testing::HasSubstr("does not speak"));
  EXPECT_THAT(why(4, 0), testing::HasSubstr("version 0"));
  EXPECT_THAT(why(11, 0x7f), testing::HasSubstr("bytes"));
}

TEST(HandshakeTest, ARefusalCannotPlayTricksWithATerminal) {
  const auto refusal = std::get<Refusal>(decode(encode(HandshakeMessage(Refusal{4, "go\x1b[2Jaway\n"}))));
  EXPECT_EQ(refusal.text, "go [2Jaway ");
}

TEST(HandshakeTest, RandomBytesNeverDoMoreThanThrow) {
  Random random({1, word_of("handshake")});
  const Bytes good = encode(HandshakeMessage(hello()));
  for (int i = 0; i < 5000; ++i) {
    Bytes bytes(good.begin() + kPreambleBytes, good.end());
    for (std::uint64_t k = random.below(4); k > 0; --k)
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
    bytes.resize(random.below(bytes.size() + 1));
    try {
      decode_handshake(static_cast<std::uint16_t>(1 + random.below(4)), bytes);
    } catch (const WireError&) {
    }
  }
}

}  // namespace
}  // namespace rookery::wire
