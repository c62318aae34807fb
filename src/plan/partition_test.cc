#include "plan/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace rookery::plan {
namespace {

using testing::HasSubstr;

constexpr ScheduleOptions kOneForwardOneBackward{.schedule = Schedule::k1f1b, .micro_batches = 4};

ModelProfile random_model(Random& random, std::size_t layers) {
  ModelProfile model(layers);
  for (LayerProfile& layer : model) {
    layer = {.parameters = random.below(1000),
             .forward = random.uniform(),
             .backward = 2 * random.uniform(),
             .activations = static_cast<Bytes>(random.below(4000)),
             .border = static_cast<Bytes>(1 + random.below(1000)),
             .gradients = static_cast<Bytes>(1 + random.below(1000))};
  }
  return model;
}

// All cuts of layers [begin, end) into so many stages.
void each_cut(std::size_t begin, std::size_t end, std::size_t stages, Cut so_far, std::vector<Cut>& all) {
  if (stages == 1) {
    so_far.push_back({begin, end});
    all.push_back(so_far);
    return;
  }
  for (std::size_t next = begin + 1; next + stages - 1 <= end; ++next) {
    Cut longer = so_far;
    longer.push_back({begin, next});
    each_cut(next, end, stages - 1, longer, all);
  }
}

std::string refusal(const ModelProfile& model, const std::vector<Worker>& workers, const Keeping& keeping) {
  try {
    partition(model, workers, kOneForwardOneBackward, keeping);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Partition, IsAsGoodAsTheBestOfAllCuts) {
  Random random({11});
  int refused = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::size_t layers = 1 + random.below(8), stages = 1 + random.below(std::min<std::size_t>(layers, 4));
    const ModelProfile model = random_model(random, layers);
    std::vector<Worker> workers(stages);
    for (Worker& worker : workers) {
      worker = {.speed = 0.2 + random.uniform(), .uplink = 200 + 2000 * random.uniform()};
      if (random.below(2) == 0) worker.memory = static_cast<Bytes>(10'000 + random.below(60'000));
    }
    const Keeping keeping{.versions = static_cast<Versions>(random.below(3))};
    std::vector<Cut> all;
    each_cut(0, layers, stages, {}, all);
    double best = std::numeric_limits<double>::infinity();
    for (const Cut& cut : all) {
      try {
        best = std::min(best, partition(model, workers, kOneForwardOneBackward, keeping, cut).slowest);
      } catch (const InputError&) {
        // Does not fit.
      }
    }
    if (best == std::numeric_limits<double>::infinity()) {
      EXPECT_THROW(partition(model, workers, kOneForwardOneBackward, keeping), InputError);
      ++refused;
    } else {
      EXPECT_NEAR(partition(model, workers, kOneForwardOneBackward, keeping).slowest, best, 1e-12);
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_LT(refused, 200);
}

TEST(Partition, GivesEqualLayersToEqualPeersAndMoreToFasterOnes) {
  const ModelProfile model(12, {.parameters = 10, .forward = 1, .backward = 2});
  const std::vector<Worker> equal(4), unequal = {{.speed = 1}, {.speed = 3}, {.speed = 2}};
  EXPECT_EQ(partition(model, equal, kOneForwardOneBackward, {}).cut, (Cut{{0, 3}, {3, 6}, {6, 9}, {9, 12}}));
  EXPECT_EQ(partition(model, unequal, kOneForwardOneBackward, {}).cut, (Cut{{0, 2}, {2, 8}, {8, 12}}));
}

TEST(Partition, CutsWhereLittleCrossesIfLinksAreSlow) {
  ModelProfile model(4, {.forward = 1, .backward = 1, .border = 100, .gradients = 100});
  model[2].border = model[2].gradients = 10;
  const std::vector<Worker> workers(2, {.uplink = 10});
  EXPECT_EQ(partition(model, workers, kOneForwardOneBackward, {}).cut, (Cut{{0, 3}, {3, 4}}));
}

TEST(Partition, KeepsMoreOnTheirWayWhereLinksAreSlowAndThereIsMemory) {
  const ModelProfile model(2, {.parameters = 1, .forward = 1, .backward = 2, .activations = 100});
  std::vector<Worker> workers(2, {.to_next = {.latency = 3}, .to_previous = {.latency = 3}});
  const ScheduleOptions async{.schedule = Schedule::kAsync};
  // Computing takes 3 s at each of two stages, and the way to the second and back 2·3 s: 12/3.
  EXPECT_EQ(partition(model, workers, async, {}).in_flight, (std::vector<std::size_t>{4, 1}));
  workers[0].memory = 3 * 100 + 4 * (2 + 2 + 2);
  EXPECT_EQ(partition(model, workers, async, {}).in_flight, (std::vector<std::size_t>{3, 1}));
}

// Four equal stages, and a border takes a quarter of a stage's time: a round trip takes 5.5 micro-batches from the
// first, 4 from the second and 2.5 from the third; but then nothing makes up for what is late.
TEST(Partition, RehearsesWhatTheRoundTripLeavesOpen) {
  const ModelProfile model(4, {.parameters = 1, .forward = 1, .backward = 2, .border = 75, .gradients = 75});
  const std::vector<Worker> workers(4, {.uplink = 100});
  const ScheduleOptions async{.schedule = Schedule::kAsync, .micro_batches = 4};
  const Partition partitioned = partition(model, workers, async, {});
  EXPECT_EQ(partitioned.slowest, 3);
  EXPECT_EQ(partitioned.in_flight, (std::vector<std::size_t>{7, 5, 4, 1}));
}

// However exactly layers were measured.
TEST(Partition, SmallDifferencesDoNotMatterForWhatIsOnItsWay) {
  const ScheduleOptions async{.schedule = Schedule::kAsync, .micro_batches = 4};
  for (const double off : {-0.06, -0.03, 0.0, 0.03, 0.06}) {
    ModelProfile model(4, {.parameters = 1, .forward = 1, .backward = 2, .border = 75, .gradients = 75});
    model[1].forward *= 1 + off;
    model[2].backward *= 1 - off;
    const std::vector<Worker> workers(4, {.uplink = 100 * (1 + off)});
    EXPECT_EQ(partition(model, workers, async, {}).in_flight, (std::vector<std::size_t>{7, 5, 4, 1})) << off;
  }
}

// Staler gradients are not worth the little that could be gained.
TEST(Partition, KeepsNoMoreOnTheirWayThanStagesWhereLinksAreFast) {
  const ScheduleOptions async{.schedule = Schedule::kAsync, .micro_batches = 4};
  for (const double off : {-0.06, 0.0, 0.06}) {
    ModelProfile model(4, {.parameters = 1, .forward = 1, .backward = 2});
    model[1].forward *= 1 + off;
    const std::vector<Worker> workers(4, {.to_next = {.latency = 0.01}, .to_previous = {.latency = 0.01}});
    EXPECT_EQ(partition(model, workers, async, {}).in_flight, (std::vector<std::size_t>{4, 3, 2, 1})) << off;
  }
}

TEST(Partition, AsyncHoldsBackWhereMemoryIsShort) {
  const ModelProfile model(3, {.parameters = 1, .forward = 1, .backward = 2, .activations = 1000});
  const std::vector<Worker> workers(3, {.memory = 1500});
  const ScheduleOptions async{.schedule = Schedule::kAsync};
  EXPECT_EQ(partition(model, workers, async, {.versions = Versions::kLatest}).in_flight,
            (std::vector<std::size_t>{1, 1, 1}));
}

TEST(Partition, CountsEverythingThatAStageKeeps) {
  ModelProfile model(3, {.parameters = 10, .activations = 1000, .border = 50});
  model[2].replicas = 5;
  const ScheduleOptions async{.schedule = Schedule::kAsync, .in_flight = 3};
  const Keeping keeping{.versions = Versions::kStash, .optimizer_values = 2, .method_values = 3};
  const StageMemory middle = stage_memory(model, {1, 2}, async, {1, 3}, keeping);
  EXPECT_EQ(middle, (StageMemory{.weights = 40,
                                 .gradients = 40,
                                 .optimizer = 80,
                                 .method = 120,
                                 .versions = 80,
                                 .activations = 3000,
                                 .borders = 200}));
  EXPECT_EQ(stage_memory(model, {2, 3}, async, {2, 3}, keeping).weights, 60);
  EXPECT_EQ(stage_memory(model, {0, 3}, async, {0, 1}, keeping).weights, 120);
  const StageMemory again = stage_memory(model, {1, 2}, async, {1, 3}, {.versions = Versions::kRecompute});
  EXPECT_EQ(again.activations, 1000 + 2 * 50);
  EXPECT_EQ(again.versions, 0);
}

TEST(Partition, SaysHowMuchIsMissingAndWhatWouldFit) {
  const ModelProfile model(4, {.parameters = 1'000'000, .forward = 1, .backward = 1, .activations = 30'000'000});
  const auto with = [&](Bytes memory, Versions versions) {
    return refusal(model, std::vector<Worker>(2, {.memory = memory}), {.versions = versions});
  };
  // A layer takes 16 MB for weights, gradients and moments, and 30 MB for each micro-batch on its way: the first of two
  // stages has two of them.
  EXPECT_EQ(with(160'000'000, Versions::kStash), "");
  EXPECT_EQ(
      with(120'000'000, Versions::kStash),
      "the model does not fit: even with the best cut stage 1 would take 131.6 MiB, and its peer may use 114.4 MiB; "
      "pipeline.weights = \"recompute\" would fit");
  EXPECT_THAT(with(80'000'000, Versions::kRecompute), HasSubstr("4 peers with 76.3 MiB each would do"));
  EXPECT_THAT(with(1'000'000, Versions::kRecompute), HasSubstr("a smaller model"));
  EXPECT_THAT(refusal(model, std::vector<Worker>(5), {}), HasSubstr("5 stages are more than the model has layers (4)"));
}

TEST(Partition, ByHandIsChecked) {
  const ModelProfile model(2, {.parameters = 100});
  const std::vector<Worker> workers(2, {.memory = 1000});
  try {
    partition(ModelProfile(2, {.parameters = 1000}), workers, kOneForwardOneBackward, {}, {{0, 1}, {1, 2}});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("stage 0 (layers 0 to 0) takes 15.6 KiB, but its peer may use"));
  }
}

}  // namespace
}  // namespace rookery::plan
