#include "swarm/testing/modelled_swarm.h"

namespace rookery::swarm {
namespace {

using namespace std::chrono_literals;
using namespace swarm::testing;
using ::testing::ElementsAre;

// Two clusters of two stages each.
struct StagesTest : SwarmTest {
  StagesTest() {
    options_.arrange = [](wire::Plan& plan, const std::vector<Means>&) {
      for (std::size_t rank = 0; rank < plan.peers.size(); ++rank) {
        plan.peers[rank].cluster = static_cast<std::uint32_t>(rank / 2);
        plan.peers[rank].stage = static_cast<std::uint32_t>(rank % 2);
      }
    };
    options_.goes_on = [](const wire::Plan& plan) {
      return (plan.peers[0].here && plan.peers[1].here) || (plan.peers[2].here && plan.peers[3].here);
    };
    options_.fits = [](const wire::Plan&, std::size_t, const Means&) { return true; };
    options_.enter = [](wire::PlannedPeer& place, std::uint64_t step, bool restored) {
      place.restores = !restored;
      if (restored) {
        place.here = true;
        place.from = step + 5;
      }
      return step + 5 < kSteps;
    };
  }

  static constexpr std::uint64_t kSteps = 600;

  static void go_on(ModelledWork& work) { work.goes_on = true; }

  Task<> lose(std::string name, Duration when, bool freeze) {
    co_await world_.clock().sleep_for(when);
    freeze ? network_.freeze(where_[name]) : network_.crash(where_[name]);
    if (!freeze) co_return;
    co_await world_.clock().sleep_for(300s);
    network_.freeze(where_[name], false);
  }

  std::vector<Task<>> four() {
    std::vector<Task<>> tasks;
    for (const char* name : {"a", "b", "c", "d"}) tasks.push_back(join(name, 1ms, kSteps, go_on));
    return tasks;
  }

  void expect_done(const std::string& name) {
    ASSERT_FALSE(peers_[name].failure) << name << ": " << *peers_[name].failure;
    EXPECT_EQ(peers_[name].work->steps_done, kSteps) << name;
  }
};

// Its mate waits for it, and begins again with it; nobody else stops.
TEST_F(StagesTest, SomebodyNewTakesThePlaceOfAStage) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(lose("b", 2s, false));
  tasks.push_back(join("e", 3s, kSteps, go_on));
  EXPECT_EQ(run(std::move(tasks)), "");
  for (const char* name : {"a", "c", "d", "e"}) expect_done(name);
  EXPECT_THAT(witness_.who_was_lost, ElementsAre("b"));
  EXPECT_THAT(witness_.who_entered, ElementsAre("a", "e"));
}

// If nobody comes, whoever waits ends with the others.
TEST_F(StagesTest, AStageThatWaitsInVainEndsWithTheRun) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(lose("b", 2s, false));
  EXPECT_EQ(run(std::move(tasks)), "");
  for (const char* name : {"c", "d"}) expect_done(name);
  EXPECT_FALSE(peers_["a"].failure);
  EXPECT_LT(peers_["a"].work->steps_done, kSteps);
  EXPECT_TRUE(witness_.who_ended.contains("a"));
}

TEST_F(StagesTest, ASpareTakesThePlaceAtOnce) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(join("e", 1s, kSteps, go_on));
  tasks.push_back(lose("a", 2s, false));
  EXPECT_EQ(run(std::move(tasks)), "");
  for (const char* name : {"b", "c", "d", "e"}) expect_done(name);
}

// Stages of one cluster are lost at any time, also those who have just come, and others come: the other cluster never
// stops, and everybody comes to an end.
TEST_F(StagesTest, WhateverHappensToOneClusterTheOtherGoesOn) {
  std::size_t entered = 0;
  const Seeds seeds = seeds_of(25);
  for (std::uint64_t seed = seeds.first; seed < seeds.last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random({seed, word_of("stages")});
    struct Once : StagesTest {
      void TestBody() override {}
    } once;
    once.coordinate(4);
    std::vector<Task<>> tasks = once.four();
    const auto moment = [&] { return 700ms + std::chrono::milliseconds(random.below(7000)); };
    for (const char* name : {"a", "b", "e", "f", "g"}) {
      if (random.below(3) > 0) tasks.push_back(once.lose(name, moment(), random.below(3) == 0));
    }
    for (const char* name : {"e", "f", "g", "h"}) tasks.push_back(once.join(name, moment(), kSteps, go_on));
    EXPECT_EQ(once.run(std::move(tasks)), "");
    for (const auto& [name, peer] : once.peers_) EXPECT_TRUE(peer.over) << name;
    for (const char* name : {"c", "d"}) once.expect_done(name);
    entered += once.witness_.who_entered.size();
  }
  if (seeds.last - seeds.first >= 25) {
    EXPECT_GT(entered, 25u);
  }
}

// Peers that train on without their coordinator.
struct ReturnTest : SwarmTest {
  ReturnTest() {
    patience_ = 120s;
    options_.goes_on = [](const wire::Plan& plan) {
      return std::ranges::any_of(plan.peers, [](const auto& peer) { return peer.here; });
    };
    options_.fits = [](const wire::Plan&, std::size_t, const Means&) { return true; };
    options_.enter = [](wire::PlannedPeer& place, std::uint64_t step, bool restored) {
      place.restores = !restored;
      if (restored) {
        place.here = true;
        place.from = step + 50;
      }
      return step + 50 < kSteps;
    };
  }

  static constexpr std::uint64_t kSteps = 2000;

  std::vector<Task<>> four() {
    std::vector<Task<>> tasks;
    const auto go_on = [](ModelledWork& work) { work.goes_on = true; };
    for (const char* name : {"a", "b", "c", "d"}) tasks.push_back(join(name, 1ms, kSteps, go_on));
    return tasks;
  }

  Task<> cut(std::string one, std::string other, Duration when, Duration how_long, bool one_way = false) {
    co_await world_.clock().sleep_for(when);
    witness_.tell("-- cut:", one + (one_way ? " to " : " and ") + other, "for " + format_duration(how_long));
    if (where_.contains(one)) one = where_[one];
    if (where_.contains(other)) other = where_[other];
    network_.cut(one, other);
    if (!one_way) network_.cut(other, one);
    co_await world_.clock().sleep_for(how_long);
    network_.cut(one, other, false);
    if (!one_way) network_.cut(other, one, false);
  }

  Task<> lose(std::string name, Duration when) {
    co_await world_.clock().sleep_for(when);
    witness_.tell("-- ends:", name);
    if (where_.contains(name)) network_.crash(where_[name]);
  }

  Task<> freeze(std::string name, Duration when, Duration how_long) {
    co_await world_.clock().sleep_for(when);
    const std::string where = where_.contains(name) ? where_[name] : name;
    witness_.tell("-- freezes:", name, "for " + format_duration(how_long));
    network_.freeze(where);
    co_await world_.clock().sleep_for(how_long);
    network_.freeze(where, false);
  }

  void expect_all_done() {
    for (const auto& [name, peer] : peers_) {
      EXPECT_FALSE(peer.failure) << name << ": " << *peer.failure;
      EXPECT_EQ(peer.work->steps_done, kSteps) << name;
      EXPECT_EQ(witness_.steps[name], kSteps) << name;
    }
  }
};

TEST_F(ReturnTest, AnotherCoordinatorTakesUpTheRun) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(restart(5s, 8s));
  EXPECT_EQ(run(std::move(tasks)), "");
  expect_all_done();
  EXPECT_EQ(witness_.who_returned.size(), 4u);
  EXPECT_EQ(witness_.who_was_introduced_again, witness_.who_returned) << "the other coordinator knows as much of them";
  EXPECT_TRUE(witness_.who_was_lost.empty());
  for (const auto& [name, peer] : peers_) EXPECT_EQ(peer.work->plan.generation, 1u) << "nobody noticed";
}

TEST_F(ReturnTest, WhoeverWasLostMeanwhileIsMissedByTheOthers) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  const auto lose = [&]() -> Task<> {
    co_await world_.clock().sleep_for(7s);
    network_.crash(where_["c"]);
  };
  tasks.push_back(lose());
  tasks.push_back(restart(5s, 8s));
  EXPECT_EQ(run(std::move(tasks)), "");
  EXPECT_THAT(witness_.who_was_lost, ElementsAre("c"));
  for (const char* name : {"a", "b", "d"}) EXPECT_EQ(peers_[name].work->steps_done, kSteps) << name;
}

TEST_F(ReturnTest, AFrozenCoordinatorCostsNobodyItsPlace) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(freeze("coordinator", 5s, 15s));
  EXPECT_EQ(run(std::move(tasks)), "");
  expect_all_done();
  EXPECT_GE(witness_.who_returned.size(), 4u);
  EXPECT_TRUE(witness_.who_was_introduced_again.empty()) << "it is the same coordinator";
  EXPECT_TRUE(witness_.who_was_lost.empty());
}

TEST_F(ReturnTest, ABadLinkToTheCoordinatorCostsNobodyItsPlace) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(cut("b", "coordinator", 5s, 15s));
  EXPECT_EQ(run(std::move(tasks)), "");
  expect_all_done();
  EXPECT_EQ(witness_.who_returned.count("b"), 1u);
  EXPECT_TRUE(witness_.who_was_lost.empty());
}

// One of them makes other links, and the others do not wait for it.
TEST_F(ReturnTest, OfTwoWithoutALinkOneJoinsAgain) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(cut("b", "c", 5s, 10s));
  EXPECT_EQ(run(std::move(tasks)), "");
  expect_all_done();
  EXPECT_THAT(witness_.who_was_lost, ElementsAre("c"));
  EXPECT_THAT(witness_.who_entered, ElementsAre("c"));
  EXPECT_EQ(peers_["c"].lives, 2u);
}

TEST_F(ReturnTest, WhoeverWasAsleepJoinsAgain) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(freeze("d", 5s, 10s));
  EXPECT_EQ(run(std::move(tasks)), "");
  expect_all_done();
  EXPECT_THAT(witness_.who_was_lost, ElementsAre("d"));
  EXPECT_THAT(witness_.who_entered, ElementsAre("d"));
}

// However it came about: somebody waits in a round that the others are not in.
TEST_F(ReturnTest, WhereNobodyGetsOnRoundsBeginAnew) {
  coordinate(4);
  std::vector<Task<>> tasks;
  for (const char* name : {"a", "b", "c", "d"}) {
    tasks.push_back(join(name, 1ms, kSteps, [name](ModelledWork& work) {
      work.goes_on = true;
      if (name == std::string("b")) work.stalls_at = 100;
    }));
  }
  EXPECT_EQ(run(std::move(tasks)), "");
  expect_all_done();
  EXPECT_TRUE(witness_.was_stuck);
  EXPECT_TRUE(witness_.who_was_lost.empty());
}

// Another plan for all who are there, whenever somebody is without a place, or a place without somebody; what was saved
// is what all have done.
struct MovingTest : ReturnTest {
  MovingTest() {
    options_.moves = [](const wire::Plan& plan, const std::vector<Means>& present, std::uint64_t step) {
      const auto here = std::ranges::count_if(plan.peers, [](const auto& peer) { return peer.here; });
      return step + 200 < kSteps && present.size() != static_cast<std::size_t>(here);
    };
    options_.anew = [this](std::uint64_t) -> std::optional<Anew> {
      saved_ = kSteps;
      for (const auto& [name, step] : witness_.steps) saved_ = std::min(saved_, step);
      if (saved_ == kSteps) return std::nullopt;
      return Anew{.settings = options_.settings, .step = saved_};
    };
    options_.arrange = [this](wire::Plan& plan, const std::vector<Means>&) { plan.first_step = saved_; };
    options_.second_thoughts = 2s;
  }

  std::uint64_t saved_ = 0;
};

TEST_F(MovingTest, WhoeverHasNoPlaceGetsOneInAnotherPlan) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(join("e", 3s, kSteps, [](ModelledWork& work) { work.goes_on = true; }));
  EXPECT_EQ(run(std::move(tasks)), "");
  expect_all_done();
  EXPECT_TRUE(witness_.has_moved);
  EXPECT_TRUE(witness_.who_was_lost.empty());
  EXPECT_EQ(witness_.plan.peers.size(), 5u);
  EXPECT_GT(witness_.plan.first_step, 100u);
  for (const auto& [name, peer] : peers_) EXPECT_EQ(peer.lives, 2u) << name;
}

// They do not wait for somebody to come: there is no place for it any more.
TEST_F(MovingTest, ThoseWhoAreLeftGetAPlanOfTheirOwn) {
  options_.moves = [](const wire::Plan& plan, const std::vector<Means>& present, std::uint64_t) {
    return present.size() < plan.peers.size();
  };
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(lose("b", 3s));
  EXPECT_EQ(run(std::move(tasks)), "");
  EXPECT_EQ(witness_.plan.peers.size(), 3u);
  for (const char* name : {"a", "c", "d"}) EXPECT_EQ(peers_[name].work->steps_done, kSteps) << name;
}

// Two clusters of two, as long as there are four.
struct GoingBackTest : MovingTest {
  GoingBackTest() {
    options_.arrange = [this](wire::Plan& plan, const std::vector<Means>&) {
      plan.first_step = saved_;
      for (std::size_t rank = 0; rank < plan.peers.size(); ++rank) {
        plan.peers[rank].cluster = static_cast<std::uint32_t>(rank / 2);
        plan.peers[rank].stage = static_cast<std::uint32_t>(rank % 2);
      }
    };
    options_.goes_on = [](const wire::Plan& plan) {
      for (std::size_t first = 0; first < plan.peers.size(); first += 2) {
        const bool is_alone = first + 1 == plan.peers.size();
        if (plan.peers[first].here && (is_alone || plan.peers[first + 1].here)) return true;
      }
      return false;
    };
    options_.goes_back = [](const wire::Plan& plan) { return plan.first_step < 40; };
    options_.anew = [this](std::uint64_t) -> std::optional<Anew> {
      saved_ = 40;
      return Anew{.settings = options_.settings, .step = saved_};
    };
    options_.moves = {};
  }
};

// Of both clusters a stage is lost, and nobody comes: those who are left make another plan, and go on from what was saved.
TEST_F(GoingBackTest, WhereNoWholeCopyIsLeftAllGoOnFromWhatWasSaved) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(lose("b", 3s));
  tasks.push_back(lose("c", 3500ms));
  EXPECT_EQ(run(std::move(tasks)), "");
  EXPECT_EQ(witness_.plan.peers.size(), 2u);
  EXPECT_EQ(witness_.plan.first_step, 40u);
  EXPECT_THAT(witness_.who_was_lost, ElementsAre("b", "c"));
  for (const char* name : {"a", "d"}) EXPECT_EQ(peers_[name].work->steps_done, kSteps) << name;
}

// Somebody who has just come goes along, wherever it is on its way; if its cluster is whole by then, nobody goes back, and
// the other cluster waits in vain.
TEST_F(GoingBackTest, WhoeverIsOnItsWayGoesAlong) {
  std::size_t times = 0;
  for (Duration offset = 0ms; offset < 300ms; offset += 30ms) {
    SCOPED_TRACE(format_duration(offset));
    struct Once : GoingBackTest {
      void TestBody() override {}
    } once;
    once.coordinate(4);
    std::vector<Task<>> tasks = once.four();
    tasks.push_back(once.lose("b", 3s));
    tasks.push_back(once.join("e", 3500ms, kSteps, [](ModelledWork& work) { work.goes_on = true; }));
    tasks.push_back(once.lose("c", 3500ms + offset));
    EXPECT_EQ(once.run(std::move(tasks)), "");
    const bool went_back = once.witness_.plan.first_step == 40;
    times += went_back ? 1 : 0;
    for (const char* name : {"a", "d", "e"}) {
      EXPECT_FALSE(once.peers_[name].failure) << name << ": " << *once.peers_[name].failure;
      if (name == std::string("d") && !went_back) continue;
      EXPECT_EQ(once.peers_[name].work->steps_done, kSteps) << name;
    }
  }
  EXPECT_GT(times, 2u);
}

// What was saved would be the same as before: it would not go better another time.
TEST_F(GoingBackTest, NobodyGoesBackTwiceToTheSame) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(lose("b", 3s));
  tasks.push_back(lose("c", 3500ms));
  tasks.push_back(lose("d", 30s));
  EXPECT_THAT(run(std::move(tasks)), ::testing::HasSubstr("d was lost"));
}

// It has time to come again, but not for ever.
TEST_F(MovingTest, WhoeverIsLostOnTheWayIsNotWaitedFor) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  tasks.push_back(join("e", 3s, kSteps, [](ModelledWork& work) { work.goes_on = true; }));
  const auto lose_when_it_moves = [&]() -> Task<> {
    while (!witness_.has_moved) co_await world_.clock().sleep_for(1ms);
    co_await world_.clock().sleep_for(150ms);
    network_.crash(where_["c"]);
  };
  tasks.push_back(lose_when_it_moves());
  EXPECT_EQ(run(std::move(tasks)), "");
  for (const char* name : {"a", "b", "d", "e"}) EXPECT_EQ(peers_[name].work->steps_done, kSteps) << name;
}

TEST_F(MovingTest, AnotherCoordinatorBringsAMoveToItsEnd) {
  for (const Duration after : {20ms, 60ms, 150ms, 400ms, 1000ms, 1500ms}) {
    SCOPED_TRACE(after.count());
    struct Once : MovingTest {
      void TestBody() override {}
    } once;
    once.coordinate(4);
    std::vector<Task<>> tasks = once.four();
    tasks.push_back(once.join("e", 3s, kSteps, [](ModelledWork& work) { work.goes_on = true; }));
    const auto restart_when_it_moves = [&]() -> Task<> {
      while (!once.witness_.has_moved) co_await once.world_.clock().sleep_for(1ms);
      auto restarting = once.restart(after, 3s);
      co_await std::move(restarting);
    };
    tasks.push_back(restart_when_it_moves());
    EXPECT_EQ(once.run(std::move(tasks)), "");
    once.expect_all_done();
  }
}

// Everything at once, at any time: peers that end, sleep, are cut off from one or from all, one way or both, and come;
// a coordinator that ends, sleeps, and is cut off. Everybody comes to an end, no two plans have one generation, and
// every step is reported once.
TEST_F(ReturnTest, WhateverHappensEverybodyComesToAnEnd) {
  std::size_t ended_well = 0, returned = 0, entered = 0;
  const Seeds seeds = seeds_of(12);
  for (std::uint64_t seed = seeds.first; seed < seeds.last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random({seed, word_of("whatever")});
    struct Once : MovingTest {
      void TestBody() override {}
    } once;
    if (random.below(2) == 0) once.options_.moves = {};
    std::map<std::uint32_t, wire::Plan> plans;
    const auto go_on = [&](ModelledWork& work) {
      work.goes_on = true;
      work.plans = &plans;
    };
    once.coordinate(4);
    const auto between = [&](int least, int most) {
      return std::chrono::milliseconds(least +
                                       static_cast<int>(random.below(static_cast<std::uint64_t>(most - least))));
    };
    const std::vector<std::string> all_names = {"a", "b", "c", "d", "e", "f"};
    std::vector<Task<>> tasks;
    for (const char* name : {"a", "b", "c", "d"}) tasks.push_back(once.join(name, 1ms, kSteps, go_on));
    for (const char* name : {"e", "f"}) tasks.push_back(once.join(name, between(1000, 30000), kSteps, go_on));
    const std::size_t events = 1 + random.below(6);
    for (std::size_t i = 0; i < events; ++i) {
      const std::string who = all_names[1 + random.below(all_names.size() - 1)];  // the first one has a quiet life
      const std::string other = random.below(3) == 0 ? "coordinator" : all_names[random.below(all_names.size())];
      const Duration when = between(800, 35000), how_long = between(200, 20000);
      switch (random.below(5)) {
        case 0:
          tasks.push_back(once.lose(who, when));
          break;
        case 1:
          tasks.push_back(once.freeze(random.below(4) == 0 ? "coordinator" : who, when, how_long));
          break;
        case 2:
          if (who != other) tasks.push_back(once.cut(who, other, when, how_long));
          break;
        case 3:
          if (who != other) tasks.push_back(once.cut(who, other, when, how_long, true));
          break;
        default:
          for (const std::string rest : {"a", "b", "c", "d", "coordinator"}) {
            if (rest != who) tasks.push_back(once.cut(who, rest, when, how_long));
          }
      }
    }
    if (random.below(2) == 0) tasks.push_back(once.restart(between(2000, 38000), between(200, 20000)));
    // Drawn apart, so that what else happens is what this seed has always done.
    Random wishes({seed, word_of("wishes")});
    const auto hold_and_save = [&once](Duration when, Duration how_long, bool holds) -> Task<> {
      co_await once.world_.clock().sleep_for(when);
      if (once.coordinator_ && holds) once.coordinator_->hold();
      if (once.coordinator_ && !holds) once.coordinator_->save();
      co_await once.world_.clock().sleep_for(how_long);
      if (once.coordinator_) once.coordinator_->release();
    };
    for (std::uint64_t i = wishes.below(4); i > 0; --i) {
      const std::chrono::milliseconds when(wishes.below(40000)), how_long(wishes.below(8000));
      tasks.push_back(hold_and_save(when, how_long, wishes.below(3) == 0));
    }
    const std::string ending = once.run(std::move(tasks));
    for (const auto& [name, peer] : once.peers_) EXPECT_TRUE(peer.over) << name;
    ended_well += ending.empty() && once.peers_["a"].work->steps_done == kSteps ? 1 : 0;
    returned += once.witness_.who_returned.size();
    entered += once.witness_.who_entered.size();
  }
  if (seeds.last - seeds.first < 12) return;
  EXPECT_GE(ended_well, (seeds.last - seeds.first) * 9 / 10);
  EXPECT_GT(returned, 5u);
  EXPECT_GT(entered, 3u);
}

// What one schedule does, it does every time, to the event: a seed that has failed can be looked at.
TEST_F(ReturnTest, AScheduleComesAgain) {
  const auto trace = [] {
    struct Once : ReturnTest {
      void TestBody() override {}
    } once;
    once.coordinate(4);
    std::vector<Task<>> tasks = once.four();
    tasks.push_back(once.lose("b", 3s));
    tasks.push_back(once.freeze("c", 8s, 4s));
    tasks.push_back(once.restart(12s, 2s));
    EXPECT_EQ(once.run(std::move(tasks)), "");
    return once.world_.trace();
  };
  EXPECT_EQ(trace(), trace());
}

TEST_F(ReturnTest, ACoordinatorThatStaysAwayEndsThePeersWork) {
  coordinate(4);
  std::vector<Task<>> tasks = four();
  const auto lose = [&]() -> Task<> {
    co_await world_.clock().sleep_for(5s);
    network_.crash("coordinator");
    coordinator_->stop("it is gone");
  };
  tasks.push_back(lose());
  run(std::move(tasks));
  for (const auto& [name, peer] : peers_) {
    EXPECT_TRUE(peer.over) << name;
    EXPECT_TRUE(peer.failure) << name;
  }
}

}  // namespace
}  // namespace rookery::swarm
