#include "plan/grid.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace rookery::plan {
namespace {

// Lengths of the axes of a grid that has exactly so many places: prime factors, multiplied where that is allowed.
// Nothing if there is none.
std::optional<std::vector<std::size_t>> axes_of(std::size_t places, std::size_t most) {
  std::vector<std::size_t> primes;
  std::size_t left = places;
  for (std::size_t p = 2; p * p <= left; ++p) {
    while (left % p == 0) {
      primes.push_back(p);
      left /= p;
    }
  }
  if (left > 1) primes.push_back(left);
  std::ranges::sort(primes, std::greater<>());
  std::vector<std::size_t> axes;
  for (const std::size_t prime : primes) {
    if (prime > most) return std::nullopt;
    const auto fits = std::ranges::find_if(axes, [&](std::size_t axis) { return axis * prime <= most; });
    if (fits == axes.end()) {
      axes.push_back(prime);
    } else {
      *fits *= prime;
    }
  }
  return axes;
}

// Peers in a grid.
struct Grid {
  std::vector<std::size_t> axes;
  std::size_t places = 1;  // the i-th of those who have none goes with rank i
};

Grid grid_of(std::size_t peers, std::size_t most, std::size_t together) {
  Grid grid;
  if (together > most) together = 1;
  if (together > 1) grid.axes.push_back(together);
  std::size_t blocks = peers / together;
  if (blocks > 1 && blocks <= most) {
    grid.axes.push_back(blocks);
  } else if (blocks > most) {
    std::optional<std::vector<std::size_t>> others = axes_of(blocks, most);
    while (!others) others = axes_of(--blocks, most);
    grid.axes.insert(grid.axes.end(), others->begin(), others->end());
  }
  grid.places = blocks * together;
  return grid;
}

}  // namespace

std::vector<GridPhase> grid_phases(std::size_t rank, std::size_t peers, std::size_t most, std::size_t together) {
  ROOKERY_CHECK(rank < peers && most >= 2, "rank {} of {}, rings of {}", rank, peers, most);
  ROOKERY_CHECK(together >= 1 && peers % together == 0, "blocks of {} among {}", together, peers);
  if (peers == 1) return {};
  const auto [axes, places] = grid_of(peers, most, together);
  const std::size_t beside = peers - places;
  using enum GridPhase::Kind;
  if (rank >= places) {
    const std::vector<std::size_t> pair = {rank - places, rank};
    return {{.kind = kBring, .number = 0, .members = pair},
            {.kind = kHandOn, .number = axes.size() + 1, .members = pair, .brings = false}};
  }
  std::vector<GridPhase> phases;
  if (rank < beside) phases.push_back({.kind = kBring, .number = 0, .members = {rank, rank + places}});
  std::size_t stride = 1;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    GridPhase& phase = phases.emplace_back(
        GridPhase{.kind = kAxis, .number = k + 1, .members = {}, .share = 1 / static_cast<double>(stride)});
    const std::size_t first = rank - rank / stride % axes[k] * stride;
    for (std::size_t i = 0; i < axes[k]; ++i) phase.members.push_back(first + i * stride);
    stride *= axes[k];
  }
  if (rank < beside) phases.push_back({.kind = kHandOn, .number = axes.size() + 1, .members = {rank, rank + places}});
  return phases;
}

std::vector<std::vector<std::size_t>> grid_turns(std::size_t rank, std::size_t peers, std::size_t most) {
  const auto [axes, places] = grid_of(peers, most, 1);
  const std::size_t first = places < peers ? 0 : 1;  // with nobody beside the grid there is no such phase
  std::vector<std::vector<std::size_t>> turns(axes.size() + 1 - first, {rank});
  for (GridPhase& phase : grid_phases(rank, peers, most)) {
    if (phase.kind != GridPhase::Kind::kHandOn) turns[phase.number - first] = std::move(phase.members);
  }
  return turns;
}

std::size_t block_of(std::size_t peers, const std::function<bool(std::size_t, std::size_t)>& are_close) {
  std::size_t size = 1;
  while (size < peers && are_close(0, size)) ++size;
  if (size == 1 || size == peers || peers % size != 0) return 1;
  for (std::size_t rank = size; rank < peers; ++rank) {
    const bool begins = rank % size == 0;
    if (are_close(rank - 1, rank) == begins) return 1;
  }
  return size;
}

}  // namespace rookery::plan
