#include "base/random.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace rookery {
namespace {

// SplitMix64's finaliser: a bijection on 64 bits in which every input bit reaches every output bit.
std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(p1) ^ counter[1] ^ key[0], low(p1), high(p0) ^ counter[3] ^ key[1], low(p0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

Random::Random(std::initializer_list<std::uint64_t> words) : key_(0x9e3779b97f4a7c15u) {
  for (const std::uint64_t word : words) key_ = mixed(key_ ^ mixed(word + 0x9e3779b97f4a7c15u)) + words.size();
}

std::array<std::uint32_t, 4> Random::block(std::uint64_t index) const {
  return philox({low(index), high(index), 0, 0}, {low(key_), high(key_)});
}

std::uint32_t Random::next() {
  if (used_ == 4) {
    buffer_ = block(next_index_++);
    used_ = 0;
  }
  return buffer_[used_++];
}

double Random::uniform() {
  const std::uint64_t bits = (std::uint64_t{next()} << 32 | next()) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

std::uint64_t Random::below(std::uint64_t n) {
  ROOKERY_CHECK(n > 0);
  // Values under 2^64 mod n would favour small results: draw again.
  const std::uint64_t reject_below = (0 - n) % n;
  while (true) {
    const std::uint64_t bits = std::uint64_t{next()} << 32 | next();
    if (bits >= reject_below) return bits % n;
  }
}

std::uint64_t word_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::uint64_t permuted(const Random& random, std::uint64_t i, std::uint64_t n) {
  ROOKERY_CHECK(i < n, "i = {}, n = {}", i, n);
  // A Feistel network permutes [0, 4^half); values outside [0, n) walk on until they fall inside. Four rounds are
  // enough for large n, but with them some places of a set of five are a third more likely than others.
  constexpr std::uint64_t kRounds = 8;
  const int half = std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = i >> half, right = i & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const auto bits = random.block(round << 48 ^ right);
      const std::uint64_t next_right = left ^ (bits[0] & mask);
      left = right;
      right = next_right;
    }
    i = left << half | right;
  } while (i >= n);
  return i;
}

}  // namespace rookery
