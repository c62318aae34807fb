#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace rookery {

// Philox4x32-10 (Salmon et al., 2011): a block cipher on the counter that serves as a random function. For one key,
// different counters give different blocks.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

// Counter-based random numbers: draw i of a key is a pure function of (key, i). There is no hidden state to save, share
// or race on, so any peer can compute any draw.
class Random {
 public:
  // A generator for one purpose. The words name it: Random({seed, kDropout, layer, micro_batch}). Different lists give
  // independent streams.
  explicit Random(std::initializer_list<std::uint64_t> words);

  // The i-th block of 128 random bits, in any order, without changing the object.
  std::array<std::uint32_t, 4> block(std::uint64_t index) const;

  // The stream of draws, for code that takes one after another.
  std::uint32_t next();
  double uniform();                      // in [0, 1)
  std::uint64_t below(std::uint64_t n);  // in [0, n), without bias. Requires: n > 0

 private:
  std::uint64_t key_;
  std::uint64_t next_index_ = 0;
  std::array<std::uint32_t, 4> buffer_{};
  int used_ = 4;
};

// A word for Random from a name, e.g. of a parameter. Stable across versions and machines (FNV-1a, 64 bits).
std::uint64_t word_of(std::string_view name);

// A pseudo-random permutation of [0, n), element by element: no table, so the order of a data set of any size costs
// nothing. Requires: n > 0, i < n.
std::uint64_t permuted(const Random& random, std::uint64_t i, std::uint64_t n);

}  // namespace rookery
