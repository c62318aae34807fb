#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/blueprint.h"
#include "train/setup.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using plan::Cut;
using plan::Layers;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<model::Model> model() const {
    return model::build_model(
        model::complete_options({.kind = kind_, .layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 20}));
  }

  std::unique_ptr<Stage> stage(const model::Model& model, Layers layers) const {
    return std::make_unique<Stage>(model, layers, plan::Versions::kLatest, OptimizerOptions{.kind = "adamw"}, at::kCPU);
  }

  // Values that say where they are in the whole model.
  static void number(Stage& stage) {
    const auto count = [&](const at::Tensor& values, float offset) {
      values.copy_(at::arange(values.numel(), values.options()) + static_cast<float>(stage.first()) + offset);
    };
    count(stage.store().values().detach(), 0);
    for (const auto& state : stage.optimizer().state())
      count(state.values, state.name == "first_moment" ? 0.25f : 0.5f);
    stage.optimizer().set_steps(7);
  }

  // Saves a model that is cut like this, and makes it a checkpoint.
  void save(const Cut& cut, std::int64_t step) {
    std::vector<fs::path> folders;
    const auto whole = model();
    for (std::size_t i = 0; i < cut.size(); ++i) {
      const auto own_model = model();
      const auto own = stage(*own_model, cut[i]);
      own->initialize(1);
      number(*own);
      const CheckpointInfo info{.path = {},
                                .position = {.step = step, .samples = i + 1 == cut.size() ? 40 : 0},
                                .optimizer_steps = 7,
                                .data = "data",
                                .shards = {{i, cut.size(), cut[i]}}};
      const fs::path scratch = root_ / std::to_string(i);
      std::vector<FlatState> kept = {{"anchor", own->first(), own->store().values().detach() * 2}};
      save_checkpoint(scratch, info, *own, kept, 1);
      folders.push_back(*newest_checkpoint(scratch));
    }
    std::ranges::reverse(folders);  // they come in any order
    take_checkpoint(root_ / "checkpoints", folders, step, 2);
  }

  void check(const Cut& cut) const {
    const fs::path folder = *newest_checkpoint(root_ / "checkpoints");
    verify_checkpoint(folder);
    const CheckpointInfo info = read_checkpoint_info(folder);
    EXPECT_EQ(info.position.samples, 40);
    for (const Layers& layers : cut) {
      const auto own_model = model(), wanted_model = model();
      const auto own = stage(*own_model, layers), wanted = stage(*wanted_model, layers);
      number(*wanted);
      own->initialize(2);
      load_checkpoint(info, *own);
      EXPECT_TRUE(at::equal(own->store().values(), wanted->store().values()));
      for (std::size_t i = 0; i < own->optimizer().state().size(); ++i) {
        EXPECT_TRUE(at::equal(own->optimizer().state()[i].values, wanted->optimizer().state()[i].values));
      }
      EXPECT_EQ(own->optimizer().steps(), 7);
      at::Tensor anchor = at::zeros_like(own->store().values());
      load_method_state(info, std::vector<FlatState>{{"anchor", own->first(), anchor}});
      EXPECT_TRUE(at::equal(anchor, own->store().values() * 2));
    }
  }

  std::string kind_ = "gpt";
  fs::path root_;
};

TEST_F(CheckpointTest, WhatWasCutInOneWayIsLoadedInAnother) {
  const std::vector<Cut> cuts = {{{0, 4}}, {{0, 1}, {1, 4}}, {{0, 3}, {3, 4}}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}}};
  for (const Cut& saved : cuts) {
    save(saved, 5);
    for (const Cut& loaded : cuts) check(loaded);
  }
}

TEST_F(CheckpointTest, ReplicasAreFoundWithTheirOwner) {
  kind_ = "seq2seq";
  const auto whole_model = model();
  const std::size_t layers = whole_model->size();
  save({{0, 2}, {2, layers}}, 5);
  const CheckpointInfo info = read_checkpoint_info(*newest_checkpoint(root_ / "checkpoints"));
  const auto last_model = model();
  const auto last = stage(*last_model, {layers - 1, layers});
  load_checkpoint(info, *last);
  ASSERT_FALSE(last->replicas().entries().empty());
  const auto whole = stage(*whole_model, {0, layers});
  number(*whole);
  for (const Parameter& replica : last->replicas().entries()) {
    const auto same = [&](const Parameter& other) { return other.spec().name == replica.spec().name; };
    const auto entries = whole->store().entries();
    const auto owner = std::ranges::find_if(entries, same);
    EXPECT_TRUE(at::equal(replica.tensor(), owner->tensor()));
  }
}

TEST_F(CheckpointTest, ShardsOfDifferentCheckpointsAreRefused) {
  save({{0, 2}, {2, 4}}, 5);
  save({{0, 2}, {2, 4}}, 6);
  const auto own_model = model();
  const auto own = stage(*own_model, {0, 2});
  own->initialize(1);
  const CheckpointInfo info{.path = {}, .position = {.step = 7}, .data = "data", .shards = {{0, 2, {0, 2}}}};
  save_checkpoint(root_ / "alone", info, *own, {}, 1);
  const std::vector<fs::path> half = {*newest_checkpoint(root_ / "alone")};
  EXPECT_THROW(take_checkpoint(root_ / "checkpoints", half, 7, 2), InputError);  // a shard is missing
  EXPECT_THROW(take_checkpoint(root_ / "checkpoints", half, 8, 2), InputError);  // another step
  EXPECT_EQ(newest_checkpoint(root_ / "checkpoints")->filename(), "step-6");
}

TEST_F(CheckpointTest, ADamagedShardIsNoticed) {
  save({{0, 2}, {2, 4}}, 5);
  const fs::path folder = *newest_checkpoint(root_ / "checkpoints");
  verify_checkpoint(folder);
  fs::remove(folder / "optimizer-00002-of-00002.safetensors");
  EXPECT_THROW(verify_checkpoint(folder), InputError);
  EXPECT_THROW(check({{0, 4}}), InputError);
}

}  // namespace
}  // namespace rookery::train
