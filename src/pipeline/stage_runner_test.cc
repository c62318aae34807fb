#include "pipeline/stage_runner.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/testing/seeds.h"
#include "collective/testing/virtual_mesh.h"
#include "pipeline/link_borders.h"

namespace rookery::pipeline {
namespace {

using namespace std::chrono_literals;
using collective::testing::VirtualMesh;
using plan::Schedule;
using plan::ScheduleOptions;
using plan::StagePlace;

constexpr auto kLimit = Time(24h);
constexpr std::size_t kBorderBytes = 4096;

// What goes over a border in these tests: one number.
Border border_of(double value) {
  const auto kept = std::make_shared<const std::vector<float>>(1, static_cast<float>(value));
  return {.tensors = {{TensorType::kFloat, {1}, std::as_bytes(std::span(*kept)), kept}}};
}

double value_of(const Border& border) {
  return static_cast<double>(*reinterpret_cast<const float*>(border.tensors.at(0).bytes.data()));
}

// A stage that takes time, adds one on the way forward and two on the way back, and checks on the last stage that what
// came belongs to the label.
class ModelledStage final : public StageWork {
 public:
  ModelledStage(Clock& clock, StagePlace place, std::uint64_t seed) : clock_(clock), place_(place), random_({seed}) {}

  Admission admit(std::uint64_t micro_batch) override {
    if (micro_batch >= last_) return Admission::kNever;
    return micro_batch < held_from_ ? Admission::kNow : Admission::kLater;
  }

  Task<Border> forward(Border input) override {
    const std::uint64_t number = input.micro_batch;
    auto passing = take_time(forward_time_);
    co_await std::move(passing);
    const double came = place_.is_first() ? label(number) : value_of(input);
    if (place_.is_last()) {
      EXPECT_EQ(came, label(number) + static_cast<double>(place_.stages - 1));
    }
    co_return border_of(came + 1);
  }

  Task<Border> backward(Border gradients) override {
    const std::uint64_t number = gradients.micro_batch;
    auto passing = take_time(backward_time_);
    co_await std::move(passing);
    const double came = place_.is_last() ? label(number) : value_of(gradients);
    if (place_.is_first()) {
      EXPECT_EQ(came, label(number) + 2 * static_cast<double>(place_.stages - 1));
    }
    co_return border_of(came + 2);
  }

  Task<> update(std::uint64_t number) override {
    EXPECT_EQ(number, updates_++);
    co_return;
  }

  std::uint64_t last_ = std::numeric_limits<std::uint64_t>::max();  // admits fewer than this many
  std::uint64_t held_from_ = std::numeric_limits<std::uint64_t>::max();
  Duration forward_time_ = 1ms, backward_time_ = 2ms;
  bool varies_ = false;

 private:
  static double label(std::uint64_t number) { return static_cast<double>(number * 7 % 1001); }

  Task<> take_time(Duration usual) {
    const Duration time = varies_ ? std::chrono::duration_cast<Duration>(usual * (3 * random_.uniform())) : usual;
    auto sleeping = clock_.sleep_for(time);
    co_await std::move(sleeping);
  }

  Clock& clock_;
  StagePlace place_;
  Random random_;
  std::uint64_t updates_ = 0;
};

// A pipeline of modelled stages in the virtual world.
class Pipeline {
 public:
  Pipeline(std::vector<ScheduleOptions> options, net::LineOptions line, std::uint64_t seed)
      : mesh_(options.size(), line, seed) {
    const std::size_t stages = options.size();
    for (std::size_t i = 0; i < stages; ++i) {
      const auto links = mesh_.links(i);
      const StagePlace place{i, stages};
      LinkBordersOptions limits{.most_backward = plan::in_flight(options[i], place),
                                .forward_bytes = kBorderBytes,
                                .backward_bytes = kBorderBytes};
      if (i > 0) limits.most_forward = plan::in_flight(options[i - 1], {i - 1, stages});
      Clock& clock = mesh_.world().clock();
      borders.push_back(std::make_unique<LinkBorders>(clock, clock.executor(), i > 0 ? links[i - 1] : nullptr,
                                                      i + 1 < stages ? links[i + 1] : nullptr, limits));
      works.push_back(std::make_unique<ModelledStage>(clock, place, seed * 100 + i));
      runners.push_back(std::make_unique<StageRunner>(clock, options[i], place, *borders[i], *works[i]));
    }
  }

  std::vector<VirtualMesh::Outcome> run(std::uint64_t micro_batches) {
    return mesh_.run([&](std::size_t stage) { return runners[stage]->run(micro_batches); }, kLimit);
  }

  VirtualMesh mesh_;
  std::vector<std::unique_ptr<LinkBorders>> borders;
  std::vector<std::unique_ptr<ModelledStage>> works;
  std::vector<std::unique_ptr<StageRunner>> runners;
};

// Whatever stages and links take: every label meets its own activations, nobody waits for ever, nobody keeps more than
// its limit, and no gradient is older than its bound.
TEST(StageRunner, KeepsOrderBoundsAndPaceOverAThousandSchedules) {
  for (std::uint64_t seed = 0; seed < repetitions(1000); ++seed) {
    Random random({seed, 99});
    const std::size_t stages = 1 + random.below(6);
    const std::uint64_t frequency = 1 + random.below(3);
    ScheduleOptions common{.schedule = static_cast<Schedule>(random.below(3)),
                           .micro_batches = frequency * (1 + random.below(4)),
                           .update_frequency = frequency};
    std::vector<ScheduleOptions> options;
    for (std::size_t i = 0; i < stages; ++i) {
      common.in_flight = random.below(7);
      options.push_back(common);
    }
    const net::LineOptions line{.latency = std::chrono::microseconds(random.below(5000)),
                                .jitter = std::chrono::microseconds(random.below(5000))};
    Pipeline pipeline(options, line, seed);
    for (const auto& work : pipeline.works) {
      work->varies_ = true;
      work->forward_time_ = std::chrono::microseconds(1 + random.below(3000));
      work->backward_time_ = std::chrono::microseconds(1 + random.below(3000));
    }
    const std::uint64_t total = common.micro_batches * (1 + random.below(6));
    for (const auto& outcome : pipeline.run(total)) ASSERT_FALSE(outcome) << "seed " << seed << ": " << outcome->what();
    for (std::size_t i = 0; i < stages; ++i) {
      const StageRunner& runner = *pipeline.runners[i];
      EXPECT_EQ(runner.micro_batches(), total);
      EXPECT_EQ(runner.updates(), total / common.group());
      EXPECT_LE(runner.record().most_in_flight, plan::in_flight(options[i], {i, stages}));
      EXPECT_LE(runner.record().staleness.rbegin()->first, plan::staleness_bound(options[i], {i, stages}));
    }
  }
}

std::vector<ScheduleOptions> four_stages(Schedule schedule) {
  return std::vector<ScheduleOptions>(4, {.schedule = schedule, .micro_batches = 4});
}

TEST(StageRunner, KeepsAnAsynchronousPipelineFullAndAGpipeNot) {
  const auto busy = [](Schedule schedule) {
    auto options = four_stages(schedule);
    for (std::size_t i = 0; i < 4; ++i) options[i].in_flight = 4 - i + 3;  // while borders travel
    Pipeline pipeline(options, {.latency = 750us}, 1);
    for (const auto& outcome : pipeline.run(400)) EXPECT_FALSE(outcome);
    const StageRecord& record = pipeline.runners[0]->record();
    return record.busy / std::chrono::duration<double>(record.busy + record.waited_forward + record.waited_backward);
  };
  EXPECT_GT(busy(Schedule::kAsync), 0.97);
  EXPECT_LT(busy(Schedule::kGpipe), 0.57);
}

TEST(StageRunner, GoesOnFromWhereItWas) {
  Pipeline pipeline(four_stages(Schedule::kAsync), {}, 1);
  for (const std::uint64_t end : {4, 12, 40}) {
    for (const auto& outcome : pipeline.run(end)) ASSERT_FALSE(outcome);
    for (const auto& runner : pipeline.runners) EXPECT_EQ(runner->micro_batches(), end);
  }
}

TEST(StageRunner, EndsEarlierIfNoMoreIsAdmitted) {
  for (const Schedule schedule : {Schedule::kAsync, Schedule::k1f1b, Schedule::kGpipe}) {
    Pipeline pipeline(four_stages(schedule), {}, 1);
    for (const auto& work : pipeline.works) work->last_ = 8;
    for (const auto& outcome : pipeline.run(100)) ASSERT_FALSE(outcome);
    for (const auto& runner : pipeline.runners) EXPECT_EQ(runner->micro_batches(), 8u);
  }
}

TEST(StageRunner, WaitsForAdmissionAndStillTakesWhatComesBack) {
  Pipeline pipeline(four_stages(Schedule::kAsync), {}, 1);
  for (const auto& work : pipeline.works) work->held_from_ = 8;
  const auto let_go = [&](std::size_t stage) -> Task<> {
    Clock& clock = pipeline.mesh_.world().clock();
    if (stage == 0) {
      auto sleeping = clock.sleep_for(10s);
      co_await std::move(sleeping);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(pipeline.runners[i]->micro_batches(), 8u);
        pipeline.works[i]->held_from_ = 1000;
        pipeline.runners[i]->wake();
      }
    }
  };
  const auto outcomes = pipeline.mesh_.run(
      [&](std::size_t stage) -> Task<> {
        TaskGroup group(pipeline.mesh_.world().executor());
        group.spawn(pipeline.runners[stage]->run(16));
        group.spawn(let_go(stage));
        auto both = group.join();
        co_await std::move(both);
      },
      kLimit);
  for (const auto& outcome : outcomes) ASSERT_FALSE(outcome);
  for (const auto& runner : pipeline.runners) EXPECT_EQ(runner->micro_batches(), 16u);
}

// A stage that computes without ever waiting.
class TirelessStage final : public StageWork {
 public:
  Admission admit(std::uint64_t) override { return Admission::kNow; }
  Task<Border> forward(Border input) override { co_return input; }
  Task<Border> backward(Border gradients) override { co_return gradients; }
  Task<> update(std::uint64_t) override { co_return; }
};

TEST(StageRunner, WhoeverNeverWaitsHearsOthersAfterEachUpdate) {
  Pipeline pipeline({{.micro_batches = 1}}, {}, 1);
  Clock& clock = pipeline.mesh_.world().clock();
  TirelessStage work;
  StageRunner runner(clock, {.micro_batches = 1}, {0, 1}, *pipeline.borders[0], work);
  std::vector<std::uint64_t> heard;
  const auto listen = [&]() -> Task<> {
    while (runner.updates() < 5) {
      heard.push_back(runner.updates());
      co_await yield();
    }
  };
  const auto outcomes = pipeline.mesh_.run(
      [&](std::size_t) -> Task<> {
        TaskGroup group(clock.executor());
        group.spawn(runner.run(5));
        group.spawn(listen());
        auto both = group.join();
        co_await std::move(both);
      },
      kLimit);
  for (const auto& outcome : outcomes) ASSERT_FALSE(outcome);
  EXPECT_GE(heard.size(), 4u);
}

// A stage that is lost in the middle of a run is named by its neighbours.
TEST(StageRunner, FailsWhenANeighbourIsLost) {
  for (std::size_t lost = 0; lost < 4; ++lost) {
    Pipeline pipeline(four_stages(Schedule::kAsync), {}, 1);
    const auto outcomes = pipeline.mesh_.run(
        [&](std::size_t stage) -> Task<> {
          if (stage == lost) {
            Clock& clock = pipeline.mesh_.world().clock();
            auto sleeping = clock.sleep_for(20ms);
            co_await std::move(sleeping);
            pipeline.mesh_.kill(stage);
          }
          auto running = pipeline.runners[stage]->run(1000);
          co_await std::move(running);
        },
        kLimit);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      ASSERT_TRUE(outcomes[stage]) << stage;
      if (stage == lost) continue;
      EXPECT_EQ(outcomes[stage]->peer(), "p" + std::to_string(lost)) << stage;
    }
  }
}

}  // namespace
}  // namespace rookery::pipeline
