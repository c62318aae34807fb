#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace rookery {

// Sizes, rates and durations as people write them, and back. Each parser takes a number directly followed by a unit
// (a space between them is fine) and throws InputError, which lists the units it knows, on anything else: a missing
// unit, a negative number, a value out of range.

// A number of bytes: "512", "512B", "25MB", "25MiB", "2GiB".
using Bytes = std::int64_t;
Bytes parse_bytes(std::string_view text);
std::string format_bytes(Bytes bytes);  // "25.0 MiB"

// Bits per second: "9600bit", "100mbit", "1gbit"; also bytes: "12MB/s".
using BitsPerSecond = double;
BitsPerSecond parse_bandwidth(std::string_view text);
std::string format_bandwidth(BitsPerSecond rate);  // "100 mbit"

// "250us", "20ms", "1.5s", "3min", "2h".
std::chrono::nanoseconds parse_duration(std::string_view text);
std::string format_duration(std::chrono::nanoseconds duration);  // "20 ms", "1.5 s", "2 min 05 s", "1 h 02 min"

// As short as parsing allows while giving exactly the same value: "25MiB", "100mbit", "20ms". For files.
std::string write_bytes(Bytes bytes);
std::string write_bandwidth(BitsPerSecond rate);
std::string write_duration(std::chrono::nanoseconds duration);

// A count for a person: 950, "12.3 k", "8.05 M".
std::string format_count(double count);

}  // namespace rookery
