#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

// What the comparison programs have in common: how they fill, check, time and report, as `rookery bench` does.

inline constexpr int kWarmUp = 2;

inline float contribution(int rank, std::size_t k) {
  return static_cast<float>((7 * k + 13 * static_cast<std::size_t>(rank)) % 101);
}

inline void fill(std::vector<float>& values, int rank) {
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = contribution(rank, k);
}

inline bool correct(const std::vector<float>& values, int peers) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    float sum = 0;
    for (int rank = 0; rank < peers; ++rank) sum += contribution(rank, k);
    if (values[k] != sum) return false;
  }
  return true;
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline void print_seconds(const std::vector<double>& seconds) {
  std::printf("[");
  for (std::size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.9f", i == 0 ? "" : ", ", seconds[i]);
  std::printf("]\n");
}
