#include "plan/baselines.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "base/testing/seeds.h"
#include "plan/planner.h"

namespace rookery::plan {
namespace {

constexpr std::size_t kLayers = 12;

ModelProfile layers() {
  return ModelProfile(kLayers, {.parameters = 1'000'000,
                                .forward = 0.05,
                                .backward = 0.1,
                                .activations = 4'000'000,
                                .border = 500'000,
                                .gradients = 500'000});
}

// Computers that differ by a factor of eight, of which few can hold the whole model.
Swarm mixed_swarm(std::uint64_t seed, std::size_t peers) {
  Random random({seed});
  Swarm swarm;
  for (std::size_t i = 0; i < peers; ++i) {
    Peer& peer = swarm.peers.emplace_back();
    peer.speed = 0.25 * std::exp2(3 * random.uniform());
    peer.uplink = peer.downlink = 2e6 * std::exp2(4 * random.uniform());
    peer.latency = 0.005 + 0.02 * random.uniform();
    peer.memory = static_cast<Bytes>(80e6 * std::exp2(2 * random.uniform()));
  }
  return swarm;
}

TEST(BaselinesTest, CutsFollowShares) {
  const std::vector<double> shares = {1, 2, 3};
  EXPECT_EQ(proportional_cut(12, shares), (Cut{{0, 2}, {2, 6}, {6, 12}}));
  const std::vector<double> extreme = {1e9, 1, 1};
  EXPECT_EQ(proportional_cut(4, extreme), (Cut{{0, 2}, {2, 3}, {3, 4}}));
}

TEST(BaselinesTest, TheGeneticAlgorithmFindsClustersThatHoldTheModel) {
  const Job job{.model = layers(), .samples = 8};
  const Swarm swarm = mixed_swarm(1, 8);
  const Forming forming{.job = job, .swarm = swarm, .schedule = {.schedule = Schedule::kAsync, .micro_batches = 4}};
  const double needed =
      static_cast<double>(stage_memory(job.model, {0, kLayers}, forming.schedule, {}, forming.keeping).total());
  for (const auto& peers : ravnest_formation(forming, 2, 1)) {
    double memory = 0;
    for (const std::size_t peer : peers) memory += static_cast<double>(*swarm.peers[peer].memory);
    EXPECT_GE(memory, needed);
  }
  EXPECT_EQ(ravnest_formation(forming, 2, 1), ravnest_formation(forming, 2, 1));
}

// By the runtime model. What simulation says is in the benchmarks.
TEST(BaselinesTest, ThePlannerIsNeverWorse) {
  for (std::uint64_t seed = 1; seed <= repetitions(12); ++seed) {
    const Job job{.model = layers(), .samples = 8, .goal = seed % 2 == 0 ? Goal::kLoss : Goal::kSamples};
    const Swarm swarm = mixed_swarm(seed, 8);
    const ScheduleOptions schedule{.schedule = Schedule::kAsync, .micro_batches = 4};
    const Forming forming{.job = job, .swarm = swarm, .schedule = schedule};
    const MethodOptions method{.method = Method::kDiloco, .interval = 50};
    Wishes wishes{.schedules = {schedule}, .methods = {method}};
    const double own = decide(job, swarm, wishes).front().value();
    const auto rate_of = [&](const auto& make) {  // 0 if it finds nothing that fits
      try {
        const Candidate candidate = make();
        return predict(job, swarm, candidate).samples_per_second * worth(candidate, job.goal);
      } catch (const InputError&) {
        return 0.0;
      }
    };
    EXPECT_GE(own, 0.999 * rate_of([&] { return ravnest(forming, method, seed); })) << seed;
    EXPECT_GE(own, 0.999 * rate_of([&] { return equal_shares(forming, method); })) << seed;
  }
}

}  // namespace
}  // namespace rookery::plan
