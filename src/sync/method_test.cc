#include "sync/method.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include <gtest/gtest.h>

#include "base/random.h"
#include "collective/testing/virtual_mesh.h"
#include "sync/all_reduce.h"
#include "sync/diloco.h"
#include "sync/gossip.h"
#include "sync/link_rounds.h"
#include "sync/local_sgd.h"
#include "sync/palsgd.h"

namespace rookery::sync {
namespace {

using namespace std::chrono_literals;
using collective::testing::VirtualMesh;

constexpr std::size_t kValues = 5000;
constexpr double kLr = 0.1;

std::vector<float> random_floats(std::uint64_t seed, std::size_t size = kValues) {
  Random random({seed, word_of("sync")});
  std::vector<float> values(size);
  for (float& v : values) v = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

// Peers that train by SGD, each on a loss of its own: ½‖x − c_k‖² with some noise in the gradient. Step t of peer k is
// a pure function of (k, t), so a run can be repeated in any other way.
class Swarm {
 public:
  using MakeMethod = std::function<std::unique_ptr<Method>(Rounds&, std::size_t rank)>;

  explicit Swarm(std::size_t peers, net::LineOptions line = {}) : mesh_(peers, line) {
    for (std::size_t k = 0; k < peers; ++k) {
      copies_.push_back(random_floats(1));
      gradients_.emplace_back(kValues);
      centres_.push_back(random_floats(100 + k));
    }
    moments_.resize(peers);
  }

  std::vector<VirtualMesh::Outcome> train(std::uint64_t steps, const MakeMethod& make, LinkRoundsOptions options = {}) {
    return mesh_.run(
        [&](std::size_t rank) -> Task<> {
          LinkRounds rounds(mesh_.world().clock(), mesh_.world().executor(), rank, mesh_.links(rank), options);
          const auto method = make(rounds, rank);
          method->start(copy(rank));
          for (std::uint64_t step = 0; step < steps; ++step) {
            co_await take_step(*method, rank, step);
            if (after_step) after_step(rank, step);
          }
          auto settled = method->settle(copy(rank));
          co_await std::move(settled);
          finished_rounds = method->rounds();
          co_await mesh_.world().clock().sleep_for(60s);  // those who are ahead stay for those who are not
        },
        Time(24h));
  }

  Copy copy(std::size_t rank) {
    return {.parameters = copies_[rank], .gradients = gradients_[rank], .moments = moments_[rank]};
  }

  // From now on each copy has moments, too; they stay as they are but for rounds.
  void add_moments(std::vector<float>& moments, std::size_t rank) { moments_[rank].emplace_back(moments); }

  // The loss's gradient at x, in step t of peer k.
  float gradient(std::size_t k, std::uint64_t t, std::size_t i, float x) const {
    const float noise = static_cast<float>((t * 37 + k * 11 + i * 5) % 17) / 100.0f;
    return x - centres_[k][i] + noise;
  }

  // How far the copies are from their mean, at most.
  double distance() const {
    double largest = 0;
    for (std::size_t i = 0; i < kValues; ++i) {
      double mean = 0;
      for (const auto& x : copies_) mean += static_cast<double>(x[i]) / static_cast<double>(copies_.size());
      for (const auto& x : copies_) largest = std::max(largest, std::abs(static_cast<double>(x[i]) - mean));
    }
    return largest;
  }

  VirtualMesh& mesh() { return mesh_; }
  std::deque<std::vector<float>>& copies() { return copies_; }

  double lr = kLr;
  std::uint64_t finished_rounds = 0;
  std::function<void(std::size_t, std::uint64_t)> after_step;

 private:
  Task<> take_step(Method& method, std::size_t rank, std::uint64_t step) {
    std::vector<float>& x = copies_[rank];
    if (method.move(step) == Move::kPull) {
      method.pull(step, 1, copy(rank));
    } else {
      std::vector<float>& g = gradients_[rank];
      for (std::size_t i = 0; i < kValues; ++i) g[i] = gradient(rank, step, i, x[i]);
      co_await mesh_.world().clock().sleep_for(1ms);  // the time it takes
      method.gradients_ready(step, kValues / 2, copy(rank));
      auto averaged = method.before_update(step, copy(rank));
      co_await std::move(averaged);
      const auto rate = static_cast<float>(lr * method.lr_factor(step));
      for (const auto& [begin, end] : {std::pair(kValues / 3, kValues), std::pair(std::size_t{0}, kValues / 3)}) {
        if (method.works_on_blocks()) method.before_block(begin, end, copy(rank));
        for (std::size_t i = begin; i < end; ++i) x[i] -= rate * g[i];
        if (method.works_on_blocks()) method.after_block(begin, end, copy(rank));
      }
    }
    auto done = method.after_step(step, copy(rank));
    co_await std::move(done);
  }

  VirtualMesh mesh_;
  std::deque<std::vector<float>> copies_, gradients_, centres_;
  std::deque<std::vector<std::span<float>>> moments_;
};

void expect_success(const std::vector<VirtualMesh::Outcome>& outcomes) {
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
}

void expect_near(std::span<const float> a, std::span<const float> b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max<double>(largest, std::abs(a[i] - b[i]));
  EXPECT_LE(largest, tolerance);
}

float equal_share(std::size_t peers) { return 1.0f / static_cast<float>(peers); }

const auto kAllReduce = [](Rounds& rounds, std::size_t) -> std::unique_ptr<Method> {
  return std::make_unique<AllReduce>(rounds, equal_share(rounds.peers()), 1000);
};

// K peers with batch b follow the trajectory of one with batch K·b.
TEST(AllReduceTest, PeersFollowTheTrajectoryOfOneWithAllTheirSamples) {
  for (const std::size_t peers : {1, 2, 4, 5}) {
    Swarm swarm(peers);
    expect_success(swarm.train(50, kAllReduce, {.slots = AllReduce::buckets(kValues, 1000)}));
    std::vector<double> alone(kValues);
    std::ranges::copy(random_floats(1), alone.begin());
    for (std::uint64_t step = 0; step < 50; ++step) {
      for (std::size_t i = 0; i < kValues; ++i) {
        double mean = 0;
        for (std::size_t k = 0; k < peers; ++k) {
          mean += static_cast<double>(swarm.gradient(k, step, i, static_cast<float>(alone[i]))) /
                  static_cast<double>(peers);
        }
        alone[i] -= kLr * mean;
      }
    }
    EXPECT_EQ(swarm.distance(), 0) << peers;
    for (std::size_t i = 0; i < kValues; ++i) EXPECT_NEAR(swarm.copies()[0][i], alone[i], 1e-5) << peers;
  }
}

// Unequal work: the mean gradient is weighted by the shares.
TEST(AllReduceTest, SharesWeightTheMean) {
  Swarm swarm(3);
  const float shares[] = {0.5f, 0.3f, 0.2f};
  expect_success(swarm.train(
      1, [&](Rounds& rounds, std::size_t rank) { return std::make_unique<AllReduce>(rounds, shares[rank], kValues); }));
  const auto begin = random_floats(1);
  for (std::size_t i = 0; i < kValues; ++i) {
    double mean = 0;
    for (std::size_t k = 0; k < 3; ++k) mean += static_cast<double>(shares[k] * swarm.gradient(k, 0, i, begin[i]));
    EXPECT_NEAR(swarm.copies()[2][i], static_cast<double>(begin[i]) - kLr * mean, 1e-6);
  }
}

Swarm::MakeMethod gossip(const char* topology, GossipMode mode, double consensus = 1, std::size_t per_host = 1) {
  return [=](Rounds& rounds, std::size_t) {
    std::vector<plan::Member> members(rounds.peers());
    for (std::size_t i = 0; i < members.size(); ++i) members[i].host = i / per_host;
    return std::make_unique<Gossip>(rounds, plan::Topology(topology, members),
                                    GossipOptions{.mode = mode, .consensus = consensus});
  };
}

// With η = 0: consensus after one period.
TEST(GossipTest, WithoutLearningOnePeriodIsConsensus) {
  struct Case {
    const char* topology;
    std::size_t peers, per_host;
  };
  for (const Case& c : {Case{"complete", 3, 1}, Case{"one-peer-exp", 8, 1}, Case{"finite", 1, 1}, Case{"finite", 6, 1},
                        Case{"finite", 7, 1}, Case{"alternating-exp-ring", 8, 2}}) {
    for (const GossipMode mode : {GossipMode::kCombineWhileComputing, GossipMode::kAdaptThenCombine}) {
      Swarm swarm(c.peers);
      swarm.lr = 0;
      std::vector<double> mean(kValues, 0.0);
      for (std::size_t k = 0; k < c.peers; ++k) {
        swarm.copies()[k] = random_floats(40 + k);
        for (std::size_t i = 0; i < kValues; ++i) {
          mean[i] += static_cast<double>(swarm.copies()[k][i]) / static_cast<double>(c.peers);
        }
      }
      std::vector<plan::Member> members(c.peers);
      for (std::size_t i = 0; i < c.peers; ++i) members[i].host = i / c.per_host;
      const std::size_t period = plan::Topology(c.topology, members).period();
      expect_success(swarm.train(period, gossip(c.topology, mode, 1, c.per_host)));
      EXPECT_LT(swarm.distance(), 2e-6) << c.topology << " of " << c.peers;
      for (std::size_t i = 0; i < kValues; ++i) EXPECT_NEAR(swarm.copies()[0][i], mean[i], 2e-6);
    }
  }
}

// x_i ← Σ_j W_ij x_j − η g_i with g_i at the unmixed x_i; and, adapting first, x_i ← Σ_j W_ij (x_j − η g_j).
TEST(GossipTest, StepsAreThoseOfTheEquations) {
  constexpr std::size_t kPeers = 5, kSteps = 12;
  for (const GossipMode mode : {GossipMode::kCombineWhileComputing, GossipMode::kAdaptThenCombine}) {
    for (const double consensus : {1.0, 0.5}) {
      Swarm swarm(kPeers, {.bandwidth = 1e9, .latency = 300us, .jitter = 200us});
      expect_success(swarm.train(kSteps, gossip("finite", mode, consensus)));
      const plan::Topology topology("finite", std::vector<plan::Member>(kPeers));
      std::vector<std::vector<double>> x(kPeers, std::vector<double>(kValues));
      for (auto& copy : x) std::ranges::copy(random_floats(1), copy.begin());
      const auto mixed = [&](std::uint64_t step) {
        std::vector<std::vector<double>> result(kPeers, std::vector<double>(kValues, 0.0));
        for (std::size_t i = 0; i < kPeers; ++i) {
          const plan::Mix mix = topology.mix(i, step, consensus);
          for (std::size_t m = 0; m < mix.members.size(); ++m) {
            for (std::size_t v = 0; v < kValues; ++v) {
              result[i][v] += static_cast<double>(mix.weights[m]) * x[mix.members[m]][v];
            }
          }
        }
        return result;
      };
      for (std::uint64_t step = 0; step < kSteps; ++step) {
        const auto before = x;
        if (mode == GossipMode::kCombineWhileComputing && step > 0) x = mixed(step - 1);
        for (std::size_t k = 0; k < kPeers; ++k) {
          for (std::size_t v = 0; v < kValues; ++v) {
            x[k][v] -= kLr * static_cast<double>(swarm.gradient(k, step, v, static_cast<float>(before[k][v])));
          }
        }
        if (mode == GossipMode::kAdaptThenCombine) x = mixed(step);
      }
      if (mode == GossipMode::kCombineWhileComputing) x = mixed(kSteps - 1);
      for (std::size_t k = 0; k < kPeers; ++k) {
        for (std::size_t v = 0; v < kValues; v += 7) EXPECT_NEAR(swarm.copies()[k][v], x[k][v], 1e-5);
      }
    }
  }
}

// an exchange has a whole step to finish. It takes 0.6 of the time of a step here, and costs none.
TEST(GossipTest, TheExchangeIsHiddenBehindTheStep) {
  const net::LineOptions line{.bandwidth = kValues * 4 * 8 / 500e-6, .latency = 100us};
  const auto seconds = [&](const Swarm::MakeMethod& make) {
    Swarm swarm(2, line);
    Time end{};
    swarm.after_step = [&](std::size_t, std::uint64_t) { end = swarm.mesh().world().clock().now(); };
    expect_success(swarm.train(20, make, {.slots = AllReduce::buckets(kValues, 1000)}));
    return std::chrono::duration<double>(end.time_since_epoch()).count();
  };
  EXPECT_NEAR(seconds(gossip("complete", GossipMode::kCombineWhileComputing)), 0.020, 0.0005);
  EXPECT_GT(seconds(gossip("complete", GossipMode::kAdaptThenCombine)), 0.030);
  EXPECT_GT(seconds(kAllReduce), 0.030);
}

Swarm::MakeMethod diloco(LocalOptions local, OuterOptions outer) {
  return [=](Rounds& rounds, std::size_t) {
    return std::make_unique<Diloco>(rounds, equal_share(rounds.peers()), local, outer);
  };
}

Swarm::MakeMethod palsgd(LocalOptions local, OuterOptions outer, PullOptions pull) {
  return [=](Rounds& rounds, std::size_t rank) {
    return std::make_unique<Palsgd>(rounds, equal_share(rounds.peers()), rank, local, outer, pull);
  };
}

Swarm::MakeMethod local_sgd(LocalOptions local) {
  return [=](Rounds& rounds, std::size_t) {
    return std::make_unique<LocalSgd>(rounds, equal_share(rounds.peers()), local);
  };
}

// H = 1, η_o = 1, μ = 0 with SGD equals gradient all-reduce; and so does local SGD with H = 1.
TEST(DilocoTest, WithAnIntervalOfOneItIsAllReduce) {
  Swarm reduced(4), outer(4), local(4);
  expect_success(reduced.train(30, kAllReduce, {.slots = AllReduce::buckets(kValues, 1000)}));
  expect_success(outer.train(30, diloco({.interval = 1}, {.lr = 1, .momentum = 0})));
  expect_success(local.train(30, local_sgd({.interval = 1})));
  expect_near(outer.copies()[0], reduced.copies()[0], 1e-5);
  expect_near(local.copies()[0], reduced.copies()[0], 1e-5);
  EXPECT_EQ(outer.distance(), 0);
  EXPECT_EQ(outer.finished_rounds, 30u);
}

// one peer's local SGD is plain training, to the bit.
TEST(LocalSgdTest, OnePeerIsPlainTraining) {
  Swarm swarm(1);
  expect_success(swarm.train(25, local_sgd({.interval = 7})));
  auto x = random_floats(1);
  for (std::uint64_t step = 0; step < 25; ++step) {
    for (std::size_t i = 0; i < kValues; ++i) x[i] -= static_cast<float>(kLr) * swarm.gradient(0, step, i, x[i]);
  }
  EXPECT_EQ(swarm.copies()[0], x);
}

// Δ = mean (z − x_k); v ← μv + Δ; z ← z − η_o(Δ + μv); x ← z.
TEST(DilocoTest, TheOuterStepIsNesterovs) {
  constexpr std::size_t kPeers = 3, kInterval = 5;
  Swarm swarm(kPeers);
  expect_success(swarm.train(3 * kInterval, diloco({.interval = kInterval}, {.lr = 0.7, .momentum = 0.9})));
  std::vector<double> z(kValues), v(kValues, 0.0);
  std::ranges::copy(random_floats(1), z.begin());
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < kValues; ++i) {
      double delta = 0;
      for (std::size_t k = 0; k < kPeers; ++k) {
        double x = z[i];
        for (std::uint64_t s = 0; s < kInterval; ++s) {
          x -= kLr * static_cast<double>(swarm.gradient(k, round * kInterval + s, i, static_cast<float>(x)));
        }
        delta += (z[i] - x) / kPeers;
      }
      v[i] = 0.9 * v[i] + delta;
      z[i] -= 0.7 * (delta + 0.9 * v[i]);
    }
  }
  EXPECT_EQ(swarm.distance(), 0);
  for (std::size_t i = 0; i < kValues; ++i) EXPECT_NEAR(swarm.copies()[1][i], z[i], 1e-5);
}

std::vector<Fragment> interleaved(std::size_t fragments) {
  std::vector<Fragment> result(fragments);
  constexpr std::size_t kLayer = 500;
  for (std::size_t begin = 0, layer = 0; begin < kValues; begin += kLayer, ++layer) {
    result[layer % fragments].push_back({begin, std::min(begin + kLayer, kValues)});
  }
  return result;
}

// Overlap: fragments have rounds at their own times, results come τ steps later, and copies still agree.
TEST(DilocoTest, FragmentsAgreeInTurnWhileTrainingGoesOn) {
  Swarm whole(4), parts(4, {.bandwidth = 1e8, .latency = 500us});
  const OuterOptions outer{.lr = 0.7, .momentum = 0.5};
  expect_success(whole.train(240, diloco({.interval = 12}, outer)));
  expect_success(parts.train(
      240, diloco({.interval = 12, .delay = 3, .merge = 0.5, .fragments = interleaved(3)}, outer), {.slots = 3}));
  EXPECT_EQ(parts.finished_rounds, 60u);
  EXPECT_LT(parts.distance(), 1);
  // Both go where the mean of all losses is least, as far as their noise lets them.
  double difference = 0;
  for (std::size_t i = 0; i < kValues; ++i) {
    double mean = 0;
    for (const auto& x : parts.copies()) mean += static_cast<double>(x[i]) / 4;
    difference = std::max(difference, std::abs(mean - static_cast<double>(whole.copies()[0][i])));
  }
  EXPECT_LT(difference, 0.2);
}

// Whoever comes in the middle of the warm-up must not be given the model of the beginning.
TEST(DilocoTest, HasAgreedOnNothingBeforeTheWarmUpIsOver) {
  Swarm swarm(2);
  const std::size_t slots = AllReduce::buckets(kValues, 1000);
  const auto make = diloco({.interval = 50}, {.warmup = 3, .bucket = 1000});
  std::vector<Method*> methods(2);
  std::vector<bool> agreed;
  swarm.after_step = [&](std::size_t rank, std::uint64_t) {
    if (rank != 0) return;
    agreed.push_back(methods[0]->has_agreed());
    if (agreed.size() == 3) expect_near(methods[0]->state()[0].values, swarm.copies()[0], 0);
  };
  expect_success(swarm.train(4,
                             [&](Rounds& rounds, std::size_t rank) {
                               auto method = make(rounds, rank);
                               methods[rank] = method.get();
                               return method;
                             },
                             {.slots = slots}));
  EXPECT_EQ(agreed, (std::vector<bool>{false, false, true, true}));
}

// Somebody new gets what a round has left, whatever the next ones do meanwhile; nothing before the warm-up is over.
TEST(DilocoTest, WhatWasAgreedIsLentAsItWas) {
  Swarm swarm(2);
  const std::size_t slots = AllReduce::buckets(kValues, 1000);
  const auto make = diloco({.interval = 4}, {.warmup = 2, .bucket = 1000});
  Method* method = nullptr;
  std::vector<Lendable::Loan> loans;
  std::vector<std::vector<float>> agreed;
  swarm.after_step = [&](std::size_t rank, std::uint64_t) {
    if (rank != 0) return;
    const auto lends = method->lends();
    ASSERT_EQ(lends.size(), 1u);
    loans.push_back(lends[0]->borrow());
    agreed.emplace_back(lends[0]->values().begin(), lends[0]->values().end());
  };
  expect_success(swarm.train(12,
                             [&](Rounds& rounds, std::size_t rank) {
                               auto own = make(rounds, rank);
                               if (rank == 0) method = own.get();
                               return own;
                             },
                             {.slots = slots}));
  ASSERT_EQ(loans.size(), 12u);
  EXPECT_EQ(loans[0], nullptr);
  for (std::size_t step = 1; step < 12; ++step) {
    ASSERT_NE(loans[step], nullptr) << step;
    EXPECT_EQ(*loans[step], agreed[step]) << step;
  }
  EXPECT_NE(*loans[1], *loans[11]);
}

TEST(DilocoTest, WarmUpIsAllReduce) {
  Swarm reduced(3), warmed(3);
  const std::size_t slots = AllReduce::buckets(kValues, 1000);
  expect_success(reduced.train(10, kAllReduce, {.slots = slots}));
  expect_success(warmed.train(10, diloco({.interval = 50}, {.warmup = 10, .bucket = 1000}), {.slots = slots}));
  EXPECT_EQ(warmed.copies()[0], reduced.copies()[0]);
}

// With int8 the copies still end equal, and what an encoding loses is made good in the next rounds.
TEST(DilocoTest, ALossyCodecKeepsCopiesEqual) {
  Swarm exact(4), lossy(4);
  const OuterOptions outer{.lr = 0.7, .momentum = 0.5};
  expect_success(exact.train(60, diloco({.interval = 6}, outer)));
  expect_success(lossy.train(60, diloco({.interval = 6, .lossy = true}, outer), {.codec = collective::Codec::kInt8}));
  EXPECT_EQ(lossy.distance(), 0);
  expect_near(lossy.copies()[0], exact.copies()[0], 0.02);
}

TEST(LocalSgdTest, ALossyCodecKeepsCopiesEqualAndNearTheExactOnes) {
  Swarm exact(4), lossy(4), reduced(4), reduced_lossy(4);
  expect_success(exact.train(60, local_sgd({.interval = 6})));
  expect_success(lossy.train(60, local_sgd({.interval = 6, .lossy = true}), {.codec = collective::Codec::kInt8}));
  EXPECT_EQ(lossy.distance(), 0);
  expect_near(lossy.copies()[0], exact.copies()[0], 0.02);
  const std::size_t slots = AllReduce::buckets(kValues, 1000);
  expect_success(reduced.train(60, kAllReduce, {.slots = slots}));
  const auto make = [](Rounds& rounds, std::size_t) {
    return std::make_unique<AllReduce>(rounds, equal_share(rounds.peers()), 1000, true);
  };
  expect_success(reduced_lossy.train(60, make, {.slots = slots, .codec = collective::Codec::kInt8}));
  EXPECT_EQ(reduced_lossy.distance(), 0);
  expect_near(reduced_lossy.copies()[0], reduced.copies()[0], 0.02);
}

// p = 0 is DiLoCo, bit for bit.
TEST(PalsgdTest, WithoutPullsItIsDiloco) {
  Swarm without(4), with(4);
  const LocalOptions local{.interval = 8, .delay = 2, .merge = 0.25, .fragments = interleaved(2)};
  const OuterOptions outer{.warmup = 5, .bucket = 2000};
  expect_success(without.train(50, diloco(local, outer), {.slots = 3}));
  expect_success(with.train(50, palsgd(local, outer, {.probability = 0}), {.slots = 3}));
  for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(with.copies()[k], without.copies()[k]);
}

// E[x⁺] = x − η ∇f(x) − κp (x − z): over many draws a step goes where the formula says.
TEST(PalsgdTest, TheExpectedStepIsThatOfThePulledLoss) {
  Swarm swarm(1);
  LinkRounds rounds(swarm.mesh().world().clock(), swarm.mesh().world().executor(), 0, swarm.mesh().links(0), {});
  constexpr double kP = 0.2, kLambda = 0.5;
  Palsgd method(rounds, 1, 3, {.interval = 1'000'000}, {},
                {.probability = kP, .strength = kLambda, .lr = kLr, .seed = 9});
  method.start(swarm.copy(0));
  const std::vector<float> z = swarm.copies()[0];
  const std::vector<float> x = random_floats(77);
  constexpr std::uint64_t kDraws = 20000;
  double sum = 0;
  std::uint64_t pulls = 0;
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    if (method.move(step) == Move::kPull) {
      ++pulls;
      std::ranges::copy(x, swarm.copies()[0].begin());
      method.pull(step, 1, swarm.copy(0));
      sum += static_cast<double>(swarm.copies()[0][0]);
    } else {
      sum +=
          static_cast<double>(x[0]) - kLr * method.lr_factor(step) * static_cast<double>(swarm.gradient(0, 0, 0, x[0]));
    }
  }
  EXPECT_NEAR(static_cast<double>(pulls) / kDraws, kP, 0.01);
  const auto x0 = static_cast<double>(x[0]), z0 = static_cast<double>(z[0]);
  const double expected = x0 - kLr * static_cast<double>(swarm.gradient(0, 0, 0, x[0])) - kLambda * kLr * (x0 - z0);
  EXPECT_NEAR(sum / kDraws, expected, 0.003);
}

// all values are pulled; clusters draw for themselves; κ never overshoots.
TEST(PalsgdTest, PullsMoveEverythingAndEachClusterDrawsForItself) {
  Swarm swarm(1);
  LinkRounds rounds(swarm.mesh().world().clock(), swarm.mesh().world().executor(), 0, swarm.mesh().links(0), {});
  const auto make = [&](std::size_t cluster, double lr) {
    return Palsgd(rounds, 1, cluster, {}, {}, {.probability = 0.5, .strength = 1, .lr = lr});
  };
  Palsgd first = make(0, 0.1), second = make(1, 0.1), strong = make(0, 100);
  std::size_t alike = 0;
  for (std::uint64_t step = 0; step < 1000; ++step) alike += first.move(step) == second.move(step) ? 1 : 0;
  EXPECT_GT(alike, 400u);
  EXPECT_LT(alike, 600u);
  const std::vector<float> z = swarm.copies()[0], x = random_floats(5);
  first.start(swarm.copy(0));
  strong.start(swarm.copy(0));
  swarm.copies()[0] = x;
  first.pull(0, 0.5, swarm.copy(0));
  for (std::size_t i = 0; i < kValues; ++i) EXPECT_NEAR(swarm.copies()[0][i], x[i] - 0.1f * (x[i] - z[i]), 1e-6);
  strong.pull(0, 1, swarm.copy(0));
  expect_near(swarm.copies()[0], z, 1e-6);
}

// drift ‖x − z‖ falls as λ grows, in both arms that pull.
TEST(PalsgdTest, DriftFallsAsThePullGrows) {
  for (const PullMode mode : {PullMode::kRandom, PullMode::kEveryStep}) {
    double last = 1e9;
    for (const double strength : {0.0, 1.0, 4.0}) {
      Swarm swarm(2);
      double drift = 0;
      const auto z = random_floats(1);
      swarm.after_step = [&](std::size_t rank, std::uint64_t) {
        for (std::size_t i = 0; i < kValues; ++i)
          drift += std::abs(static_cast<double>(swarm.copies()[rank][i] - z[i]));
      };
      expect_success(swarm.train(
          40, palsgd({.interval = 1000}, {}, {.mode = mode, .probability = 0.2, .strength = strength, .lr = kLr})));
      EXPECT_LT(drift, 0.95 * last);
      last = drift;
    }
  }
}

// A lost peer ends everybody's step with its name, and leaves the parameters as they were after the last one.
TEST(MethodTest, ALostPeerIsNamedAndParametersStayWhole) {
  const std::vector<std::pair<const char*, Swarm::MakeMethod>> methods = {
      {"allreduce", kAllReduce},
      {"gossip", gossip("complete", GossipMode::kCombineWhileComputing)},
      {"local-sgd", local_sgd({.interval = 3})},
      {"diloco", diloco({.interval = 3}, {.bucket = 1000})},
      {"palsgd", palsgd({.interval = 3}, {.bucket = 1000}, {})}};
  for (const auto& [name, make] : methods) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Swarm swarm(4, {.bandwidth = 2e8, .latency = 200us});
      Random random({seed});
      const auto when = std::chrono::microseconds(1000 + random.below(30000));
      bool was_killed = false;
      Alarm alarm(swarm.mesh().world().clock());
      alarm.set(Time(when), [&] {
        was_killed = true;
        swarm.mesh().kill(2);
      });
      const auto outcomes =
          swarm.train(1000, make, {.slots = AllReduce::buckets(kValues, 1000), .stall = std::chrono::seconds(5)});
      ASSERT_TRUE(was_killed);
      for (std::size_t k = 0; k < 4; ++k) {
        ASSERT_TRUE(outcomes[k]) << name << ": peer " << k << " went on, seed " << seed;
        EXPECT_TRUE(k == 2 || outcomes[k]->peer() == "p2") << name << ": " << outcomes[k]->what();
        for (const float v : swarm.copies()[k]) ASSERT_TRUE(std::isfinite(v) && std::abs(v) < 3);
      }
    }
  }
}

// With every agreement the optimizer's moments become their mean, too, and nothing else changes.
// A round takes longer than several steps: nobody waits for it, and what was learnt meanwhile is kept.
TEST(LocalRoundsTest, RoundsThatDoNotHoldTrainingUpAreFoldedInAsADifference) {
  constexpr std::uint64_t kSteps = 42, kInterval = 10;
  Swarm together(3, {.latency = 2ms}), apart(3);
  Time last{};
  const Time start = together.mesh().world().clock().now();
  together.after_step = [&](std::size_t, std::uint64_t) { last = together.mesh().world().clock().now(); };
  expect_success(together.train(kSteps, local_sgd({.interval = kInterval, .holds_up = false})));
  expect_success(apart.train(kSteps, local_sgd({.interval = kSteps + 1})));
  EXPECT_EQ(last - start, kSteps * 1ms);
  EXPECT_EQ(together.finished_rounds, kSteps / kInterval);
  EXPECT_LT(together.distance(), 0.5 * apart.distance());
  // Gradients are linear in x and differences add up to nothing, so the mean of all copies goes where it would have
  // gone without any rounds.
  const auto mean_of = [](Swarm& swarm) {
    std::vector<float> mean(kValues);
    for (const auto& x : swarm.copies()) {
      for (std::size_t i = 0; i < kValues; ++i) mean[i] += x[i] / 3;
    }
    return mean;
  };
  expect_near(mean_of(together), mean_of(apart), 1e-5);
}

// Without a step in between the result is taken as it is, to the last bit.
TEST(LocalRoundsTest, ARoundThatIsSettledAtOnceMakesTheCopiesOne) {
  for (const auto& make : {local_sgd({.interval = 8, .holds_up = false}),
                           diloco({.interval = 8, .holds_up = false}, {.lr = 0.7, .momentum = 0.9, .bucket = 1000})}) {
    Swarm swarm(3, {.latency = 2ms});
    expect_success(swarm.train(16, make));
    EXPECT_EQ(swarm.copies()[0], swarm.copies()[1]);
    EXPECT_EQ(swarm.copies()[0], swarm.copies()[2]);
  }
}

TEST(LocalRoundsTest, MomentsAreAveragedWhereTheyAreGiven) {
  const auto make = [](Rounds& rounds, std::size_t) -> std::unique_ptr<Method> {
    const LocalOptions local{.interval = 4, .fragments = {{{0, 100}, {300, kValues}}, {{100, 300}}}};
    return std::make_unique<Diloco>(rounds, equal_share(rounds.peers()), local, OuterOptions{.warmup = 0});
  };
  Swarm with(3), without(3);
  std::vector<std::vector<float>> moments = {random_floats(7), random_floats(8), random_floats(9)};
  std::vector<float> mean(kValues);
  for (std::size_t i = 0; i < kValues; ++i) mean[i] = (moments[0][i] + moments[1][i] + moments[2][i]) / 3;
  for (std::size_t rank = 0; rank < 3; ++rank) with.add_moments(moments[rank], rank);
  expect_success(with.train(4, make, {.slots = 2}));
  expect_success(without.train(4, make, {.slots = 2}));
  for (std::size_t rank = 0; rank < 3; ++rank) {
    expect_near(moments[rank], mean, 1e-6);
    EXPECT_EQ(moments[rank], moments[0]);
    expect_near(with.copies()[rank], without.copies()[rank], 1e-6);
  }
}

}  // namespace
}  // namespace rookery::sync
