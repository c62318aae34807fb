#include "simulate/simulation.h"

#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/random.h"
#include "base/testing/seeds.h"

namespace rookery::simulate {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kSmall = R"(
  [model]
  layers = 4
  width = 32
  heads = 2
  context = 32
  [train]
  steps = 20
  batch = 8
  micro_batches = 4
  threads = 1
  eval_batches = 2
  [simulate]
  step_time = "100ms"
)";

class SimulationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static config::Scenario scenario(const std::string& peers, const std::vector<std::string>& changes) {
    return config::parse_scenario(kSmall + peers, "scenario.toml", changes);
  }

  // The same profile for all: layers are measured once.
  Outcome simulate(const std::string& peers, const std::vector<std::string>& changes, const std::string& name = "run") {
    const std::atomic<bool> stop = false;
    Simulation simulation(scenario(peers, changes), train::RunDirectory(folder_ / name),
                          std::filesystem::path(::testing::TempDir()) / "profiles");
    predicted = simulation.plan().prediction;
    return simulation.run(stop);
  }

  std::string text_of(const std::string& file) const {
    std::ifstream stream(folder_ / file);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  std::vector<json> lines(const std::string& run = "run") const {
    std::istringstream text(text_of(run + "/metrics.jsonl"));
    std::vector<json> all;
    for (std::string line; std::getline(text, line);) all.push_back(json::parse(line));
    return all;
  }

  std::filesystem::path folder_;
  plan::Prediction predicted;
};

constexpr const char* kSix = "[[peer]]\nname = 'p'\ncount = 6\nuplink = '50mbit'\nlatency = '2ms'\n";
constexpr const char* kFour = "[[peer]]\nname = 'p'\ncount = 4\nuplink = '10mbit'\nlatency = '5ms'\n";

TEST_F(SimulationTest, AStepTakesAsLongAsWasPredictedAndSendsAsMuch) {
  const std::vector<std::vector<std::string>> methods = {{"sync.method=allreduce"},
                                                         {"sync.method=gossip"},
                                                         {"sync.method=local-sgd", "sync.interval=5"},
                                                         {"sync.method=none"},
                                                         {"sync.method=gossip", "sync.mode=atc"}};
  for (std::vector<std::string> settings : methods) {
    const std::string method = settings[0];
    settings.emplace_back("swarm.clusters=4");
    const Outcome outcome = simulate(kFour, settings);
    EXPECT_EQ(outcome.summary.steps, 20);
    EXPECT_EQ(outcome.summary.samples, 20 * 8 * 4);
    EXPECT_NEAR(*outcome.summary.measured_step_seconds, predicted.step_seconds, 0.05 * predicted.step_seconds)
        << method;
    // Headers and heartbeats come on top.
    const auto sent = static_cast<double>(*outcome.summary.bytes_sent) / 20;
    EXPECT_GE(sent, 0.95 * predicted.all_bytes_sent()) << method;
    EXPECT_LE(sent, 1.05 * predicted.all_bytes_sent() + 20'000) << method;
  }
}

TEST_F(SimulationTest, PipelinesTakeAsLongAsWasPredicted) {
  for (const char* schedule : {"async", "1f1b", "gpipe"}) {
    for (const char* clusters : {"swarm.clusters=1", "swarm.clusters=[1, 3]", "swarm.clusters=2"}) {
      const Outcome outcome = simulate(kFour, {clusters, std::string("pipeline.schedule=") + schedule,
                                               "sync.method=diloco", "sync.interval=10", "sync.warmup_steps=0"});
      EXPECT_EQ(outcome.summary.steps, 20);
      EXPECT_NEAR(*outcome.summary.measured_step_seconds, predicted.step_seconds, 0.15 * predicted.step_seconds)
          << schedule << ", " << clusters;
    }
  }
}

// Those who wait for the slowest have sent what they can long before: when it comes, it has a lot to pass on at once.
TEST_F(SimulationTest, UnequalPeersTakeAsLongAsWasPredicted) {
  constexpr const char* kUnequal =
      "[[peer]]\nname = 'slow'\nspeed = 0.3\nuplink = '10mbit'\nlatency = '5ms'\n"
      "[[peer]]\nname = 'p'\ncount = 3\nuplink = '10mbit'\nlatency = '5ms'\n";
  const std::vector<std::vector<std::string>> swarms = {{"swarm.clusters=4"},
                                                        {"swarm.clusters=2", "pipeline.schedule=1f1b"},
                                                        {"swarm.clusters=2", "pipeline.schedule=gpipe"}};
  for (std::vector<std::string> settings : swarms) {
    settings.emplace_back("sync.method=allreduce");
    settings.emplace_back("model.width=128");
    const Outcome outcome = simulate(kUnequal, settings);
    EXPECT_NEAR(*outcome.summary.measured_step_seconds, predicted.step_seconds, 0.05 * predicted.step_seconds)
        << ::testing::PrintToString(settings);
  }
}

// The last stage of the fast cluster has done its part long before the others, and waits for them, while the values of
// tied parameters are still on their way to it.
TEST_F(SimulationTest, TiedParametersMayComeLate) {
  const Outcome outcome = simulate(
      "[[peer]]\nname = 'a'\ncount = 3\nspeed = 8\nuplink = '4mbit'\n"
      "[[peer]]\nname = 'b'\ncount = 3\nspeed = 0.5\nuplink = '4mbit'\n",
      {"swarm.clusters=2", "pipeline.schedule=async", "sync.method=diloco", "sync.interval=20", "sync.warmup_steps=0",
       "train.steps=20"});
  EXPECT_EQ(outcome.summary.steps, 20);
}

TEST_F(SimulationTest, ALossThatIsReachedEndsTheRun) {
  const Outcome outcome = simulate(kFour, {"swarm.clusters=2", "simulate.compute=real", "train.eval_every=5",
                                           "train.eval_batches=1", "simulate.until_loss=100"});
  EXPECT_EQ(outcome.summary.steps, 5);
  EXPECT_LT(*outcome.summary.eval_loss, 100);
}

TEST_F(SimulationTest, TheSameSeedGivesTheSameRunToTheByte) {
  const std::vector<std::string> settings = {"swarm.clusters=2", "pipeline.schedule=async", "sync.method=palsgd",
                                             "sync.interval=5",  "sync.warmup_steps=5",     "peer.0.jitter=0.3"};
  const Outcome one = simulate(kFour, settings, "one"), two = simulate(kFour, settings, "two");
  EXPECT_EQ(one.trace, two.trace);
  EXPECT_EQ(one.events, two.events);
  EXPECT_EQ(text_of("one/metrics.jsonl"), text_of("two/metrics.jsonl"));
  EXPECT_EQ(text_of("one/events.jsonl"), text_of("two/events.jsonl"));
  EXPECT_EQ(text_of("one/summary.json"), text_of("two/summary.json"));
  EXPECT_EQ(lines("one").size(), 20u);
  std::vector<std::string> other = settings;
  other.emplace_back("train.seed=2");
  EXPECT_NE(simulate(kFour, other, "three").trace, one.trace);
}

// What links and computers are like changes when things happen, and not what comes out of a synchronous run.
TEST_F(SimulationTest, RealArithmeticLearnsTheSameWhateverTheLinks) {
  const std::vector<std::string> settings = {"simulate.compute=real",  "swarm.clusters=2",    "sync.method=allreduce",
                                             "pipeline.schedule=1f1b", "train.eval_every=10", "train.lr=0.003"};
  std::vector<std::string> fast = settings;
  fast.insert(fast.end(), {"peer.0.uplink=10gbit", "peer.0.downlink=10gbit", "peer.0.latency=1us"});
  const Outcome slow = simulate(kFour, settings, "slow"), quick = simulate(kFour, fast, "quick");
  EXPECT_LT(slow.summary.final_loss, 0.9 * lines("slow").front().at("loss").get<double>());
  ASSERT_TRUE(slow.summary.eval_loss);
  EXPECT_EQ(slow.summary.eval_loss, quick.summary.eval_loss);
  EXPECT_EQ(slow.summary.final_loss, quick.summary.final_loss);
  EXPECT_GT(slow.virtual_seconds, 1.2 * quick.virtual_seconds);
}

// One copy whose training diverges ends the simulation for all, and says why.
TEST_F(SimulationTest, APeerThatCannotGoOnEndsIt) {
  for (const char* clusters : {"swarm.clusters=4", "swarm.clusters=2"}) {
    try {
      simulate(kFour, {"simulate.compute=real", clusters, "sync.method=local-sgd", "sync.interval=50",
                       "train.optimizer=sgd", "train.clip=0", "train.lr=1e30", "pipeline.schedule=async"});
      ADD_FAILURE() << "went on";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("no longer a number"));
    }
  }
}

TEST_F(SimulationTest, WhenTheTimeIsOverAllEndAfterTheSameStep) {
  const Outcome outcome = simulate(kFour, {"swarm.clusters=2", "pipeline.schedule=async", "sync.method=diloco",
                                           "sync.interval=10", "simulate.time=2500ms", "peer.0.jitter=0.5"});
  EXPECT_GT(outcome.summary.steps, 3);
  EXPECT_LT(outcome.summary.steps, 20);
  EXPECT_EQ(outcome.summary.samples, outcome.summary.steps * 8 * 2);
}

// However long a step takes: they are in the middle of one.
TEST_F(SimulationTest, LongStepsAreSeenThrough) {
  const Outcome outcome = simulate(kFour, {"swarm.clusters=2", "pipeline.schedule=1f1b", "sync.method=allreduce",
                                           "simulate.step_time=24h", "simulate.heartbeat=10min", "simulate.time=1h"});
  EXPECT_EQ(outcome.summary.steps, 1);
  EXPECT_GT(outcome.virtual_seconds, 6 * 3600);
}

// Small messages that stand for large ones take as long.
TEST_F(SimulationTest, ScaledTensorsTakeAsLongAsRealOnes) {
  const std::vector<std::string> settings = {"swarm.clusters=2", "pipeline.schedule=1f1b", "sync.method=allreduce",
                                             "model.width=256", "model.heads=4"};
  std::vector<std::string> scaled = settings;
  scaled.emplace_back("simulate.scale=10");
  const Outcome whole = simulate(kFour, settings, "whole"), small = simulate(kFour, scaled, "small");
  EXPECT_NEAR(whole.virtual_seconds, small.virtual_seconds, 0.1 * whole.virtual_seconds);
  EXPECT_LT(small.events, whole.events);
}

TEST_F(SimulationTest, ManyClustersAverageInAGrid) {
  const Outcome outcome = simulate("[[peer]]\ncount = 40\nnetwork = 'home-broadband'\n",
                                   {"swarm.clusters=20", "pipeline.schedule=async", "sync.method=diloco",
                                    "sync.interval=5", "sync.warmup_steps=0", "sync.group=4", "simulate.scale=10"});
  EXPECT_EQ(outcome.summary.steps, 20);
  EXPECT_EQ(outcome.summary.rounds, 4);
}

TEST_F(SimulationTest, WhatCannotBeIsSaidInASentence) {
  const auto refusal = [&](const std::string& peers, const std::vector<std::string>& changes) {
    try {
      simulate(peers, changes);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("", {}), HasSubstr("there is no peer"));
  EXPECT_THAT(refusal(kFour, {"simulate.until_loss=1"}), HasSubstr("simulate.compute"));
  EXPECT_THAT(refusal(kFour, {"sync.average_moments=true", "sync.codec=bf16"}), HasSubstr("average_moments"));
  EXPECT_THAT(refusal("[[peer]]\ncount = 2\nmemory = '1kB'\n", {}), HasSubstr("does not fit"));
  EXPECT_THAT(refusal("[[peer]]\nname = 'a'\n[[peer]]\nname = 'b'\n[[link]]\nfrom = 'a'\nto = 'b'\n"
                      "bandwidth = '0bit'\n",
                      {}),
              HasSubstr("from a to b"));
  EXPECT_THAT(refusal(kFour, {"simulate.scale=0.5"}), HasSubstr("simulate.scale"));
  EXPECT_THAT(refusal(kFour, {"simulate.compute=imagined"}), HasSubstr("simulate.compute"));
  EXPECT_THAT(refusal(kFour, {"peer.0.speed=-1"}), HasSubstr("speed"));
  EXPECT_THAT(refusal(kFour, {"network.bandwidth=1mbit"}), HasSubstr("network"));
  EXPECT_THAT(refusal(kFour, {"simulate.heartbeat=0s"}), HasSubstr("simulate.heartbeat"));
  EXPECT_THAT(refusal(kFour, {"simulate.compute=real", "simulate.scale=10"}), HasSubstr("simulate.scale"));
  EXPECT_THAT(refusal(kFour, {"sync.method=diloco", "sync.interval=4", "sync.delay=4"}), HasSubstr("sync.delay"));
  EXPECT_THAT(refusal(kFour, {"peer.7.speed=1"}), HasSubstr("number 7"));
  EXPECT_THAT(refusal("[[peer]]\nname = 'a'\n[[peer]]\nname = 'a'\n", {}), HasSubstr("two peers"));
  EXPECT_THAT(refusal("[[peer]]\nname = '../a'\n", {}), HasSubstr("no name for a peer"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

constexpr const char* kTwelve = "[[peer]]\nname = 'p'\ncount = 12\nuplink = '10mbit'\nlatency = '5ms'\njitter = 0.1\n";
const std::vector<std::string> kChurn = {"train.steps=80", "simulate.stay=20s", "simulate.absence=500ms",
                                         "sync.interval=5", "sync.warmup_steps=0"};

// Whoever is left goes on, and whoever is new takes part; the same every time.
TEST_F(SimulationTest, PeersMayComeAndGo) {
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> first;
  for (const char* method : {"diloco", "local-sgd", "palsgd", "gossip"}) {
    for (const char* clusters : {"12", "4", "[1, 2, 4, 5]"}) {
      for (const char* schedule : {"async", "1f1b"}) {
        std::vector<std::string> settings = kChurn;
        settings.insert(
            settings.end(),
            {std::string("swarm.clusters=") + clusters, std::string("sync.method=") + method, "sync.group=4",
             std::string("pipeline.schedule=") + schedule, fmt::format("train.seed={}", ++seed)});
        const Outcome outcome = simulate(kTwelve, settings);
        EXPECT_EQ(outcome.summary.steps, 80) << method << ", " << clusters << ", " << schedule;
        EXPECT_GT(outcome.lost, 0u);
        EXPECT_GT(*outcome.summary.rounds, 0);
        if (!first) {
          first = outcome.trace;
          EXPECT_EQ(simulate(kTwelve, settings).trace, *first);
        }
      }
    }
  }
  EXPECT_THAT(text_of("run/events.jsonl"), HasSubstr("lost"));
  EXPECT_THAT(text_of("run/events.jsonl"), HasSubstr(".2\""));
}

// Those who were lost have computed, too: a place is idle only while nobody has it, or its cluster is not whole.
TEST_F(SimulationTest, UtilisationIsOfPlacesNotOfThoseWhoHadThem) {
  std::vector<std::string> settings = kChurn;
  settings.insert(settings.end(), {"swarm.clusters=12", "sync.method=local-sgd", "simulate.stay=3s"});
  const Outcome outcome = simulate(kTwelve, settings);
  ASSERT_GT(outcome.lost, 10u);
  double computed = 0;  // by each of those who were there
  std::istringstream lines(text_of("run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) computed += json::parse(line).at("compute_seconds").get<double>();
  const double at_most = computed / outcome.virtual_seconds;
  EXPECT_LE(outcome.utilisation, at_most * 1.001);
  EXPECT_GT(outcome.utilisation, at_most * 0.8) << outcome.lost;
}

// Whoever has come, but not begun, when the time is over is no part of the run.
TEST_F(SimulationTest, TheEndMayComeAtAnyTime) {
  std::vector<std::string> settings = kChurn;
  settings.insert(settings.end(),
                  {"swarm.clusters=4", "sync.method=local-sgd", "simulate.stay=5s", "train.steps=1000"});
  for (int i = 1; i <= 20; ++i) {
    settings.push_back(fmt::format("simulate.time={}ms", 300 * i));
    const Outcome outcome = simulate(kTwelve, settings);
    EXPECT_GT(outcome.summary.steps, 0);
    EXPECT_GE(outcome.summary.peers.size(), 12u);
  }
}

// Nobody comes in the place of those who are lost: the others go on, whatever keeps their copies one, and have the same
// to the last bit in the end.
TEST_F(SimulationTest, ThoseWhoAreLeftGoOn) {
  std::uint64_t seed = 0, lost = 0, agreed = 0;
  for (const char* method : {"allreduce", "diloco", "gossip", "local-sgd", "palsgd"}) {
    for (const char* clusters : {"6", "[1, 2, 3]", "[2, 2, 1, 1]"}) {
      for (const char* schedule : {"1f1b", "async"}) {
        const Outcome outcome =
            simulate(kSix, {"simulate.compute=real", "simulate.stay=12s", "simulate.absence=0s", "train.steps=40",
                            "train.eval_every=20", "train.eval_batches=1", "simulate.step_time=100ms",
                            "sync.interval=5", "sync.warmup_steps=5", std::string("swarm.clusters=") + clusters,
                            std::string("sync.method=") + method, std::string("pipeline.schedule=") + schedule,
                            fmt::format("train.seed={}", ++seed)});
        EXPECT_EQ(outcome.summary.steps, 40) << method << ", " << clusters << ", " << schedule;
        EXPECT_TRUE(outcome.summary.identical_copies.value_or(true)) << method << ", " << clusters << ", " << schedule;
        agreed += outcome.summary.identical_copies.has_value() ? 1 : 0;
        EXPECT_TRUE(outcome.summary.eval_loss);
        lost += outcome.lost;
      }
    }
  }
  EXPECT_GT(lost, 24u);
  EXPECT_GT(agreed, 8u);  // elsewhere only one is left
}

// Whatever is drawn: which method, clusters and schedule, who is lost and when, and whether others come. All steps are
// done, copies are one to the last bit, and every sample was used once or is said to be left out.
TEST_F(SimulationTest, WhateverIsLostCopiesStayOneAndSamplesAreAccountedFor) {
  std::uint64_t lost = 0, agreed = 0;
  const Seeds seeds = seeds_of(24);
  for (std::uint64_t seed = seeds.first; seed < seeds.last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random({seed, word_of("samples")});
    const auto one_of = [&](const std::vector<std::string>& all) { return all[random.below(all.size())]; };
    const bool come = random.below(2) == 0;
    const std::string method = come ? one_of({"diloco", "gossip", "local-sgd", "palsgd"})
                                    : one_of({"allreduce", "diloco", "gossip", "local-sgd", "palsgd"});
    const std::string clusters = one_of({"6", "[1, 2, 3]", "[2, 2, 1, 1]", "[3, 3]", "2", "3"});
    std::vector<std::string> settings = {"simulate.compute=real",
                                         "train.steps=30",
                                         "train.eval_batches=0",
                                         "simulate.step_time=100ms",
                                         "sync.interval=4",
                                         "sync.warmup_steps=" + std::string(come ? "0" : one_of({"0", "5"})),
                                         "swarm.clusters=" + clusters,
                                         "sync.method=" + method,
                                         "sync.group=" + one_of({"2", "16"}),
                                         "pipeline.schedule=" + one_of({"1f1b", "gpipe", "async"}),
                                         fmt::format("train.seed={}", seed + 1)};
    if (come && random.below(2) == 0) {
      settings.push_back(fmt::format("simulate.chaos=kill 0.{}/s, freeze 0.{}/s, cut 0.{}/s, rejoin {}ms, thaw {}ms",
                                     random.below(6), 1 + random.below(9), random.below(6), 200 + random.below(2000),
                                     100 + random.below(3000)));
    } else {
      settings.push_back(fmt::format("simulate.stay={}s", 3 + random.below(9)));
      settings.push_back(fmt::format("simulate.absence={}ms", come ? 200 + random.below(2000) : 0));
    }
    const Outcome outcome = simulate(kSix, settings);
    EXPECT_EQ(outcome.summary.steps, 30);
    EXPECT_TRUE(outcome.summary.identical_copies.value_or(true)) << method << ", " << clusters;
    agreed += outcome.summary.identical_copies.has_value() ? 1 : 0;
    lost += outcome.lost;
    if (method == "palsgd") continue;  // which uses no samples in some of its steps
    const auto copies = std::set<std::int64_t>{6, 3, 4, 2};
    const std::int64_t all = outcome.summary.samples + outcome.summary.samples_left_out.value_or(0);
    EXPECT_EQ(all % (30 * 8), 0);
    EXPECT_TRUE(copies.contains(all / (30 * 8))) << all;
  }
  if (seeds.last - seeds.first < 24) return;
  EXPECT_GT(lost, 25u);
  EXPECT_GT(agreed, 2u);  // elsewhere only one is left
}

// With real arithmetic: peers that are lost cost what their copies had learnt since the last round, not the model.
TEST_F(SimulationTest, TheModelSurvivesItsPeers) {
  std::vector<std::string> settings = kChurn;
  settings.insert(settings.end(), {"simulate.compute=real", "swarm.clusters=4", "sync.method=local-sgd",
                                   "train.lr=4e-3", "train.eval_every=40", "pipeline.schedule=async"});
  const double disturbed = *simulate(kTwelve, settings).summary.eval_loss;
  settings.emplace_back("simulate.stay=0s");
  const double undisturbed = *simulate(kTwelve, settings, "calm").summary.eval_loss;
  EXPECT_NEAR(disturbed, undisturbed, 0.15 * undisturbed);
  EXPECT_LT(undisturbed, lines("calm").front().at("loss").get<double>());
}

// What --chaos does to processes, in the virtual world: the same every time.
TEST_F(SimulationTest, ChaosStrikesAsItDoesProcesses) {
  std::vector<std::string> settings = {"train.steps=80",
                                       "sync.interval=5",
                                       "sync.warmup_steps=0",
                                       "sync.method=diloco",
                                       "swarm.clusters=[2, 2, 4, 4]",
                                       "simulate.step_time=1s",
                                       "pipeline.schedule=async"};
  const Outcome calm = simulate(kTwelve, settings);
  settings.emplace_back("simulate.chaos=freeze 0.2/s, thaw 1s");  // which nobody notices
  const Outcome slow = simulate(kTwelve, settings);
  EXPECT_EQ(slow.lost, 0u);
  EXPECT_GT(slow.virtual_seconds, calm.virtual_seconds);
  settings.back() = "simulate.chaos=kill 0.03/s, freeze 0.03/s, cut 0.03/s, rejoin 2s, thaw 4s";
  const Outcome hit = simulate(kTwelve, settings);
  EXPECT_GT(hit.lost, 3u);
  EXPECT_EQ(hit.summary.steps, 80);
  EXPECT_EQ(simulate(kTwelve, settings).trace, hit.trace);
}

TEST_F(SimulationTest, NotEverySwarmCanChange) {
  const auto refuses = [&](std::vector<std::string> settings, const char* why) {
    settings.emplace_back("simulate.stay=1min");
    try {
      simulate(kFour, settings);
      ADD_FAILURE() << why;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  refuses({"sync.method=allreduce", "swarm.clusters=4"}, "local-sgd");
  refuses({"sync.method=diloco", "sync.warmup_steps=0", "swarm.clusters=4", "sync.codec=int8"}, "sync.codec");
  refuses({"sync.method=gossip", "swarm.clusters=4", "sync.codec=bf16"}, "sync.codec");
  refuses({"sync.method=diloco", "sync.warmup_steps=0", "swarm.clusters=1"}, "two clusters");
}

}  // namespace
}  // namespace rookery::simulate
