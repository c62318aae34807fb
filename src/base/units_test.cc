#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

template <typename Parse>
std::string refusal(Parse parse, std::string_view text) {
  try {
    parse(text);
    return "accepted";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Units, ParseBytes) {
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_EQ(parse_bytes("512B"), 512);
  EXPECT_EQ(parse_bytes("25MB"), 25'000'000);
  EXPECT_EQ(parse_bytes("25MiB"), 25 << 20);
  EXPECT_EQ(parse_bytes("1.5 GiB"), Bytes{3} << 29);
  EXPECT_EQ(parse_bytes("2gib"), Bytes{2} << 30);
  EXPECT_EQ(parse_bytes("0B"), 0);
}

TEST(Units, ParseBandwidth) {
  EXPECT_EQ(parse_bandwidth("9600bit"), 9600);
  EXPECT_EQ(parse_bandwidth("100mbit"), 100e6);
  EXPECT_EQ(parse_bandwidth("1.5Gbit"), 1.5e9);
  EXPECT_EQ(parse_bandwidth("12MB/s"), 96e6);
}

TEST(Units, ParseDuration) {
  EXPECT_EQ(parse_duration("250us"), 250us);
  EXPECT_EQ(parse_duration("20 ms"), 20ms);
  EXPECT_EQ(parse_duration("1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("3min"), 3min);
  EXPECT_EQ(parse_duration("2h"), 2h);
}

TEST(Units, WhatIsNoNumberWithAUnitIsRefused) {
  for (const char* text : {"", "ms", "-1ms", "nanms", "infs", "x5ms", " 5ms", "+5ms", "0x5ms"}) {
    EXPECT_NE(refusal(parse_duration, text), "accepted") << text;
  }
  EXPECT_EQ(refusal(parse_duration, "20"), "'20' has no unit; write one of ns, us, ms, s, min, h");
  EXPECT_EQ(refusal(parse_duration, "20m"), "'20m' has an unknown unit 'm'; write one of ns, us, ms, s, min, h");
  EXPECT_THAT(refusal(parse_bandwidth, "100"), HasSubstr("has no unit"));
  EXPECT_THAT(refusal(parse_bandwidth, "100mbit/s"), HasSubstr("unknown unit 'mbit/s'"));
  EXPECT_THAT(refusal(parse_bytes, "25 MiB "), HasSubstr("unknown unit"));
  EXPECT_THAT(refusal(parse_bytes, "1e400B"), HasSubstr("is not a size"));
  EXPECT_EQ(refusal(parse_bytes, "9223372036854775808"), "'9223372036854775808' is too large");
  EXPECT_EQ(refusal(parse_duration, "3000000h"), "'3000000h' is too large");
}

TEST(Units, FormatForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(25 << 20), "25.0 MiB");
  EXPECT_EQ(format_bytes(Bytes{5} << 29), "2.50 GiB");
  EXPECT_EQ(format_bandwidth(9600), "9.6 kbit");
  EXPECT_EQ(format_bandwidth(100e6), "100 mbit");
  EXPECT_EQ(format_bandwidth(2.5e9), "2.5 gbit");
  EXPECT_EQ(format_bandwidth(40e12), "40000 gbit");
  EXPECT_EQ(format_duration(0ns), "0 us");
  EXPECT_EQ(format_duration(20ms), "20 ms");
  EXPECT_EQ(format_duration(1500ms), "1.5 s");
  EXPECT_EQ(format_duration(1234ms), "1.23 s");
  EXPECT_EQ(format_duration(125s), "2 min 05 s");
  EXPECT_EQ(format_duration(62min), "1 h 02 min");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(12345), "12.3 k");
  EXPECT_EQ(format_count(8'050'000), "8.05 M");
}

TEST(Units, FormatRoundsIntoTheNextUnit) {
  EXPECT_EQ(format_duration(999'700us), "1 s");
  EXPECT_EQ(format_duration(999'700ns), "1 ms");
  EXPECT_EQ(format_duration(59'990ms), "1 min 00 s");
  EXPECT_EQ(format_bandwidth(999.9e6), "1 gbit");
}

TEST(Units, WrittenValuesAreShortAndParseBackExactly) {
  EXPECT_EQ(write_bytes(0), "0B");
  EXPECT_EQ(write_bytes(Bytes{512} << 20), "512MiB");
  EXPECT_EQ(write_bytes(25'000'000), "25MB");
  EXPECT_EQ(write_bandwidth(100e6), "100mbit");
  EXPECT_EQ(write_bandwidth(2.5e9), "2.5gbit");
  EXPECT_EQ(write_duration(20ms), "20ms");
  EXPECT_EQ(write_duration(0ns), "0s");
  for (const std::int64_t n : {1L, 7L, 1023L, 1025L, 999'999'999'937L, (1L << 53) - 1}) {
    EXPECT_EQ(parse_bytes(write_bytes(n)), n);
    EXPECT_EQ(parse_duration(write_duration(std::chrono::nanoseconds(n))).count(), n);
  }
  for (const double rate : {1.0, 0.1, 1e6 / 3, 123456789.5, 1e15 / 7}) {
    EXPECT_EQ(parse_bandwidth(write_bandwidth(rate)), rate);
  }
}

}  // namespace
}  // namespace rookery
