#include "sync/segmented.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "collective/testing/virtual_mesh.h"
#include "sync/all_reduce.h"
#include "sync/gossip.h"
#include "sync/link_rounds.h"
#include "sync/local_sgd.h"

namespace rookery::sync {
namespace {

using namespace std::chrono_literals;
using collective::testing::VirtualMesh;

constexpr std::size_t kValues = 1000;

// Clusters that cut the same vector at different places: `borders` of each, from 0 to the end.
struct Clusters {
  std::vector<std::vector<std::size_t>> borders;

  struct Holder {
    std::size_t cluster = 0, begin = 0, end = 0;
  };

  std::vector<Holder> holders() const {  // by rank
    std::vector<Holder> all;
    for (std::size_t c = 0; c < borders.size(); ++c) {
      for (std::size_t s = 0; s + 1 < borders[c].size(); ++s) all.push_back({c, borders[c][s], borders[c][s + 1]});
    }
    return all;
  }

  std::vector<std::size_t> refined() const {
    std::vector<std::size_t> all;
    for (const auto& own : borders) all.insert(all.end(), own.begin(), own.end());
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return all;
  }

  // Who holds [begin, …) in each cluster, by rank.
  std::vector<std::size_t> ring(std::size_t begin) const {
    std::vector<std::size_t> ranks;
    const auto all = holders();
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].begin <= begin && begin < all[rank].end) ranks.push_back(rank);
    }
    return ranks;
  }
};

using MakeMethod = std::function<std::unique_ptr<Method>(Rounds&, std::size_t segment, std::size_t clusters)>;

// Every peer takes one step without gradients, in which the method agrees.
std::vector<std::vector<float>> agree(const Clusters& clusters, const MakeMethod& make) {
  const auto holders = clusters.holders();
  const auto refined = clusters.refined();
  VirtualMesh mesh(holders.size(), {.latency = 1ms});
  std::vector<std::vector<float>> values(holders.size());
  Random random({4});
  for (std::size_t rank = 0; rank < holders.size(); ++rank) {
    values[rank].resize(holders[rank].end - holders[rank].begin);
    for (float& value : values[rank]) value = static_cast<float>(random.uniform());
  }
  const auto before = values;
  const auto outcomes = mesh.run(
      [&](std::size_t rank) -> Task<> {
        Clock& clock = mesh.world().clock();
        const auto [cluster, begin, end] = holders[rank];
        std::vector<std::unique_ptr<LinkRounds>> rounds;
        std::vector<Segmented::Part> parts;
        for (std::size_t s = 0; s + 1 < refined.size(); ++s) {
          if (refined[s] < begin || refined[s] >= end) continue;
          std::vector<net::Link*> links;
          for (const std::size_t other : clusters.ring(refined[s])) links.push_back(mesh.links(rank)[other]);
          rounds.push_back(
              std::make_unique<LinkRounds>(clock, clock.executor(), cluster, links,
                                           LinkRoundsOptions{.segment = static_cast<std::uint32_t>(s), .slots = 1}));
          parts.push_back({.begin = refined[s] - begin,
                           .end = refined[s + 1] - begin,
                           .method = make(*rounds.back(), s, clusters.borders.size())});
        }
        Segmented method(clock.executor(), std::move(parts));
        std::vector<float> gradients(values[rank].size());
        const Copy copy{.parameters = values[rank], .gradients = gradients};
        method.start(copy);
        auto updating = method.before_update(0, copy);
        co_await std::move(updating);
        if (method.works_on_blocks()) {
          for (std::size_t at = 0; at < values[rank].size(); at += 100) {
            const std::size_t to = std::min(at + 100, values[rank].size());
            method.before_block(at, to, copy);
            method.after_block(at, to, copy);
          }
        }
        auto stepping = method.after_step(0, copy);
        co_await std::move(stepping);
        auto settling = method.settle(copy);
        co_await std::move(settling);
        EXPECT_EQ(method.rounds(), 1u);
        auto staying = clock.sleep_for(1min);
        co_await std::move(staying);
      },
      Time(1h));
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();

  // The serial average of the whole vectors.
  std::vector<double> mean(kValues);
  for (std::size_t rank = 0; rank < holders.size(); ++rank) {
    for (std::size_t i = 0; i < before[rank].size(); ++i) {
      mean[holders[rank].begin + i] +=
          static_cast<double>(before[rank][i]) / static_cast<double>(clusters.borders.size());
    }
  }
  for (std::size_t rank = 0; rank < holders.size(); ++rank) {
    for (std::size_t i = 0; i < values[rank].size(); ++i) {
      EXPECT_NEAR(values[rank][i], mean[holders[rank].begin + i], 1e-6) << "peer " << rank << " value " << i;
    }
  }
  return values;
}

const Clusters kTwoThreeAndFive = {{{0, 420, kValues}, {0, 100, 420, kValues}, {0, 10, 200, 500, 990, kValues}}};

TEST(SegmentedTest, ClustersWithDifferentCutsEndWithTheSerialAverageAndTheSameBits) {
  const auto values = agree(kTwoThreeAndFive, [](Rounds& rounds, std::size_t, std::size_t clusters) {
    return std::make_unique<LocalSgd>(rounds, 1.0f / static_cast<float>(clusters), LocalOptions{.interval = 1});
  });
  const auto holders = kTwoThreeAndFive.holders();
  std::vector<std::vector<float>> whole(3, std::vector<float>(kValues));
  for (std::size_t rank = 0; rank < holders.size(); ++rank) {
    std::ranges::copy(values[rank],
                      whole[holders[rank].cluster].begin() + static_cast<std::ptrdiff_t>(holders[rank].begin));
  }
  EXPECT_EQ(whole[0], whole[1]);
  EXPECT_EQ(whole[0], whole[2]);
}

TEST(SegmentedTest, GossipMixesBlockByBlockAcrossSegments) {
  agree(kTwoThreeAndFive, [](Rounds& rounds, std::size_t, std::size_t clusters) {
    return std::make_unique<Gossip>(rounds, plan::Topology("complete", std::vector<plan::Member>(clusters)),
                                    GossipOptions{});
  });
}

TEST(SegmentedTest, AClusterOfOneIsInEveryRing) {
  agree({{{0, kValues}, {0, 300, kValues}}}, [](Rounds& rounds, std::size_t, std::size_t clusters) {
    return std::make_unique<LocalSgd>(rounds, 1.0f / static_cast<float>(clusters), LocalOptions{.interval = 1});
  });
}

// Remembers what it was told.
struct Told : Method {
  void gradients_ready(std::uint64_t, std::size_t from, Copy) override { ready.push_back(from); }
  std::optional<double> drift(Copy) const override { return 3; }
  std::vector<std::size_t> ready;
};

TEST(SegmentedTest, GradientsAreReadyFromTheEndOn) {
  std::vector<Segmented::Part> parts;
  std::vector<Told*> told;
  for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 10}, {10, 25}, {25, 40}}) {
    auto method = std::make_unique<Told>();
    told.push_back(method.get());
    parts.push_back({begin, end, std::move(method)});
  }
  VirtualWorld world;
  Segmented method(world.executor(), std::move(parts));
  std::vector<float> values(40), gradients(40);
  const Copy copy{.parameters = values, .gradients = gradients};
  method.start(copy);
  for (const std::size_t from : {30, 12, 0}) method.gradients_ready(0, from, copy);
  EXPECT_EQ(told[2]->ready, (std::vector<std::size_t>{5, 0, 0}));
  EXPECT_EQ(told[1]->ready, (std::vector<std::size_t>{2, 0}));
  EXPECT_EQ(told[0]->ready, (std::vector<std::size_t>{0}));
  EXPECT_NEAR(*method.drift(copy), 3 * std::sqrt(3.0), 1e-12);
}

// Rings of disjoint peers take the time of one: four pairs, each with a slow link of its own.
TEST(SegmentedTest, RingsOfDisjointPeersRunAtTheSameTime) {
  const auto time_of = [](std::size_t rings) {
    VirtualMesh mesh(2 * rings, {.bandwidth = 8e6, .latency = 5ms});
    std::vector<std::vector<float>> values(2 * rings, std::vector<float>(250'000));
    Time end{};
    const auto outcomes = mesh.run(
        [&](std::size_t rank) -> Task<> {
          Clock& clock = mesh.world().clock();
          const std::size_t cluster = rank / rings, ring = rank % rings;
          std::vector<net::Link*> links = {mesh.links(rank)[ring], mesh.links(rank)[rings + ring]};
          LinkRounds rounds(clock, clock.executor(), cluster, links,
                            {.segment = static_cast<std::uint32_t>(ring), .slots = 1});
          const auto round = rounds.average(0, values[rank], 0.5f, {});
          co_await round->finish();
          end = std::max(end, clock.now());
          auto staying = clock.sleep_for(1min);
          co_await std::move(staying);
        },
        Time(1h));
    for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
    return std::chrono::duration<double>(end.time_since_epoch()).count();
  };
  EXPECT_NEAR(time_of(4), time_of(1), 0.05 * time_of(1));
}

}  // namespace
}  // namespace rookery::sync
