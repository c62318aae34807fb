#include "sync/changing_rounds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/seeds.h"
#include "collective/testing/virtual_mesh.h"
#include "plan/grid.h"
#include "sync/diloco.h"
#include "sync/faulty_rounds.h"

namespace rookery::sync {
namespace {

using namespace std::chrono_literals;
using collective::testing::VirtualMesh;

// Places 0, 1, … of a segment, and who has them: peers of a mesh.
class Places {
 public:
  Places(std::size_t places, std::size_t peers, std::size_t group, std::optional<collective::Robust> robust = {},
         std::optional<plan::Topology> topology = {}, collective::Codec codec = collective::Codec::kNone)
      : mesh_(peers, {.latency = 1ms, .jitter = 3ms}),
        group_(group),
        robust_(robust),
        topology_(std::move(topology)),
        codec_(codec),
        plan_(places) {
    for (std::size_t place = 0; place < places; ++place) plan_[place].holder = place;
  }

  VirtualMesh& mesh() { return mesh_; }
  Clock& clock() { return mesh_.world().clock(); }

  // From now on everybody hears of changes at a time of its own, and in the midst of what it does.
  void let_news_travel(std::uint64_t seed) {
    constexpr Duration kSlack = 2ms;
    travel_.emplace(std::initializer_list<std::uint64_t>{seed, word_of("news")});
    mesh_.world().be_sluggish(kSlack);
  }

  // The rounds of a peer of the mesh, at a place.
  ChangingRounds& join(std::size_t place, std::size_t peer) {
    const auto holder_of = [this, peer](std::size_t other) {
      const Place& theirs = known_[peer][other];
      return Holder{.here = theirs.holder.has_value(),
                    .link = theirs.holder && *theirs.holder != peer ? mesh_.links(peer)[*theirs.holder] : nullptr,
                    .since = theirs.since,
                    .from = theirs.from};
    };
    known_[peer] = plan_;
    ChangingRoundsOptions options{
        .generation = 1, .slots = 2, .group = group_, .topology = topology_, .codec = codec_, .robust = robust_};
    options.suspect = [this, peer](std::size_t suspect, const std::string& text) {
      suspicions_[peer].emplace_back(suspect, text);
    };
    rounds_[peer] = std::make_unique<ChangingRounds>(clock(), clock().executor(), place, plan_.size(), holder_of,
                                                     std::move(options));
    return *rounds_[peer];
  }

  // Whom a peer suspects, by place, and why.
  using Suspicions = std::vector<std::pair<std::size_t, std::string>>;
  const Suspicions& suspicions_of(std::size_t peer) { return suspicions_[peer]; }

  // Whoever comes takes part in rounds from this one on.
  void change(std::size_t place, std::optional<std::size_t> holder, std::uint64_t first = 0) {
    plan_[place] = {.holder = holder, .since = ++generation_, .from = first};
    for (const auto& [peer, rounds] : rounds_) {
      if (travel_) {
        news_.spawn(travel(peer, place));
      } else {
        hear(peer, plan_, place);
      }
    }
  }

  void lose(std::size_t place) {
    const std::size_t peer = *plan_[place].holder;
    mesh_.kill(peer);
    rounds_.erase(peer);
    change(place, std::nullopt);
  }

 private:
  struct Place {
    std::optional<std::size_t> holder{};
    std::uint32_t since = 1;
    std::uint64_t from = 0;
  };
  using Plan = std::vector<Place>;

  void hear(std::size_t peer, Plan plan, std::size_t place) {
    known_[peer] = std::move(plan);
    if (const auto rounds = rounds_.find(peer); rounds != rounds_.end()) rounds->second->changed(place);
  }

  // One plan after the other.
  Task<> travel(std::size_t peer, std::size_t place) {
    Plan plan = plan_;
    Time& heard = heard_[peer];
    const Duration way = std::chrono::microseconds(travel_->below(15'000));
    const Time when = heard = std::max(clock().now() + way, heard + 3ms);
    auto travelling = clock().sleep_until(when);
    co_await std::move(travelling);
    for (std::uint64_t posts = travel_->below(12); posts > 0; --posts) co_await yield();
    hear(peer, std::move(plan), place);
  }

  VirtualMesh mesh_;
  TaskGroup news_{mesh_.world().clock().executor()};
  std::optional<Random> travel_{};
  std::map<std::size_t, Time> heard_{};
  std::size_t group_;
  std::optional<collective::Robust> robust_;
  std::optional<plan::Topology> topology_;
  collective::Codec codec_;
  std::map<std::size_t, Suspicions> suspicions_;
  Plan plan_;
  std::map<std::size_t, Plan> known_{};  // by peer
  std::uint32_t generation_ = 1;
  std::map<std::size_t, std::unique_ptr<ChangingRounds>> rounds_;
};

constexpr std::size_t kOfARound = 1000;

// A round with one's own number as the value; nothing if it failed.
Task<std::optional<float>> average(ChangingRounds& rounds, std::uint64_t number, float value, std::size_t slot = 0,
                                   std::span<float> lost = {}) {
  std::vector<float> values(kOfARound, value);
  const auto round = rounds.average({slot, number, number + 1}, values, 1.0f, lost);
  bool failed = false;
  try {
    auto finishing = round->finish();
    co_await std::move(finishing);
  } catch (const net::LinkError&) {
    failed = true;
  }
  if (failed) co_return std::nullopt;
  EXPECT_NEAR(values.front(), values.back(), 1e-4);
  co_return values.front();
}

// Many values are copied a little at a time; nobody touches them any more once a round is let go of.
TEST(ChangingRoundsTest, WhoLetsGoWhileItsValuesAreCopiedHasItsMemoryBack) {
  Places places(2, 2, 16);
  std::vector<std::optional<float>> means(2);
  const auto task = [&](std::size_t peer) -> Task<> {
    ChangingRounds& rounds = places.join(peer, peer);
    if (peer == 0) {
      auto values = std::make_unique<std::vector<float>>(3 << 20, 1.0f);
      auto round = rounds.average({0, 0, 1}, *values, 1.0f, {});
      for (int i = 0; i < 3; ++i) co_await yield();
      EXPECT_FALSE(round->has_ended());
      round.reset();
      values.reset();
      auto late = places.clock().sleep_for(1s);
      co_await std::move(late);
    }
    auto averaging = average(rounds, 1, static_cast<float>(peer));
    means[peer] = co_await std::move(averaging);
  };
  for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  EXPECT_EQ(means, (std::vector<std::optional<float>>{0.5f, 0.5f}));
}

TEST(ChangingRoundsTest, MeansOfThoseWhoAreThere) {
  Places places(4, 5, 16);
  std::map<std::size_t, std::vector<std::optional<float>>> results;
  const auto task = [&](std::size_t peer) -> Task<> {
    const std::size_t place = peer == 4 ? 2 : peer;
    auto late = places.clock().sleep_for(peer == 4 ? 20s : 0s);
    co_await std::move(late);
    ChangingRounds& rounds = places.join(place, peer);
    if (peer == 4) {
      places.change(2, 4, 2);
    }
    for (std::uint64_t number = peer == 4 ? 2 : 0; number < 4; ++number) {
      auto waiting = places.clock().sleep_until(Time(10s * number + 1s));
      co_await std::move(waiting);
      if (number == 1 && peer == 2) {  // while the others wait for it
        auto dying = places.clock().sleep_for(1s);
        co_await std::move(dying);
        places.lose(2);
        co_return;
      }
      auto averaging = average(rounds, number, static_cast<float>(peer + 1));
      results[peer].push_back(co_await std::move(averaging));
    }
    auto staying = places.clock().sleep_until(Time(1min));
    co_await std::move(staying);
  };
  for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  for (const std::size_t peer : {0, 1, 3}) {
    ASSERT_EQ(results[peer].size(), 4u);
    EXPECT_EQ(results[peer][0], 2.5f);
    EXPECT_NEAR(results[peer][1].value(), 7.0 / 3, 1e-6);  // without the one that was lost, and
    EXPECT_EQ(results[peer][2], 3.0f);                     // with the one that came
    EXPECT_EQ(results[peer][3], 3.0f);
  }
  EXPECT_EQ(results[4], (std::vector<std::optional<float>>{3.0f, 3.0f}));
}

// Whoever is new does not hold up a round that began before: those who were there have it among themselves.
TEST(ChangingRoundsTest, WhoeverIsNewTakesPartInWhatBeginsLater) {
  Places places(3, 4, 16);
  std::map<std::size_t, std::vector<std::optional<float>>> results;
  const auto task = [&](std::size_t peer) -> Task<> {
    auto waiting = places.clock().sleep_until(Time(peer == 3 ? 10s : 0s));
    co_await std::move(waiting);
    if (peer == 3) places.change(2, 3, 1);
    ChangingRounds& rounds = places.join(peer == 3 ? 2 : peer, peer);
    if (peer == 2) {
      auto dying = places.clock().sleep_for(2s);
      co_await std::move(dying);
      places.lose(2);
      co_return;
    }
    auto late = places.clock().sleep_until(Time(peer == 1 ? 20s : 1s));
    co_await std::move(late);
    for (std::uint64_t number = peer == 3 ? 1 : 0; number < 3; ++number) {
      auto averaging = average(rounds, number, static_cast<float>(peer));
      results[peer].push_back(co_await std::move(averaging));
    }
    EXPECT_LT(places.clock().now(), Time(21s));
    auto staying = places.clock().sleep_until(Time(1min));
    co_await std::move(staying);
  };
  for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  for (const std::size_t peer : {0, 1}) {
    ASSERT_EQ(results[peer].size(), 3u);
    EXPECT_EQ(results[peer][0], 0.5f);
    EXPECT_NEAR(results[peer][1].value(), 4.0 / 3, 1e-6);
    EXPECT_NEAR(results[peer][2].value(), 4.0 / 3, 1e-6);
  }
  EXPECT_EQ(results[3].size(), 2u);
}

// Somebody is lost at any time. If it is just before the last piece has gone round, some have the mean with it, and
// pass it on to those who do not: a round has one outcome.
TEST(ChangingRoundsTest, ARoundHasOneOutcome) {
  std::size_t passed_on = 0, repeated = 0;
  for (int delay = 1; delay <= 80; ++delay) {
    std::map<std::size_t, std::vector<std::optional<float>>> results;
    std::uint64_t began_anew = 0;
    Places places(4, 4, 16);
    const auto task = [&](std::size_t peer) -> Task<> {
      ChangingRounds& rounds = places.join(peer, peer);
      if (peer == 2) {
        const auto die = [&]() -> Task<> {
          auto dying = places.clock().sleep_for(250us * delay);
          co_await std::move(dying);
          places.lose(2);
        };
        TaskGroup group(places.clock().executor());
        group.spawn(die());
        auto averaging = average(rounds, 0, 2.0f);
        co_await std::move(averaging);
        auto joined = group.join();
        co_await std::move(joined);
        co_return;
      }
      for (std::uint64_t number = 0; number < 2; ++number) {
        auto averaging = average(rounds, number, static_cast<float>(peer));
        results[peer].push_back(co_await std::move(averaging));
        if (number == 0) began_anew += rounds.repeated();
      }
      EXPECT_LT(places.clock().now(), Time(1s));
      auto staying = places.clock().sleep_until(Time(2s));
      co_await std::move(staying);
    };
    for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
    std::set<float> means;
    for (const auto& [peer, own] : results) {
      ASSERT_EQ(own.size(), 2u) << "peer " << peer << ", lost after " << delay;
      ASSERT_TRUE(own[0] && own[1]) << "peer " << peer << ", lost after " << delay;
      means.insert(own[0].value());
      EXPECT_NEAR(own[1].value(), 4.0 / 3, 1e-6);
    }
    ASSERT_EQ(means.size(), 1u) << "lost after " << delay;
    const bool is_with_lost = *means.begin() == 1.5f;
    EXPECT_NEAR(*means.begin(), is_with_lost ? 1.5 : 4.0 / 3, 1e-6);
    if (began_anew > 0) ++(is_with_lost ? passed_on : repeated);
  }
  EXPECT_GT(passed_on, 0u);
  EXPECT_GT(repeated, 0u);
}

// Peers are lost and come at random times, at every point of rounds of two slots: all who are there in the end have
// the same of every round that they took part in, and nobody waits for long.
void expect_one_outcome(Seeds seeds, bool news_travel, collective::Codec codec = collective::Codec::kNone) {
  constexpr std::size_t kPlaces = 5, kPeers = 12, kRounds = 40;
  std::uint64_t repeated = 0, came = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.last; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const std::size_t group = seed % 3 == 0 ? 3 : 16;
    std::optional<collective::Robust> robust;
    if (seed % 2 == 1 && codec == collective::Codec::kNone) robust = collective::Robust::kTrimmedMean;
    Places places(kPlaces, kPeers, group, robust, {}, codec);
    if (news_travel) places.let_news_travel(seed);
    Random random({seed, word_of("rounds")});
    std::map<std::size_t, std::size_t> place_of;
    std::map<std::size_t, bool> is_lost;
    using Ring = std::tuple<std::size_t, std::uint64_t, std::size_t>;  // slot, round, first place
    std::map<std::size_t, std::map<Ring, float>> results;              // by peer
    std::uint64_t begun = 0;
    std::size_t next = kPlaces, over = 0;
    const auto train = [&](std::size_t peer, std::uint64_t first) -> Task<> {
      ChangingRounds& rounds = places.join(place_of[peer], peer);
      const auto turns = plan::grid_turns(place_of[peer], kPlaces, group);
      std::vector<float> lost(codec == collective::Codec::kNone ? 0 : 2 * kOfARound);
      for (std::uint64_t number = first; number < kRounds && !is_lost[peer]; ++number) {
        begun = std::max(begun, number);
        for (std::size_t slot = 0; slot < 2; ++slot) {
          const std::span<float> own_lost = std::span(lost).subspan(slot * lost.size() / 2, lost.size() / 2);
          auto averaging = average(rounds, number, static_cast<float>(peer + 10 * slot), slot, own_lost);
          const std::optional<float> mean = co_await std::move(averaging);
          if (is_lost[peer]) co_return;
          EXPECT_TRUE(mean) << "seed " << seed << ", peer " << peer << ", round " << number;
          if (mean) results[peer][{slot, number, turns[number % turns.size()].front()}] = *mean;
        }
        auto computing = places.clock().sleep_for(std::chrono::microseconds(random.below(8000)));
        co_await std::move(computing);
      }
      if (is_lost[peer]) co_return;
      repeated += rounds.repeated();
      ++over;
    };
    const auto task = [&](std::size_t peer) -> Task<> {
      if (peer < kPlaces) {
        place_of[peer] = peer;
        auto training = train(peer, 0);
        co_await std::move(training);
      } else if (peer + 1 == kPeers) {
        // Not a peer, but what happens to them.
        std::size_t here = kPlaces;
        TaskGroup others(places.clock().executor());
        for (std::size_t event = 0; event < 8; ++event) {
          auto waiting = places.clock().sleep_for(std::chrono::microseconds(random.below(100'000)));
          co_await std::move(waiting);
          if (over > 0) break;
          const std::size_t place = random.below(kPlaces);
          const auto holder = std::ranges::find_if(
              place_of, [&](const auto& entry) { return entry.second == place && !is_lost[entry.first]; });
          if (holder != place_of.end() && here > 2) {
            is_lost[holder->first] = true;
            places.lose(place);
            --here;
          } else if (holder == place_of.end() && next + 1 < kPeers && begun + 6 < kRounds) {
            const std::size_t newcomer = next++;
            place_of[newcomer] = place;
            const std::uint64_t from = begun + (news_travel ? 3 : 1) + random.below(news_travel ? 3 : 5);
            places.change(place, newcomer, from);
            others.spawn(train(newcomer, from));
            ++here;
            ++came;
          }
        }
        auto joined = others.join();
        co_await std::move(joined);
      }
      auto staying = places.clock().sleep_until(Time(20s));
      co_await std::move(staying);
    };
    for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
    EXPECT_EQ(over, std::ranges::count_if(place_of, [&](const auto& entry) { return !is_lost[entry.first]; }));
    std::map<Ring, std::set<float>> means;  // of those who were not lost: what others had went with them
    for (const auto& [peer, own] : results) {
      for (const auto& [ring, mean] : own) {
        if (!is_lost[peer]) means[ring].insert(mean);
      }
    }
    for (const auto& [ring, values] : means) {
      EXPECT_EQ(values.size(), 1u) << "seed " << seed << ", round " << std::get<1>(ring);
    }
    if (::testing::Test::HasFailure()) break;
  }
  if (seeds.last - seeds.first < 40) return;
  EXPECT_GT(repeated, 40u);
  EXPECT_GT(came, 20u);
}

TEST(ChangingRoundsTest, WhateverHappensARoundHasOneOutcome) { expect_one_outcome(seeds_of(40), false); }

// Some hear of it just when they have finished a round, and others are still in it.
TEST(ChangingRoundsTest, WhoeverHearsOfItWhenARoundHasOneOutcome) { expect_one_outcome(seeds_of(200), true); }

TEST(ChangingRoundsTest, WithALossyCodecARoundHasOneOutcome) {
  expect_one_outcome(seeds_of(40), true, collective::Codec::kInt8);
}

// Mixes a value after so many steps; false if that failed, and the value is as it was.
Task<bool> mix(ChangingRounds& rounds, const plan::Topology& topology, std::uint64_t step, float& value,
               double consensus = 1) {
  const plan::Mix mix = topology.mix(rounds.rank(), step - 1, consensus);
  if (mix.members.size() == 1) co_return true;
  std::vector<float> values(1000, value);
  const auto round = rounds.mix(step, values, mix);
  bool failed = false;
  try {
    auto finishing = round->finish();
    co_await std::move(finishing);
  } catch (const net::LinkError&) {
    failed = true;
  }
  if (!failed) value = values.back();
  co_return !failed;
}

TEST(ChangingRoundsTest, MixesAreThoseOfTheTopology) {
  constexpr std::size_t kPeers = 6;
  for (const char* const name : {"finite", "complete", "ring"}) {
    for (const double consensus : {1.0, 0.6}) {
      const plan::Topology topology(name, std::vector<plan::Member>(kPeers));
      Places places(kPeers, kPeers, 16, {}, topology);
      std::vector<float> values(kPeers), wanted(kPeers);
      for (std::size_t i = 0; i < kPeers; ++i) values[i] = wanted[i] = static_cast<float>(i * i);
      for (std::size_t step = 0; step < 2 * topology.period(); ++step) {
        std::vector<float> mixed(kPeers);
        for (std::size_t i = 0; i < kPeers; ++i) {
          const plan::Mix own = topology.mix(i, step, consensus);
          for (std::size_t k = 0; k < own.members.size(); ++k) mixed[i] += own.weights[k] * wanted[own.members[k]];
        }
        wanted = mixed;
      }
      const auto task = [&](std::size_t peer) -> Task<> {
        ChangingRounds& rounds = places.join(peer, peer);
        for (std::uint64_t step = 1; step <= 2 * topology.period(); ++step) {
          auto mixing = mix(rounds, topology, step, values[peer], consensus);
          EXPECT_TRUE(co_await std::move(mixing));
        }
      };
      for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
      for (std::size_t i = 0; i < kPeers; ++i) EXPECT_NEAR(values[i], wanted[i], 1e-4) << name << ", peer " << i;
    }
  }
}

// Peers are lost and come at random times, some later than the others were to hear of it: nobody waits for long, nobody
// gets anything that nobody had, and when all is calm again they come together.
TEST(ChangingRoundsTest, WhateverHappensMixesGoOn) {
  constexpr std::size_t kPlaces = 5, kPeers = 12, kSteps = 60, kCalm = 30;
  std::uint64_t came = 0, late = 0, mixes = 0, failed = 0;
  const Seeds seeds = seeds_of(40);
  for (std::uint64_t seed = seeds.first; seed < seeds.last; ++seed) {
    const plan::Topology topology(seed % 3 == 0 ? "complete" : "finite", std::vector<plan::Member>(kPlaces), kPlaces);
    Places places(kPlaces, kPeers, 16, {}, topology);
    Random random({seed, word_of("mixes")});
    std::map<std::size_t, std::size_t> place_of;
    std::map<std::size_t, bool> is_lost;
    std::map<std::size_t, float> values;  // of those who have come to the end
    std::uint64_t begun = 0;
    std::size_t next = kPlaces;
    const auto train = [&](std::size_t peer, std::uint64_t first) -> Task<> {
      ChangingRounds& rounds = places.join(place_of[peer], peer);
      auto value = static_cast<float>(random.uniform());
      for (std::uint64_t step = first + 1; step <= kSteps && !is_lost[peer]; ++step) {
        begun = std::max(begun, step);
        auto mixing = mix(rounds, topology, step, value);
        const bool went_well = co_await std::move(mixing);
        if (is_lost[peer]) co_return;
        ++mixes;
        failed += went_well ? 0 : 1;
        auto computing = places.clock().sleep_for(std::chrono::microseconds(random.below(8000)));
        co_await std::move(computing);
      }
      if (!is_lost[peer]) values[peer] = value;
    };
    const auto task = [&](std::size_t peer) -> Task<> {
      if (peer < kPlaces) {
        place_of[peer] = peer;
        auto training = train(peer, 0);
        co_await std::move(training);
      } else if (peer + 1 == kPeers) {
        // Not a peer, but what happens to them.
        std::size_t here = kPlaces;
        TaskGroup others(places.clock().executor());
        for (std::size_t event = 0; event < 8; ++event) {
          auto waiting = places.clock().sleep_for(std::chrono::microseconds(random.below(60'000)));
          co_await std::move(waiting);
          if (begun > kSteps - kCalm) break;
          const std::size_t place = random.below(kPlaces);
          const auto holder = std::ranges::find_if(
              place_of, [&](const auto& entry) { return entry.second == place && !is_lost[entry.first]; });
          if (holder != place_of.end() && here > 2) {
            is_lost[holder->first] = true;
            places.lose(place);
            --here;
          } else if (holder == place_of.end() && next + 1 < kPeers) {
            const std::size_t newcomer = next++;
            place_of[newcomer] = place;
            const bool is_late = random.below(3) == 0;
            const std::uint64_t from = is_late ? begun - std::min<std::uint64_t>(begun, 2) : begun + random.below(5);
            places.change(place, newcomer, from);
            others.spawn(train(newcomer, from));
            ++here;
            ++came;
            late += is_late ? 1 : 0;
          }
        }
        auto joined = others.join();
        co_await std::move(joined);
      }
      auto staying = places.clock().sleep_until(Time(20s));
      co_await std::move(staying);
    };
    for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
    EXPECT_EQ(values.size(), std::ranges::count_if(place_of, [&](const auto& own) { return !is_lost[own.first]; }))
        << "seed " << seed;
    float least = 1, most = 0;
    for (const auto& [peer, value] : values) least = std::min(least, value), most = std::max(most, value);
    EXPECT_GE(least, 0) << "seed " << seed;
    EXPECT_LE(most, 1) << "seed " << seed;
    EXPECT_LT(most - least, 0.05) << "seed " << seed;
    if (::testing::Test::HasFailure()) break;
  }
  if (seeds.last - seeds.first < 40) return;
  EXPECT_GT(came, 20u);
  EXPECT_GT(late, 5u);
  EXPECT_LT(20 * failed, mixes);
}

// A ring that has failed, and gets no successor, is given up.
TEST(ChangingRoundsTest, EveryWaitHasAnEnd) {
  Places places(2, 2, 16);
  const auto task = [&](std::size_t peer) -> Task<> {
    ChangingRounds& rounds = places.join(peer, peer);
    auto waiting = places.clock().sleep_for(1s);
    co_await std::move(waiting);
    if (peer == 1) {
      places.mesh().kill(1);
      co_return;
    }
    auto averaging = average(rounds, 0, 1.0f);
    EXPECT_FALSE(co_await std::move(averaging));
    EXPECT_LT(places.clock().now(), Time(1min));
  };
  for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
}

// With more than a ring may have, one axis after another: all means are the same in the end.
TEST(ChangingRoundsTest, ManyAverageInTurns) {
  constexpr std::size_t kPeers = 12;
  Places places(kPeers, kPeers, 4);
  std::vector<float> values(kPeers);
  const auto task = [&](std::size_t peer) -> Task<> {
    ChangingRounds& rounds = places.join(peer, peer);
    values[peer] = static_cast<float>(peer);
    for (std::uint64_t number = 0; number < 2; ++number) {
      auto averaging = average(rounds, number, values[peer]);
      values[peer] = (co_await std::move(averaging)).value();
    }
    auto staying = places.clock().sleep_for(1min);
    co_await std::move(staying);
  };
  for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  for (const float value : values) EXPECT_NEAR(value, 5.5f, 1e-5);
}

// What peers bring to rounds that are robust: something in common, and something of their own.
std::vector<float> contribution(std::size_t peer, std::uint64_t number) {
  std::vector<float> values(1000);
  Random common({number, word_of("common")}), own({number, peer, word_of("own")});
  for (float& value : values) value = static_cast<float>(common.uniform() - 0.5 + (own.uniform() - 0.5) / 2);
  return values;
}

Task<std::vector<float>> average_of(Rounds& rounds, std::uint64_t number, std::vector<float> values) {
  const auto round = rounds.average({0, number, number + 1}, values, 1.0f, {});
  auto finishing = round->finish();
  co_await std::move(finishing);
  co_return values;
}

// A liar moves no average beyond those of the others, and is suspected by each of them, and nobody else is. When it is
// gone, the others go on.
TEST(ChangingRoundsTest, RobustRoundsBearALiarAndNameIt) {
  constexpr std::size_t kLiar = 3, kRounds = 8;
  for (const Fault fault : {Fault::kNan, Fault::kFlip, Fault::kScale}) {
    SCOPED_TRACE(static_cast<int>(fault));
    Places places(4, 4, 16, collective::Robust::kTrimmedMean);
    std::map<std::size_t, std::vector<std::vector<float>>> results;
    const auto task = [&](std::size_t peer) -> Task<> {
      ChangingRounds& rounds = places.join(peer, peer);
      FaultyRounds own(rounds, peer == kLiar ? fault : Fault::kNone);
      for (std::uint64_t number = 0; number < kRounds; ++number) {
        if (number == 5 && peer == kLiar) {
          auto dying = places.clock().sleep_for(1s);  // when the others have finished the round before, too
          co_await std::move(dying);
          places.lose(kLiar);
          co_return;
        }
        auto averaging = average_of(own, number, contribution(peer, number));
        results[peer].push_back(co_await std::move(averaging));
      }
      auto staying = places.clock().sleep_until(Time(1min));
      co_await std::move(staying);
    };
    for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
    for (const std::size_t peer : {0, 1, 2}) {
      EXPECT_EQ(results[peer], results[0]);
      ASSERT_EQ(results[peer].size(), kRounds);
      // At once, or in the third round; until it is gone.
      EXPECT_EQ(places.suspicions_of(peer).size(), fault == Fault::kNan ? 5u : 3u);
      for (const auto& [place, text] : places.suspicions_of(peer)) EXPECT_EQ(place, kLiar) << text;
    }
    for (std::uint64_t number = 0; number < kRounds; ++number) {
      const std::vector<float> a = contribution(0, number), b = contribution(1, number), c = contribution(2, number);
      for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_GE(results[0][number][i], std::min({a[i], b[i], c[i]}));
        ASSERT_LE(results[0][number][i], std::max({a[i], b[i], c[i]}));
      }
    }
  }
}

// Peers whose losses are parabolas train together, one of them with a fault, and get to the middle of the minima.
TEST(ChangingRoundsTest, WithRobustRoundsTheOthersLearnInSpiteOfALiar) {
  constexpr std::size_t kPeers = 4, kLiar = 3, kValues = 1000, kSteps = 60;
  for (const collective::Robust robust : {collective::Robust::kClip, collective::Robust::kTrimmedMean}) {
    for (const Fault fault : {Fault::kNan, Fault::kFlip, Fault::kScale}) {
      SCOPED_TRACE(fmt::format("rule {}, fault {}", static_cast<int>(robust), static_cast<int>(fault)));
      Places places(kPeers, kPeers, 16, robust);
      std::vector<std::vector<float>> copies(kPeers, std::vector<float>(kValues));
      const auto task = [&](std::size_t peer) -> Task<> {
        ChangingRounds& all = places.join(peer, peer);
        FaultyRounds rounds(all, peer == kLiar ? fault : Fault::kNone);
        Diloco method(rounds, 1.0f / kPeers, {.interval = 4, .changing = true, .robust = true},
                      {.lr = 0.7, .momentum = 0.3, .warmup = 8});
        const std::vector<float> minimum = contribution(peer, 0);
        std::vector<float>& x = copies[peer];
        std::vector<float> gradients(kValues);
        const Copy copy{.parameters = x, .gradients = gradients, .moments = {}};
        method.start(copy);
        for (std::uint64_t step = 0; step < kSteps; ++step) {
          for (std::size_t i = 0; i < kValues; ++i) gradients[i] = x[i] - minimum[i];
          auto averaging = method.before_update(step, copy);
          co_await std::move(averaging);
          for (std::size_t i = 0; i < kValues; ++i) x[i] -= 0.1f * gradients[i];
          auto agreeing = method.after_step(step, copy);
          co_await std::move(agreeing);
        }
        auto staying = places.clock().sleep_until(Time(1min));
        co_await std::move(staying);
      };
      for (const auto& outcome : places.mesh().run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
      const std::vector<float> a = contribution(0, 0), b = contribution(1, 0), c = contribution(2, 0);
      double away = 0, in_all = 0;
      for (std::size_t i = 0; i < kValues; ++i) {
        const float middle = (a[i] + b[i] + c[i]) / 3;
        away += std::pow(copies[0][i] - middle, 2);
        in_all += std::pow(middle, 2);
      }
      EXPECT_LT(std::sqrt(away / in_all), 0.4);  // each minimum is 0.5 away from what they have in common
      for (const auto& copy : copies) EXPECT_EQ(copy, copies[0]);
      for (const std::size_t peer : {0, 1, 2}) {
        EXPECT_FALSE(places.suspicions_of(peer).empty());
        for (const auto& [place, text] : places.suspicions_of(peer)) EXPECT_EQ(place, kLiar) << text;
      }
    }
  }
}

}  // namespace
}  // namespace rookery::sync
