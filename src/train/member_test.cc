#include "train/member.h"

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/seeds.h"
#include "collective/testing/virtual_mesh.h"
#include "train/tensor_compute.h"
#include "train/wiring.h"

namespace rookery::train {
namespace {

using namespace std::chrono_literals;
using collective::testing::VirtualMesh;
using data::Split;

config::Settings small_settings(const std::vector<std::string>& changes) {
  std::vector<std::string> overrides = {"model.layers=2",       "model.width=32", "model.heads=2",
                                        "model.context=32",     "train.batch=4",  "train.steps=50",
                                        "train.eval_batches=4", "train.lr=0.003", "train.clip=1"};
  overrides.insert(overrides.end(), changes.begin(), changes.end());
  return config::load({}, overrides);
}

// A swarm whose peers train on the real data with the real model, in the virtual world: clusters, each with a cut of
// its own.
class Swarm {
 public:
  // `more`: micro-batches on their way, beyond those that the schedule needs at least.
  Swarm(const std::vector<plan::Cut>& cuts, const config::Settings& settings, std::size_t more = 0)
      : clusters_(cuts.size()), mesh_(count(cuts), {.latency = 1ms}) {
    plan_.generation = 1;
    plan_.border_bytes = 16 << 20;
    for (std::size_t c = 0; c < cuts.size(); ++c) {
      for (std::size_t stage = 0; stage < cuts[c].size(); ++stage) {
        const plan::Layers layers = cuts[c][stage];
        wire::PlannedPeer peer{.cluster = static_cast<std::uint32_t>(c)};
        peer.contact.name = "p" + std::to_string(plan_.peers.size());
        peer.stage = static_cast<std::uint32_t>(stage);
        peer.begin = static_cast<std::uint32_t>(layers.begin);
        peer.end = static_cast<std::uint32_t>(layers.end);
        const std::size_t after = cuts[c].size() - stage;
        peer.in_flight = static_cast<std::uint32_t>(after + (after > 1 ? more : 0));
        plan_.peers.push_back(peer);
        trainees_.emplace_back(make_blueprint(settings), layers, plan::parse_versions(settings.pipeline.weights));
        trainees_.back().stage().initialize(static_cast<std::uint64_t>(settings.train.seed));
      }
    }
  }

  // Peers that hold a whole model each.
  Swarm(std::size_t peers, const config::Settings& settings)
      : Swarm(std::vector<plan::Cut>(peers, {{0, make_blueprint(settings).model->size()}}), settings) {}

  // Takes up where another swarm has stopped, with the state of its first peer.
  void resume(Swarm& other, std::int64_t steps_done, std::int64_t samples_done) {
    steps_done_ = steps_done;
    samples_done_ = samples_done;
    const auto copy = [](const at::Tensor& from, const at::Tensor& to) {
      std::ranges::copy(floats(from), floats(to).begin());
    };
    Stage& from = other.trainees_[0].stage();
    for (Trainee& trainee : trainees_) {
      Stage& to = trainee.stage();
      copy(from.store().values(), to.store().values());
      for (std::size_t i = 0; i < from.optimizer().state().size(); ++i) {
        copy(from.optimizer().state()[i].values, to.optimizer().state()[i].values);
      }
      to.optimizer().set_steps(from.optimizer().steps());
    }
  }

  void train() {
    const auto outcomes = mesh_.run([&](std::size_t rank) { return train(rank); }, Time(240h));
    for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
  }

  std::span<const float> parameters(std::size_t rank) { return floats(trainees_[rank].stage().store().values()); }

  // Of all stages of a cluster, one after another.
  std::vector<float> model(std::size_t cluster) {
    std::vector<float> all;
    for (std::size_t rank = 0; rank < trainees_.size(); ++rank) {
      if (plan_.peers[rank].cluster != cluster) continue;
      all.insert(all.end(), parameters(rank).begin(), parameters(rank).end());
    }
    return all;
  }

  double loss(std::int64_t step) const { return losses_.at(step); }

  std::vector<Evaluation> evaluations;
  std::size_t pulls = 0;
  std::uint64_t rounds_done = 0;
  std::uint64_t staleness = 0;  // the most of all stages

 private:
  static std::size_t count(const std::vector<plan::Cut>& cuts) {
    std::size_t peers = 0;
    for (const plan::Cut& cut : cuts) peers += cut.size();
    return peers;
  }

  Task<> train(std::size_t rank) {
    Trainee& trainee = trainees_[rank];
    Clock& clock = mesh_.world().clock();
    TensorCompute compute(trainee);
    const Clusters clusters(plan_, compute.layers());
    Wiring wiring(
        clock, clock.executor(), plan_, clusters, rank, [&](std::size_t other) { return mesh_.links(rank)[other]; },
        compute);
    Member member(clock, compute, wiring.stage(), wiring.schedule(), wiring.connections());
    if (steps_done_ > 0) member.resume(steps_done_, samples_done_);
    const bool has_loss = wiring.stage().is_last();
    auto running = member.run(
        trainee.settings().train.steps, [](std::uint64_t) { return pipeline::Admission::kNow; },
        [&](const wire::StepReport& report) {
          if (!has_loss) return;
          losses_[static_cast<std::int64_t>(report.step)] += report.loss / static_cast<double>(clusters_);
          pulls += report.pulled ? 1 : 0;
        });
    co_await std::move(running);
    EXPECT_EQ(member.steps_done(), trainee.settings().train.steps);
    if (!member.record().staleness.empty()) {
      const std::uint64_t most = member.record().staleness.rbegin()->first;
      EXPECT_LE(most, plan::staleness_bound(wiring.schedule(), wiring.stage()));
      staleness = std::max(staleness, most);
    }
    // If one is told to stop, nobody has a result.
    const std::atomic<bool> stop = rank == 1;
    auto stopping = member.evaluate(Split::kEval, trainee.evaluated_samples(), &stop);
    const std::optional<Evaluation> stopped = co_await std::move(stopping);
    EXPECT_EQ(stopped.has_value(), trainees_.size() == 1);
    auto evaluating = member.evaluate(Split::kEval, trainee.evaluated_samples());
    const std::optional<Evaluation> evaluation = co_await std::move(evaluating);
    evaluations.push_back(*evaluation);
    auto settled = member.settle();
    co_await std::move(settled);
    auto agreed = member.agree();
    co_await std::move(agreed);
    rounds_done = member.method().rounds();
    auto staying = clock.sleep_for(60s);
    co_await std::move(staying);
  }

  std::size_t clusters_;
  VirtualMesh mesh_;
  wire::Plan plan_;
  std::deque<Trainee> trainees_;
  std::map<std::int64_t, double> losses_;
  std::int64_t steps_done_ = 0, samples_done_ = 0;
};

// K peers with batch b follow the trajectory of one with batch K·b: the loss within 1e-4 over 50 steps, on the same
// data.
TEST(MemberTest, AllReduceWithFourEqualsOneWithTheFourfoldBatch) {
  Swarm four(4, small_settings({"sync.method=allreduce"}));
  Swarm one(1, small_settings({"sync.method=allreduce", "train.batch=16", "train.eval_batches=1"}));
  four.train();
  one.train();
  for (std::int64_t step = 1; step <= 50; ++step) {
    EXPECT_NEAR(four.loss(step), one.loss(step), 1e-4 * one.loss(step)) << "step " << step;
  }
  EXPECT_NEAR(four.evaluations[2].report.loss, one.evaluations[0].report.loss, 1e-4);
  EXPECT_EQ(four.evaluations[0].report.loss_terms, one.evaluations[0].report.loss_terms);
  EXPECT_LT(four.evaluations[0].consensus_distance, 1e-5);
}

// A swarm of another size goes on with the samples that come next: four with batch 4, and then two with batch 8, are
// still one with batch 16.
TEST(MemberTest, AnotherNumberOfPeersGoesOnWithTheNextSamples) {
  const std::vector<std::string> common = {"sync.method=allreduce", "train.steps=20", "train.schedule=constant"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    return small_settings(all);
  };
  Swarm four(4, with({"train.steps=10"})), two(2, with({"train.batch=8"})), one(1, with({"train.batch=16"}));
  four.train();
  two.resume(four, 10, 10 * 16);
  two.train();
  one.train();
  for (std::int64_t step = 11; step <= 20; ++step) {
    EXPECT_NEAR(two.loss(step), one.loss(step), 1e-4 * one.loss(step)) << "step " << step;
  }
}

// Where batches have unequal numbers of loss terms, each term counts the same, whichever peer has it.
TEST(MemberTest, AllReduceWeighsLossTermsAlike) {
  for (const char* kind : {"model.kind=bert", "model.kind=seq2seq"}) {
    std::vector<std::string> settings = {kind, "sync.method=allreduce", "train.steps=10", "train.batch=2"};
    if (std::string_view(kind).ends_with("seq2seq")) settings.push_back("data.source=translation");
    Swarm four(4, small_settings(settings));
    settings.push_back("train.batch=8");
    Swarm one(1, small_settings(settings));
    four.train();
    one.train();
    double largest = 0;
    for (std::size_t i = 0; i < one.parameters(0).size(); ++i) {
      largest = std::max<double>(largest, std::abs(one.parameters(0)[i] - four.parameters(0)[i]));
    }
    EXPECT_LT(largest, 1e-4) << kind;
  }
}

TEST(MemberTest, EveryMethodLearnsAndAgrees) {
  const std::vector<std::vector<std::string>> methods = {
      {"sync.method=allreduce"},
      {"sync.method=gossip"},
      {"sync.method=gossip", "sync.mode=atc", "sync.topology=ring"},
      {"sync.method=local-sgd", "sync.interval=5"},
      {"sync.method=diloco", "sync.interval=10", "sync.warmup_steps=10"},
      {"sync.method=palsgd", "sync.interval=10", "sync.warmup_steps=10"},
      {"sync.method=palsgd", "sync.interval=8", "sync.warmup_steps=10", "sync.fragments=2", "sync.delay=2",
       "sync.merge=0.5", "sync.codec=int8"},
      {"sync.method=none"}};
  for (const auto& method : methods) {
    Swarm swarm(4, small_settings(method));
    swarm.train();
    const std::string name = method.front() + (method.size() > 1 ? " " + method[1] : "");
    EXPECT_LT(swarm.loss(50), 0.8 * swarm.loss(1)) << name;
    ASSERT_EQ(swarm.evaluations.size(), 4u);
    for (const Evaluation& evaluation : swarm.evaluations) {
      EXPECT_EQ(evaluation.report.loss, swarm.evaluations[0].report.loss) << name;
      EXPECT_EQ(evaluation.consensus_distance, swarm.evaluations[0].consensus_distance) << name;
    }
    EXPECT_TRUE(std::ranges::equal(swarm.parameters(0), swarm.parameters(3))) << name;
    EXPECT_EQ(swarm.pulls > 0, method.front() == "sync.method=palsgd") << name;
    EXPECT_EQ(swarm.rounds_done > 0, method.front() != "sync.method=none") << name;
  }
}

// As even as it can be.
plan::Cut cut_into(std::size_t stages, std::size_t layers) {
  plan::Cut cut;
  for (std::size_t i = 0; i < stages; ++i) cut.push_back({layers * i / stages, layers * (i + 1) / stages});
  return cut;
}

// Synchronous schedules are exact: the loss curve of one process to 1e-4, however the model is cut.
void expect_the_loss_curve_of_one_process(std::vector<std::string> settings, std::int64_t steps) {
  for (const char* common : {"train.micro_batches=4", "pipeline.schedule=1f1b"}) {
    settings.emplace_back(common);
  }
  settings.push_back(fmt::format("train.steps={}", steps));
  Swarm one(1, small_settings(settings));
  one.train();
  const std::size_t layers = make_blueprint(small_settings(settings)).model->size();
  for (const std::size_t stages : {2, 3, 4, 6}) {
    for (const char* schedule : {"1f1b", "gpipe"}) {
      settings.push_back(std::string("pipeline.schedule=") + schedule);
      Swarm swarm({cut_into(stages, layers)}, small_settings(settings));
      swarm.train();
      for (std::int64_t step = 1; step <= steps; ++step) {
        ASSERT_NEAR(swarm.loss(step), one.loss(step), 1e-4 * one.loss(step))
            << settings[0] << " " << stages << " stages, " << schedule << ", step " << step;
      }
      const double expected = one.evaluations[0].report.loss;
      EXPECT_NEAR(swarm.evaluations[0].report.loss, expected, 1e-4 * expected);
      EXPECT_EQ(swarm.staleness, 0u);
    }
  }
}

TEST(PipelineTest, AGptIsTheSameHoweverItIsCut) {
  expect_the_loss_curve_of_one_process({"model.layers=4", "model.dropout=0.1", "train.batch=8"}, 50);
}

TEST(PipelineTest, ASeq2seqIsTheSameHoweverItIsCut) {
  expect_the_loss_curve_of_one_process(
      {"model.kind=seq2seq", "data.source=translation", "model.layers=2", "train.batch=8"}, 50);
}

// Images of stripes, one kind for each class, in MNIST's files.
void write_stripes(const std::filesystem::path& folder) {
  constexpr std::uint8_t kSize = 8, kClasses = 4;
  std::filesystem::create_directories(folder);
  for (const auto& [split, count] : {std::pair("train", 200), std::pair("t10k", 40)}) {
    std::ofstream images(folder / fmt::format("{}-images-idx3-ubyte", split), std::ios::binary);
    std::ofstream labels(folder / fmt::format("{}-labels-idx1-ubyte", split), std::ios::binary);
    const auto n = static_cast<char>(count);
    images.write(std::array<char, 16>{0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, kSize, 0, 0, 0, kSize}.data(), 16);
    labels.write(std::array<char, 8>{0, 0, 8, 1, 0, 0, 0, n}.data(), 8);
    for (int i = 0; i < count; ++i) {
      const int label = i * 7 % kClasses;
      labels.put(static_cast<char>(label));
      for (int pixel = 0; pixel < kSize * kSize; ++pixel) {
        const int along = label < 2 ? pixel / kSize : pixel % kSize;
        images.put(static_cast<char>((along >> (label % 2)) % 2 == 0 ? 200 - i % 50 : i % 40));
      }
    }
  }
}

// Batch norm is over a micro-batch, in one process as in several.
TEST(PipelineTest, AResnetIsTheSameHoweverItIsCut) {
  constexpr auto kSteps = static_cast<std::int64_t>(repetitions(20));
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "stripes";
  write_stripes(folder);
  expect_the_loss_curve_of_one_process({"model.kind=resnet18", "data.source=" + folder.string(), "train.optimizer=sgd",
                                        "train.momentum=0.9", "train.lr=0.0002", "train.batch=16"},
                                       kSteps);
  std::filesystem::remove_all(folder);
}

TEST(PipelineTest, UpdatesHaveToDivideAStep) {
  const auto check = [](const std::vector<std::string>& changes) { schedule_of(small_settings(changes), true, 0); };
  EXPECT_THROW(check({"train.micro_batches=4", "pipeline.update_frequency=3"}), InputError);
  EXPECT_NO_THROW(check({"train.micro_batches=4", "pipeline.update_frequency=2"}));
  EXPECT_NO_THROW(check({"train.micro_batches=4", "pipeline.update_frequency=3", "pipeline.schedule=1f1b"}));
}

TEST(PipelineTest, AsyncWithOneStageIsPlainTraining) {
  const std::vector<std::string> settings = {"train.steps=20", "train.micro_batches=2"};
  Swarm one(1, small_settings(settings));
  std::vector<std::string> async = settings;
  async.emplace_back("pipeline.schedule=async");
  async.emplace_back("pipeline.update_frequency=2");
  Swarm other(1, small_settings(async));
  one.train();
  other.train();
  EXPECT_TRUE(std::ranges::equal(one.parameters(0), other.parameters(0)));
}

TEST(PipelineTest, AsyncLearnsWithAllKindsOfVersions) {
  for (const char* weights : {"stash", "latest", "recompute"}) {
    Swarm swarm({cut_into(3, 4)}, small_settings({"pipeline.schedule=async", "train.micro_batches=4",
                                                  std::string("pipeline.weights=") + weights}));
    swarm.train();
    EXPECT_LT(swarm.loss(50), 0.8 * swarm.loss(1)) << weights;
    EXPECT_GT(swarm.staleness, 0u);
  }
}

// Early stages may be far behind the last one, with pulls in between, and share parameters with it all the same.
TEST(PipelineTest, TiedParametersReachStagesThatAreFarAhead) {
  Swarm swarm({cut_into(3, 4), cut_into(2, 4)},
              small_settings({"pipeline.schedule=async", "train.micro_batches=4", "sync.method=palsgd",
                              "sync.interval=3", "sync.warmup_steps=2", "sync.pull_probability=0.5"}),
              12);
  swarm.train();
  EXPECT_GT(swarm.staleness, 4u);
  EXPECT_EQ(swarm.model(0), swarm.model(1));
}

// Segments of clusters that are cut differently have different holders, and all count the loss terms alike.
TEST(PipelineTest, LossTermsAreCountedHoweverClustersAreCut) {
  std::vector<std::string> settings = {"model.kind=seq2seq",    "data.source=translation", "sync.method=allreduce",
                                       "train.steps=10",        "train.micro_batches=2",   "train.batch=4",
                                       "pipeline.schedule=1f1b"};
  const std::size_t layers = make_blueprint(small_settings(settings)).model->size();
  Swarm two({{{0, 2}, {2, layers}}, {{0, 1}, {1, layers}}}, small_settings(settings));
  settings.insert(settings.end(), {"train.batch=8", "train.micro_batches=4"});
  Swarm one(1, small_settings(settings));
  two.train();
  one.train();
  const std::vector<float> parts = two.model(0), whole = one.model(0);
  double largest = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) largest = std::max<double>(largest, std::abs(parts[i] - whole[i]));
  EXPECT_LT(largest, 1e-4);
}

// Clusters with different cuts stay one model, with every method on every schedule; and end with the same bits.
TEST(PipelineTest, EveryMethodWorksOnEverySchedule) {
  const std::vector<std::string> methods = {"allreduce", "gossip", "local-sgd", "diloco", "palsgd"};
  for (const char* schedule : {"async", "1f1b", "gpipe"}) {
    for (const std::string& method : methods) {
      Swarm swarm({cut_into(2, 4), cut_into(1, 4), cut_into(4, 4)},
                  small_settings({"train.steps=24", "train.micro_batches=2", "sync.interval=4", "sync.warmup_steps=4",
                                  std::string("pipeline.schedule=") + schedule, "sync.method=" + method}));
      swarm.train();
      const std::string name = method + " on " + schedule;
      EXPECT_LT(swarm.loss(24), 0.95 * swarm.loss(1)) << name;
      EXPECT_EQ(swarm.model(0), swarm.model(1)) << name;
      EXPECT_EQ(swarm.model(0), swarm.model(2)) << name;
      for (const Evaluation& evaluation : swarm.evaluations) {
        EXPECT_EQ(evaluation.report.loss, swarm.evaluations[0].report.loss) << name;
      }
    }
  }
}

// Two clusters of two stages with allreduce are one process with the twofold batch.
TEST(PipelineTest, AllReduceOverClustersIsOneProcessWithTheLargerBatch) {
  const std::vector<std::string> common = {"pipeline.schedule=1f1b", "train.micro_batches=2", "train.steps=30"};
  const auto with = [&](const char* more) {
    std::vector<std::string> all = common;
    all.emplace_back(more);
    return small_settings(all);
  };
  Swarm two({cut_into(2, 4), cut_into(3, 4)}, with("train.batch=4")), one(1, with("train.batch=8"));
  two.train();
  one.train();
  for (std::int64_t step = 1; step <= 30; ++step) {
    EXPECT_NEAR(two.loss(step), one.loss(step), 1e-4 * one.loss(step)) << "step " << step;
  }
}

TEST(MemberTest, WhatASwarmCannotHaveIsSaidInOneSentence) {
  const Place place{.cluster = 0, .weights = {1, 1, 1}, .layer_begins = {0, 10, 20}, .values = 30};
  const auto check = [&](const std::vector<std::string>& changes) {
    check_sync(small_settings(changes), place.layer_begins.size());
    check_method(small_settings(changes), place);
  };
  EXPECT_NO_THROW(check({"sync.method=gossip"}));
  EXPECT_THROW(check({"sync.method=gossip", "sync.topology=one-peer-exp"}), InputError);
  EXPECT_NO_THROW(check({"sync.method=gossip", "sync.topology=bandwidth-aware"}));
  EXPECT_THROW(check({"sync.method=diloco", "sync.fragments=4"}), InputError);
  EXPECT_THROW(check({"sync.method=palsgd", "sync.interval=5", "sync.delay=5"}), InputError);
  EXPECT_NO_THROW(check({"sync.method=diloco", "sync.robust=clip"}));
  EXPECT_NO_THROW(check({"sync.method=local-sgd", "sync.robust=trimmed-mean"}));
  EXPECT_THROW(check({"sync.method=local-sgd", "sync.robust=clip"}), InputError);
  EXPECT_THROW(check({"sync.method=gossip", "sync.robust=clip"}), InputError);
  EXPECT_THROW(check({"sync.method=allreduce", "sync.robust=clip", "sync.codec=bf16"}), InputError);
}

// Of a copy that trains alone until its next round.
TEST(MakeMethodTest, OthersKnowWhatACopyHasLearntUntilItsLastRounds) {
  config::Sync sync{.method = "local-sgd", .interval = 10};
  const auto known = [&](std::vector<std::int64_t> steps) {
    for (std::int64_t& step : steps) step = known_steps(sync, step);
    return steps;
  };
  EXPECT_THAT(known({0, 1, 9, 10, 11, 20, 29}), testing::ElementsAre(0, 0, 0, 10, 10, 20, 20));
  sync.method = "diloco";
  sync.warmup_steps = 5;  // of which all know
  EXPECT_THAT(known({0, 4, 5, 6, 14, 15, 16, 25}), testing::ElementsAre(0, 4, 5, 5, 5, 15, 15, 25));
  sync.warmup_steps = 0;
  sync.fragments = 2;  // after 5 and 10 of ten steps
  EXPECT_THAT(known({4, 5, 9, 10, 14, 15, 20}), testing::ElementsAre(0, 0, 0, 5, 5, 10, 15));
}

TEST(MakeMethodTest, FragmentsHaveEveryLayerOnce) {
  const Place place{.layer_begins = {0, 10, 10, 25, 40}, .values = 50};
  const auto fragments = interleaved_fragments(place, 2);
  EXPECT_EQ(fragments[0], (sync::Fragment{{0, 10}, {10, 25}, {40, 50}}));
  EXPECT_EQ(fragments[1], (sync::Fragment{{25, 40}}));
}

}  // namespace
}  // namespace rookery::train
