#include "swarm/testing/modelled_swarm.h"

namespace rookery::swarm {
namespace {

using namespace std::chrono_literals;
using namespace swarm::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(SwarmTest, PeersJoinTrainAndEndTogether) {
  coordinate(3);
  EXPECT_EQ(run(all(join("cellar", 1ms, 20), join("attic", 300ms, 20), join("barn", 20ms, 20))), "");
  EXPECT_THAT(witness_.who_joined, ElementsAre("cellar", "barn", "attic"));
  ASSERT_EQ(witness_.plan.peers.size(), 3u);
  EXPECT_EQ(witness_.plan.peers[0].contact.name, "attic");  // ranks go by name
  for (const auto& [name, peer] : peers_) {
    EXPECT_FALSE(peer.failure) << name << ": " << *peer.failure;
    EXPECT_EQ(peer.work->steps_done, 20u);
    EXPECT_EQ(peer.work->settings, "name = \"x\"");
    EXPECT_EQ(witness_.steps[name], 20u);
  }
  EXPECT_EQ(peers_["attic"].work->rank, 0u);
  EXPECT_EQ(peers_["cellar"].work->rank, 2u);
  EXPECT_EQ(witness_.who_ended.size(), 3u);
}

TEST_F(SwarmTest, PeersThatNobodyCanDialTrainThroughTheCoordinator) {
  coordinate(3);
  EXPECT_EQ(run(all(join("a", 1ms, 20, {}, false), join("b", 2ms, 20, {}, false), join("c", 3ms, 20))), "");
  for (const auto& [name, peer] : peers_) {
    EXPECT_FALSE(peer.failure) << name << ": " << *peer.failure;
    EXPECT_EQ(peer.work->steps_done, 20u);
  }
}

TEST_F(SwarmTest, APeerAloneIsASwarmToo) {
  coordinate(1);
  EXPECT_EQ(run(all(join("attic", 1ms, 5))), "");
  EXPECT_EQ(peers_["attic"].work->steps_done, 5u);
}

TEST_F(SwarmTest, WhoeverDoesNotFitIsToldWhyAndTheRestGoesOn) {
  coordinate(2);
  const auto other_data = [](ModelledWork& work) { work.data = "other"; };
  const auto no_memory = [](ModelledWork& work) { work.cannot = "has too little memory for this model"; };
  EXPECT_EQ(run(all(join("attic", 1ms, 200), join("barn", 50ms, 200, other_data), join("cellar", 200ms, 200, no_memory),
                    join("den", 500ms, 200), join("eaves", 1500ms, 200))),
            "");
  EXPECT_THAT(*peers_["barn"].failure, HasSubstr("its data is not the same as that of this run"));
  EXPECT_THAT(witness_.refusals["barn"], HasSubstr("data"));
  EXPECT_THAT(*peers_["cellar"].failure, HasSubstr("too little memory"));
  EXPECT_THAT(witness_.refusals["cellar"], HasSubstr("too little memory"));
  EXPECT_THAT(*peers_["eaves"].failure, HasSubstr("the run has begun"));
  EXPECT_FALSE(peers_["attic"].failure);
  EXPECT_FALSE(peers_["den"].failure);
  EXPECT_EQ(peers_["den"].work->steps_done, 200u);
}

TEST_F(SwarmTest, WhoeverLeavesBeforeTheRunMakesRoom) {
  coordinate(2);
  const auto leave = [&]() -> Task<> {
    co_await world_.clock().sleep_for(200ms);
    network_.crash(where_["attic"]);
  };
  EXPECT_EQ(run(all(join("attic", 1ms, 10), leave(), join("barn", 400ms, 10), join("cellar", 500ms, 10))), "");
  EXPECT_THAT(witness_.who_left, ElementsAre("attic"));
  EXPECT_EQ(peers_["cellar"].work->steps_done, 10u);
}

TEST_F(SwarmTest, StopEndsEverybodyAfterTheirStep) {
  coordinate(3);
  const auto stop = [&]() -> Task<> {
    co_await world_.clock().sleep_for(1s);
    coordinator_->stop("interrupted");
  };
  EXPECT_EQ(run(all(join("a", 1ms, 100000), join("b", 1ms, 100000), join("c", 1ms, 100000), stop())), "");
  for (const auto& [name, peer] : peers_) {
    EXPECT_FALSE(peer.failure) << name << ": " << *peer.failure;
    EXPECT_GT(peer.work->steps_done, 10u);
    EXPECT_LT(peer.work->steps_done, 1000u);
    EXPECT_EQ(peer.work->steps_done, peers_["a"].work->steps_done);
  }
}

// However far each has come when it is told to stop: all end after the same step, and nobody is lost by that.
TEST_F(SwarmTest, StopAtAnyMomentEndsAllAtTheSameStep) {
  for (std::uint64_t seed = 0; seed < repetitions(150); ++seed) {
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.coordinate(3);
    const auto stop = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(600ms + std::chrono::microseconds(379 * seed));
      once.coordinator_->stop("interrupted");
    };
    EXPECT_EQ(once.run(all(once.join("a", 1ms, 1000), once.join("b", 1ms, 1000), once.join("c", 1ms, 1000), stop())),
              "")
        << "seed " << seed;
    for (const auto& [name, peer] : once.peers_) {
      EXPECT_FALSE(peer.failure) << name << ": " << *peer.failure;
      EXPECT_EQ(peer.work->steps_done, once.peers_["a"].work->steps_done) << "seed " << seed;
    }
  }
}

// Links come before the news that they would: whoever hears late of a survey does not miss it.
TEST_F(SwarmTest, ThoseWhoAreHeldBeginNoStepUntilTheyAreReleased) {
  coordinate(3);
  std::vector<std::uint64_t> done;
  const auto hold = [&]() -> Task<> {
    co_await world_.clock().sleep_for(1s);
    coordinator_->hold();
    for (const Duration time : {Duration(500ms), Duration(300s)}) {
      co_await world_.clock().sleep_for(time);
      for (const auto& [name, peer] : peers_) done.push_back(peer.work->steps_done);
    }
    coordinator_->release();
  };
  EXPECT_EQ(run(all(join("a", 1ms, 200), join("b", 1ms, 200), join("c", 1ms, 200), hold())), "");
  EXPECT_THAT(done, ::testing::Each(done.front()));
  EXPECT_EQ(witness_.steps_when_held, std::vector<std::uint64_t>(3, done.front())) << "said when all had done theirs";
  EXPECT_GT(done.front(), 0u);
  EXPECT_LT(done.front(), 200u);
  EXPECT_FALSE(witness_.was_stuck);
  for (const auto& [name, peer] : peers_) EXPECT_EQ(peer.work->steps_done, 200u) << name;
}

TEST_F(SwarmTest, ACheckpointAtAnyMomentIsAfterTheSameStepOfAll) {
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.coordinate(3);
    const auto save = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(1s + i * 1ms);
      const bool is_held = i % 4 == 0;
      if (is_held) once.coordinator_->hold();
      if (i % 8 == 0) co_await once.world_.clock().sleep_for(1s);
      once.coordinator_->save();
      co_await once.world_.clock().sleep_for(1s);
      once.coordinator_->save();
      co_await once.world_.clock().sleep_for(1s);
      if (is_held) once.coordinator_->release();
    };
    EXPECT_EQ(once.run(all(once.join("a", 1ms, 300), once.join("b", 1ms, 300), once.join("c", 3ms, 300), save())), "");
    const std::vector<std::uint64_t> saved = once.peers_["a"].work->saved;
    EXPECT_FALSE(saved.empty());
    for (const auto& [name, peer] : once.peers_) {
      EXPECT_EQ(peer.work->steps_done, 300u) << name;
      EXPECT_EQ(peer.work->saved, saved) << name;
    }
  }
}

TEST_F(SwarmTest, ThoseWhoAreHeldCanBeStopped) {
  coordinate(2);
  const auto stop = [&]() -> Task<> {
    co_await world_.clock().sleep_for(1s);
    coordinator_->hold();
    co_await world_.clock().sleep_for(1s);
    coordinator_->stop("enough");
  };
  EXPECT_EQ(run(all(join("a", 1ms, 100000), join("b", 1ms, 100000), stop())), "");
  EXPECT_EQ(peers_["a"].work->steps_done, peers_["b"].work->steps_done);
}

TEST_F(SwarmTest, WhoeverHearsLateOfASurveyIsWaitedFor) {
  for (const Duration late : {20ms, 300ms, 2000ms}) {
    for (const std::string name : {"a", "b", "c"}) {
      struct Once : SwarmTest {
        void TestBody() override {}
      } once;
      once.coordinate(3);
      const std::string number(1, static_cast<char>('1' + (name[0] - 'a')));
      once.network_.set_line("coordinator", "host-" + name + number, {.bandwidth = 100e6, .latency = late});
      EXPECT_EQ(once.run(all(once.join("a", 1ms, 10), once.join("b", 2ms, 10), once.join("c", 3ms, 10))), "");
      EXPECT_EQ(once.where_[name], "host-" + name + number);
      EXPECT_EQ(once.witness_.who_ended.size(), 3u);
    }
  }
}

// Whoever goes while links are looked at makes room for another, whenever that is; the others link up anew.
TEST_F(SwarmTest, APeerThatGoesBeforeThePlanIsReplacedAtAnyMoment) {
  for (std::uint64_t seed = 0; seed < repetitions(60); ++seed) {
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.coordinate(3);
    const auto crash = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(60ms + 6ms * seed);
      if (once.witness_.plan.peers.empty()) once.network_.crash(once.where_["b"]);
    };
    const auto replace = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(2s);
      if (!once.witness_.plan.peers.empty()) co_return;
      auto joining = once.join("d", 1ms, 10);
      co_await std::move(joining);
    };
    EXPECT_EQ(
        once.run(all(once.join("a", 1ms, 10), once.join("b", 1ms, 10), once.join("c", 1ms, 10), crash(), replace())),
        "")
        << "seed " << seed;
    EXPECT_EQ(once.witness_.who_ended.size(), 3u) << "seed " << seed;
    EXPECT_TRUE(once.witness_.who_ended.contains("a") && once.witness_.who_ended.contains("c")) << "seed " << seed;
  }
}

// Data goes from the coordinator to the peers, and a checkpoint back.
struct FilesTest : SwarmTest {
  FilesTest() {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("rookery-files-{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path make_file(const std::string& name, std::size_t bytes) {
    std::string text(bytes, 'a');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + i * i % 23);
    replace_file(folder_ / name, text);
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

TEST_F(FilesTest, WhatAPeerLacksItFetches) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, std::size_t{12'345'678}}) {
    const std::string name = fmt::format("data-{}", bytes);
    const auto path = make_file(name, bytes);
    options_.data_files.push_back({.facts = facts_of(path, "source/" + name), .path = path});
  }
  const auto checkpoint = make_file("checkpoint", 3'000'000);
  options_.incoming = folder_ / "incoming";
  struct Keeper : Witness {
    bool keep(std::uint64_t step, const std::filesystem::path& where) override {
      EXPECT_EQ(step, 20u);
      kept = digest_of_file(where / "model");
      return true;
    }
    void saved(const std::string& peer, std::uint64_t) override {
      EXPECT_EQ(peer, "a");
      EXPECT_FALSE(kept.empty());
    }
    std::string kept;
  } keeper;
  coordinate(2, &keeper);
  const auto into = [&](const std::string& name) {
    return [this, name, checkpoint](ModelledWork& work) {
      work.folder = folder_ / name;
      if (name == "a") work.checkpoint = checkpoint;
    };
  };
  EXPECT_EQ(run(all(join("a", 1ms, 20, into("a")), join("b", 1ms, 20, into("b")))), "");
  for (const OfferedFile& file : options_.data_files) {
    for (const char* peer : {"a", "b"}) {
      EXPECT_EQ(digest_of_file(folder_ / peer / file.facts.name), file.facts.digest) << peer << file.facts.name;
    }
  }
  EXPECT_EQ(keeper.kept, digest_of_file(checkpoint));
  EXPECT_TRUE(peers_["a"].work->is_kept);
}

TEST_F(FilesTest, AFileThatIsGoneOrDamagedEndsOnlyWhoeverWantedIt) {
  const auto path = make_file("data", 5'000'000);
  const wire::FileFacts facts = facts_of(path, "data");
  options_.data_files = {{.facts = facts, .path = path}};
  coordinate(1);
  make_file("data", 4'000'000);
  const auto into = [&](ModelledWork& work) { work.folder = folder_ / "a"; };
  const auto stop = [&]() -> Task<> {
    co_await world_.clock().sleep_for(20s);
    coordinator_->stop("nobody could");
  };
  run(all(join("a", 1ms, 20, into), stop()));
  EXPECT_THAT(*peers_["a"].failure, HasSubstr("cannot read"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a" / "data"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a" / "data.part"));
}

// Whenever a peer is lost: the run ends, everybody is told who it was, and nobody waits for ever.
TEST_F(SwarmTest, ALostPeerEndsTheRunWithItsName) {
  for (std::uint64_t seed = 0; seed < repetitions(150); ++seed) {
    Random random({seed, word_of("lost")});
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.coordinate(4);
    const auto when = 100ms + std::chrono::milliseconds(random.below(400));
    const bool freezes = random.below(2) == 0;
    const auto lose = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(when);
      if (freezes) {
        once.network_.freeze(once.where_["c"]);
      } else {
        once.network_.crash(once.where_["c"]);
      }
      co_await once.world_.clock().sleep_for(120s);
      once.coordinator_->stop("that was all");  // if it was lost before the run, the others still wait
      once.network_.freeze(once.where_["c"], false);
    };
    const std::string ending = once.run(all(once.join("a", 1ms, 200), once.join("b", 2ms, 200),
                                            once.join("c", 3ms, 200), once.join("d", 4ms, 200), lose()));
    for (const auto& [name, peer] : once.peers_) EXPECT_TRUE(peer.over) << name;
    if (once.witness_.plan.peers.empty()) continue;  // before there was a plan
    EXPECT_THAT(ending, HasSubstr("c was lost")) << "seed " << seed;
    EXPECT_THAT(once.witness_.who_was_lost, ElementsAre("c")) << "seed " << seed;
  }
}

// The same where the others can go on: they do, to the end, by a plan without it.
TEST_F(SwarmTest, TheOthersGoOnWithoutThoseWhoAreLost) {
  std::size_t lost_in_the_run = 0;
  const Seeds seeds = seeds_of(100);
  for (std::uint64_t seed = seeds.first; seed < seeds.last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random({seed, word_of("go on")});
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.options_.goes_on = [](const wire::Plan& plan) {
      return std::ranges::count_if(plan.peers, [](const auto& peer) { return peer.here; }) > 1;
    };
    once.coordinate(5);
    const auto lose = [&](std::string name) -> Task<> {
      co_await once.world_.clock().sleep_for(300ms + std::chrono::milliseconds(random.below(2500)));
      if (random.below(2) == 0) {
        once.network_.freeze(once.where_[name]);
      } else {
        once.network_.crash(once.where_[name]);
      }
      co_await once.world_.clock().sleep_for(300s);
      once.coordinator_->stop("that was all");  // if it was lost before the run, the others still wait
      once.network_.freeze(once.where_[name], false);
    };
    const auto go_on = [](ModelledWork& work) { work.goes_on = true; };
    std::vector<Task<>> tasks = all(lose("b"), lose("d"));
    for (const char* name : {"a", "b", "c", "d", "e"}) tasks.push_back(once.join(name, 1ms, 200, go_on));
    const std::string ending = once.run(std::move(tasks));
    for (const auto& [name, peer] : once.peers_) EXPECT_TRUE(peer.over) << name;
    if (!once.witness_.has_begun) continue;  // before the run had begun
    EXPECT_EQ(ending, "");
    for (const char* name : {"a", "c", "e"}) {
      EXPECT_EQ(once.peers_[name].work->steps_done, 200u) << name;
      EXPECT_FALSE(once.peers_[name].failure) << name;
    }
    lost_in_the_run += once.witness_.who_was_lost.size();
  }
  if (seeds.last - seeds.first >= 100) {
    EXPECT_GT(lost_in_the_run, 100u);
  }
}

// Others come in the place of those who were lost, and do the rest of the steps with all.
// Whom most others suspect has to go, and the others go on; one alone cannot drive anybody out.
TEST_F(SwarmTest, WhomMostSuspectIsExpelled) {
  options_.goes_on = [](const wire::Plan& plan) {
    return std::ranges::count_if(plan.peers, [](const auto& peer) { return peer.here; }) > 1;
  };
  options_.fits = [](const wire::Plan&, std::size_t, const Means&) { return true; };
  coordinate(4);
  const auto suspect = [](std::string whom) {
    return [whom](ModelledWork& work) {
      work.goes_on = true;
      work.suspects = whom;
    };
  };
  EXPECT_EQ(run(all(join("a", 1ms, 200, suspect("d")), join("b", 1ms, 200, suspect("d")),
                    join("c", 1ms, 200, suspect("")), join("d", 1ms, 200, suspect("a")))),
            "");
  EXPECT_THAT(witness_.who_was_expelled, ElementsAre("d"));
  EXPECT_THAT(witness_.who_was_lost, ElementsAre("d"));
  EXPECT_LE(witness_.suspicions.count("d"), 2u);  // each is told once
  ASSERT_TRUE(peers_["d"].failure);
  EXPECT_THAT(*peers_["d"].failure, HasSubstr("was expelled, because it brought nonsense"));
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_FALSE(peers_[name].failure) << name << ": " << *peers_[name].failure;
    EXPECT_EQ(peers_[name].work->steps_done, 200u) << name;
  }
}

TEST_F(SwarmTest, OfTwoTheOtherIsExpelledWhenItWasSuspectedSeveralTimes) {
  options_.goes_on = [](const wire::Plan&) { return true; };
  coordinate(2);
  const auto suspect = [](ModelledWork& work) {
    work.goes_on = true;
    work.suspects = "b";
  };
  EXPECT_EQ(run(all(join("a", 1ms, 50, suspect), join("b", 1ms, 50))), "");
  EXPECT_THAT(witness_.who_was_expelled, ElementsAre("b"));
  EXPECT_GE(peers_["b"].work->steps_done, 3u);
  EXPECT_EQ(peers_["a"].work->steps_done, 50u);
}

// What happens once in a while does not add up.
TEST_F(SwarmTest, WhoIsSuspectedNowAndThenMayStay) {
  options_.goes_on = [](const wire::Plan&) { return true; };
  options_.suspicions_last = [] { return 30; };
  coordinate(2);
  const auto suspect = [](ModelledWork& work) {
    work.goes_on = true;
    work.suspects = "b";
    work.suspects_every = 20;
  };
  EXPECT_EQ(run(all(join("a", 1ms, 200, suspect), join("b", 1ms, 200))), "");
  EXPECT_THAT(witness_.who_was_expelled, ElementsAre());
  EXPECT_EQ(peers_["b"].work->steps_done, 200u);
}

TEST_F(SwarmTest, WhoeverComesLaterTakesAFreePlace) {
  options_.goes_on = [](const wire::Plan& plan) {
    return std::ranges::count_if(plan.peers, [](const auto& peer) { return peer.here; }) > 1;
  };
  options_.fits = [](const wire::Plan&, std::size_t, const Means&) { return true; };
  options_.enter = [](wire::PlannedPeer& place, std::uint64_t step, bool restored) {
    place.restores = !restored;
    place.here = restored;
    place.from = step + 5;
    return true;
  };
  coordinate(3);
  const auto lose = [&](std::string name, Duration when) -> Task<> {
    co_await world_.clock().sleep_for(when);
    network_.crash(where_[name]);
  };
  const auto go_on = [](ModelledWork& work) { work.goes_on = true; };
  EXPECT_EQ(run(all(join("a", 1ms, 1000, go_on), join("b", 1ms, 1000, go_on), join("c", 1ms, 1000, go_on),
                    lose("b", 2s), join("d", 1s, 1000, go_on), join("e", 3s, 1000, go_on), lose("a", 5s),
                    join("g", 6s, 1000, go_on), join("f", 8s, 1000, go_on))),
            "");
  for (const char* name : {"g", "f"}) {  // waited for a place, and were not needed
    EXPECT_THAT(*peers_[name].failure, HasSubstr("the run is over")) << name;
  }
  for (const char* name : {"c", "d", "e"}) {
    ASSERT_FALSE(peers_[name].failure) << name << ": " << *peers_[name].failure;
    EXPECT_EQ(peers_[name].work->steps_done, 1000u) << name;
  }
  EXPECT_THAT(witness_.who_was_lost, ElementsAre("b", "a"));
  EXPECT_THAT(witness_.who_entered, ElementsAre("d", "e"));
}

// Whoever comes when another one freezes does not wait for that one any longer than the others do.
TEST_F(SwarmTest, WhoeverLinksUpWaitsForNobodyWhoIsLostMeanwhile) {
  std::size_t were_linking = 0;
  for (Duration offset = 0ms; offset < 400ms; offset += 40ms) {
    SCOPED_TRACE(format_duration(offset));
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.options_.goes_on = [](const wire::Plan& plan) {
      return std::ranges::count_if(plan.peers, [](const auto& peer) { return peer.here; }) > 1;
    };
    once.options_.fits = [](const wire::Plan&, std::size_t, const Means&) { return true; };
    once.options_.enter = [](wire::PlannedPeer& place, std::uint64_t step, bool restored) {
      place.restores = !restored;
      place.here = restored;
      place.from = step + 5;
      return true;
    };
    once.coordinate(4);
    const auto go_on = [](ModelledWork& work) { work.goes_on = true; };
    Time came{}, entered{};
    const auto disturb = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(2s);
      once.network_.crash(once.where_["b"]);
      co_await once.world_.clock().sleep_for(1s);
      came = once.world_.clock().now();
      co_await once.world_.clock().sleep_for(offset);
      once.network_.freeze(once.where_["c"]);
      const bool was_linking = once.witness_.who_joined.size() == 5 && once.witness_.who_entered.empty();
      were_linking += was_linking ? 1 : 0;
      while (once.witness_.who_entered.empty() && once.world_.clock().now() < came + 60s) {
        co_await once.world_.clock().sleep_for(10ms);
      }
      entered = once.world_.clock().now();
      co_await once.world_.clock().sleep_for(300s);
      once.network_.freeze(once.where_["c"], false);
    };
    EXPECT_EQ(once.run(all(once.join("a", 1ms, 1000, go_on), once.join("b", 1ms, 1000, go_on),
                           once.join("c", 1ms, 1000, go_on), once.join("d", 1ms, 1000, go_on),
                           once.join("e", 3s, 1000, go_on), disturb())),
              "");
    EXPECT_LT(entered - came, 6s);
    for (const char* name : {"a", "d", "e"}) {
      ASSERT_FALSE(once.peers_[name].failure) << name << ": " << *once.peers_[name].failure;
      EXPECT_EQ(once.peers_[name].work->steps_done, 1000u) << name;
    }
  }
  EXPECT_GT(were_linking, 2u);
}

// Somebody who comes with a ticket, and whatever it then does.
struct IntruderTest : SwarmTest {
  Task<> intrude(std::string name, std::function<Task<>(Talk&, net::Host&)> what, std::string& ending) {
    net::Host& host = add_host(name, next_identity());
    auto dialling = host.dial(ticket_);
    net::Meeting meeting = co_await std::move(dialling);
    {
      Talk talk(*meeting.link);
      auto doing = what(talk, host);
      co_await std::move(doing);
      auto ended = meeting.link->ended();
      const net::LinkError end = co_await std::move(ended);
      ending = end.what();
    }
  }

  static wire::Introduction introduction(net::Host& host) {
    return {.contact = {.name = host.options().name, .fingerprint = host.identity().fingerprint().bytes()}};
  }
};

TEST_F(IntruderTest, WhoeverIsNeverReadyMakesRoomAgain) {
  coordinate(2);
  std::string silent, idle;
  const auto say_nothing = [](Talk&, net::Host&) -> Task<> { co_return; };
  const auto idle_away = [](Talk& talk, net::Host& host) -> Task<> {
    talk.say(introduction(host));
    co_return;
  };
  EXPECT_EQ(run(all(intrude("silent", say_nothing, silent), intrude("idle", idle_away, idle), join("a", 1s, 10),
                    join("b", 31min, 10))),
            "");
  EXPECT_THAT(silent, HasSubstr("did not introduce itself in time"));
  EXPECT_THAT(idle, HasSubstr("did not open its data"));
  EXPECT_EQ(peers_["b"].work->steps_done, 10u);
}

TEST_F(IntruderTest, WhoeverEndsBeforeTheBeginningIsNamed) {
  coordinate(1);
  std::string hasty;
  const auto end_at_once = [](Talk& talk, net::Host& host) -> Task<> {
    talk.say(introduction(host));
    auto assigning = talk.hear();
    co_await std::move(assigning);
    talk.say(wire::Ready{.data = "data", .model = "model", .parameters = 100});
    auto surveying = talk.hear();
    const auto survey = std::get<wire::Survey>(co_await std::move(surveying));
    talk.say(wire::Surveyed{.number = survey.number});
    auto planning = talk.hear();
    co_await std::move(planning);
    talk.say(wire::Ended{});
  };
  EXPECT_THAT(run(all(intrude("hasty", end_at_once, hasty))), HasSubstr("hasty was lost"));
}

// What is said out of turn before there is a plan costs nobody but whoever says it.
TEST_F(IntruderTest, WhoeverDisturbsASurveyMakesRoom) {
  const std::vector<wire::SwarmMessage> said = {wire::Ended{}, wire::Linked{.generation = 1},
                                                wire::StepReport{.step = 1}, wire::Surveyed{.number = 7},
                                                wire::Saved{.step = 1}};
  for (const wire::SwarmMessage& message : said) {
    struct Once : IntruderTest {
      void TestBody() override {}
    } once;
    once.coordinate(2);
    std::string ending;
    const auto disturb = [&](Talk& talk, net::Host& host) -> Task<> {
      talk.say(introduction(host));
      auto assigning = talk.hear();
      co_await std::move(assigning);
      talk.say(wire::Ready{.data = "data", .model = "model", .parameters = 100});
      auto surveying = talk.hear();
      co_await std::move(surveying);
      talk.say(message);
    };
    const auto later = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(1s);
      auto joining = once.join("b", 1ms, 10);
      co_await std::move(joining);
    };
    EXPECT_EQ(once.run(all(once.intrude("disturber", disturb, ending), once.join("a", 1ms, 10), later())), "")
        << message.index();
    EXPECT_EQ(once.witness_.who_ended, (std::set<std::string>{"a", "b"})) << message.index();
  }
}

// Somebody who has a ticket but no seat cannot disturb a run that has begun.
TEST_F(IntruderTest, WhoeverHasNoSeatHasNoSay) {
  const std::vector<wire::SwarmMessage> said = {wire::Ended{}, wire::Failed{.text = "all is lost"},
                                                wire::Linked{.generation = 1}, wire::Saved{.step = 1},
                                                wire::Halted{.step = 1}};
  coordinate(2);
  std::vector<std::string> endings(said.size());
  std::vector<Task<>> tasks = all(join("a", 1ms, 100), join("b", 1ms, 100));
  const auto intrude_later = [&](std::size_t i) -> Task<> {
    co_await world_.clock().sleep_for(600ms);
    const auto say = [&](Talk& talk, net::Host&) -> Task<> {
      talk.say(said[i]);
      co_return;
    };
    auto intruding = intrude("intruder-" + std::to_string(i), say, endings[i]);
    co_await std::move(intruding);
  };
  for (std::size_t i = 0; i < said.size(); ++i) tasks.push_back(intrude_later(i));
  EXPECT_EQ(run(std::move(tasks)), "");
  EXPECT_EQ(peers_["b"].work->steps_done, 100u);
  for (const std::string& ending : endings) EXPECT_THAT(ending, HasSubstr("out of turn"));
}

TEST_F(SwarmTest, WhereNobodyElseComesOneWhoCannotTakePartEndsTheRun) {
  options_.only_these = true;
  coordinate(2);
  const auto no_memory = [](ModelledWork& work) { work.cannot = "has too little memory"; };
  EXPECT_EQ(run(all(join("a", 1ms, 100), join("b", 50ms, 100, no_memory))),
            "b cannot take part: has too little memory");
}

TEST_F(SwarmTest, StopBeforeTheBeginningIsNoLoss) {
  for (const Duration when : {1ms, 30ms, 60ms, 70ms, 80ms, 90ms, 100ms, 110ms, 120ms, 150ms}) {
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.coordinate(2);
    const auto stop = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(when);
      once.coordinator_->stop("interrupted");
    };
    EXPECT_EQ(once.run(all(once.join("a", 1ms, 5), once.join("b", 1ms, 5), stop())), "");
    for (const auto& [name, peer] : once.peers_) EXPECT_TRUE(peer.over) << name;
  }
}

TEST_F(SwarmTest, AWatcherThatCannotGoOnEndsTheRun) {
  struct FullDisk : Witness {
    void stepped(const std::string&, const wire::StepReport& report) override {
      if (report.step == 3) throw Error("no space left");
    }
  } full_disk;
  coordinate(2, &full_disk);
  const Time start = world_.clock().now();
  EXPECT_EQ(run(all(join("a", 1ms, 1000), join("b", 1ms, 1000))), "no space left");
  EXPECT_LT(world_.clock().now() - start, 10s);
  EXPECT_THAT(full_disk.who_was_lost, ElementsAre());
  for (const auto& [name, peer] : peers_) {
    EXPECT_TRUE(peer.over) << name;
    EXPECT_THAT(peer.failure.value_or(""), HasSubstr("coordinator: cannot go on")) << name;
  }
}

TEST_F(FilesTest, ACheckpointThatCannotBeKeptEndsTheRunAtOnce) {
  const auto checkpoint = make_file("checkpoint", 3'000'000);
  options_.incoming = folder_ / "incoming";
  struct FullDisk : Witness {
    bool keep(std::uint64_t, const std::filesystem::path&) override { throw Error("no space left"); }
  } full_disk;
  coordinate(2, &full_disk);
  const Time start = world_.clock().now();
  const auto saves = [&](ModelledWork& work) { work.checkpoint = checkpoint; };
  EXPECT_EQ(run(all(join("a", 1ms, 20, saves), join("b", 1ms, 20))), "no space left");
  EXPECT_LT(world_.clock().now() - start, 30s);
}

TEST_F(SwarmTest, ALostCoordinatorEndsThePeersWork) {
  coordinate(2);
  const auto lose = [&]() -> Task<> {
    co_await world_.clock().sleep_for(1s);
    network_.crash("coordinator");
    coordinator_->stop("it is gone");
  };
  run(all(join("a", 1ms, 100000), join("b", 1ms, 100000), lose()));
  for (const auto& [name, peer] : peers_) {
    EXPECT_TRUE(peer.over) << name;
    EXPECT_TRUE(peer.failure) << name;
    EXPECT_TRUE(peer.work->halted) << name;
  }
}

// Somebody with a ticket says what makes no sense: it is dropped, and the others do not notice.
TEST_F(SwarmTest, NonsenseIsNobodyElsesProblem) {
  coordinate(2);
  const std::vector<wire::SwarmMessage> nonsense = {wire::Begin{.generation = 1},
                                                    wire::Plan{.generation = 1},
                                                    wire::Linked{.generation = 1},
                                                    wire::StepReport{.step = 1},
                                                    wire::Ended{},
                                                    wire::Ready{.data = "a", .model = "b"},
                                                    wire::Stop{.reason = "please"},
                                                    wire::Evaluated{.split = "eval"},
                                                    wire::Assignment{.settings = "x"}};
  const auto intrude = [&](std::size_t i) -> Task<> {
    net::Host& host = add_host("intruder-" + std::to_string(i), next_identity());
    auto dialling = host.dial(ticket_);
    net::Meeting meeting = co_await std::move(dialling);
    Talk talk(*meeting.link);
    talk.say(nonsense[i]);
    auto ended = meeting.link->ended();
    const net::LinkError end = co_await std::move(ended);
    EXPECT_EQ(end.failure(), net::Failure::kProtocol) << i;
  };
  std::vector<Task<>> tasks = all(join("a", 1ms, 100), join("b", 500ms, 100));
  for (std::size_t i = 0; i < nonsense.size(); ++i) tasks.push_back(intrude(i));
  EXPECT_EQ(run(std::move(tasks)), "");
  EXPECT_EQ(peers_["b"].work->steps_done, 100u);
}

}  // namespace
}  // namespace rookery::swarm
