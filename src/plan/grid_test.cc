#include "plan/grid.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace rookery::plan {
namespace {

// Everybody's phases, carried out one after another as rings would: all members of a ring take the same phase of
// theirs.
std::vector<double> summed(std::size_t peers, std::size_t most, std::size_t together = 1) {
  std::vector<double> values(peers);
  std::iota(values.begin(), values.end(), 1.0);
  std::vector<std::vector<GridPhase>> left(peers);
  for (std::size_t rank = 0; rank < peers; ++rank) left[rank] = grid_phases(rank, peers, most, together);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < peers; ++rank) {
      if (left[rank].empty()) continue;
      const GridPhase phase = left[rank].front();
      const std::vector<std::size_t>& members = phase.members;
      const auto is_there = [&](std::size_t member) {
        return !left[member].empty() && left[member].front().number == phase.number &&
               left[member].front().kind == phase.kind && left[member].front().members == members;
      };
      if (!std::ranges::all_of(members, is_there)) continue;
      double sum = 0;
      for (const std::size_t member : members) sum += left[member].front().brings ? values[member] : 0;
      for (const std::size_t member : members) {
        values[member] = sum;
        left[member].erase(left[member].begin());
      }
      moved = true;
    }
  }
  for (const auto& phases : left) EXPECT_TRUE(phases.empty()) << peers << " peers in rings of " << most;
  return values;
}

TEST(GridTest, EverybodyEndsWithTheSumOfAll) {
  for (const std::size_t most : {2, 3, 5, 16}) {
    for (std::size_t peers = 1; peers <= 70; ++peers) {
      const double all = static_cast<double>(peers * (peers + 1)) / 2;
      for (const double sum : summed(peers, most)) ASSERT_EQ(sum, all) << peers << " peers in rings of " << most;
    }
  }
}

TEST(GridTest, BlocksMakeUpTheFirstAxis) {
  for (const std::size_t together : {2, 3, 4}) {
    for (std::size_t blocks = 2; blocks <= 40; ++blocks) {
      const std::size_t peers = together * blocks;
      const double all = static_cast<double>(peers * (peers + 1)) / 2;
      for (const double sum : summed(peers, 5, together)) ASSERT_EQ(sum, all) << blocks << " blocks of " << together;
    }
  }
  const std::vector<GridPhase> phases = grid_phases(6, 12, 16, 4);
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0].members, (std::vector<std::size_t>{4, 5, 6, 7}));
  EXPECT_EQ(phases[0].share, 1);
  EXPECT_EQ(phases[1].members, (std::vector<std::size_t>{2, 6, 10}));
  EXPECT_EQ(phases[1].share, 0.25);
}

TEST(GridTest, BlocksAreNeighboursOfEqualNumber) {
  const auto block = [](const std::string& hosts) {
    return block_of(hosts.size(), [&](std::size_t a, std::size_t b) { return hosts[a] == hosts[b]; });
  };
  EXPECT_EQ(block("aabb"), 2u);
  EXPECT_EQ(block("aaabbbcccddd"), 3u);
  EXPECT_EQ(block("aabbaa"), 2u);
  EXPECT_EQ(block("aaaa"), 1u);  // one block alone
  EXPECT_EQ(block("abab"), 1u);
  EXPECT_EQ(block("aabbb"), 1u);
  EXPECT_EQ(block("aabc"), 1u);
  EXPECT_EQ(block("a"), 1u);
}

TEST(GridTest, RingsAreNotLargerThanAllowedAndPhasesAreFew) {
  for (const std::size_t peers : {17, 250, 1249, 1250, 5000}) {
    for (std::size_t rank = 0; rank < peers; rank += 7) {
      const std::vector<GridPhase> phases = grid_phases(rank, peers, 16);
      EXPECT_LE(phases.size(), 6u);
      for (const GridPhase& phase : phases) {
        EXPECT_LE(phase.members.size(), 16u);
        EXPECT_TRUE(std::ranges::is_sorted(phase.members));
        EXPECT_EQ(std::ranges::count(phase.members, rank), 1);
      }
    }
  }
  EXPECT_EQ(grid_phases(3, 16, 16).size(), 1u);
  EXPECT_EQ(grid_phases(0, 1, 16).size(), 0u);
}

}  // namespace
// Whoever is in a turn agrees on who is in it, rings are small, and after all turns means are close to that of all.
TEST(GridTest, InTurnsEverybodyHearsOfEverybody) {
  for (const std::size_t peers : {1, 2, 5, 16, 17, 23, 64, 100, 1250}) {
    const std::size_t most = 16, turns = grid_turns(0, peers, most).size();
    std::vector<std::set<std::size_t>> heard(peers);
    for (std::size_t rank = 0; rank < peers; ++rank) heard[rank] = {rank};
    for (std::size_t round = 0; round < 2 * turns; ++round) {  // of those beside the grid, one turn after the others
      std::vector<std::set<std::size_t>> before = heard;
      for (std::size_t rank = 0; rank < peers; ++rank) {
        const auto all = grid_turns(rank, peers, most);
        ASSERT_EQ(all.size(), turns);
        const auto& members = all[round % turns];
        ASSERT_LE(members.size(), most);
        ASSERT_TRUE(std::ranges::binary_search(members, rank));
        for (const std::size_t member : members) {
          ASSERT_EQ(grid_turns(member, peers, most)[round % turns], members);
          heard[rank].insert(before[member].begin(), before[member].end());
        }
      }
      if (peers > 100) break;  // takes long
    }
    for (std::size_t rank = 0; peers <= 100 && rank < peers; ++rank) EXPECT_EQ(heard[rank].size(), peers);
  }
}

}  // namespace rookery::plan
