#include "train/run.h"

#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tensor/allocator.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Stops a run after some steps, like Ctrl-C would.
class StopAfter : public observe::Sink {
 public:
  StopAfter(std::int64_t step, std::atomic<bool>& stop) : step_(step), stop_(stop) {}
  void step(const observe::StepMetrics& metrics) override {
    if (metrics.step == step_) stop_ = true;
  }
  void finish(const observe::Summary&) override {}

 private:
  std::int64_t step_;
  std::atomic<bool>& stop_;
};

class RunTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { install_tensor_allocator(); }  // as the program does
  void SetUp() override {
    use_threads(1);
    root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  config::Settings settings(const std::string& optimizer = "adamw") const {
    config::Settings s;
    s.model = {.kind = "gpt", .layers = 1, .width = 16, .heads = 2, .context = 24, .dropout = 0.1};
    s.train.steps = 12;
    s.train.batch = 4;
    s.train.micro_batches = 2;
    s.train.eval_every = 5;
    s.train.eval_batches = 1;
    s.train.checkpoint_every = 4;
    s.train.optimizer = optimizer;
    s.train.accumulate = 3;
    return s;
  }

  std::string model_bytes(const std::string& name) const {
    return read_file(model_files(read_checkpoint_info(newest(name))).at(0));
  }

  // Trains in `name`, stopping after `stop_after` steps if that is not 0.
  RunOutcome train(const std::string& name, const config::Settings& s, bool resume, std::int64_t stop_after = 0) {
    std::atomic<bool> stop = false;
    train::Run run(s, RunDirectory(root_ / name), resume);
    run.add_sink(std::make_unique<StopAfter>(stop_after, stop));
    return run.train(stop);
  }

  // The metrics without what measures time.
  std::vector<json> metrics(const std::string& name) const {
    std::vector<json> lines;
    std::ifstream file(root_ / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      lines.push_back(json::parse(line));
      lines.back().erase("seconds");
      lines.back().erase("step_seconds");
    }
    return lines;
  }

  fs::path newest(const std::string& name) const { return *newest_checkpoint(root_ / name / "checkpoints"); }

  fs::path root_;
};

// MNIST files with a bright row per class.
void write_images(const fs::path& folder) {
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, std::vector<std::uint32_t> header, std::string_view content) {
    std::ofstream file(folder / name, std::ios::binary);
    for (const std::uint32_t word : header) {
      for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(word >> shift));
    }
    file << content;
  };
  for (const auto& [split, count] : {std::pair<std::string, std::uint32_t>{"train", 40}, {"t10k", 8}}) {
    std::string labels, images;
    for (std::uint32_t i = 0; i < count; ++i) {
      labels += static_cast<char>(i % 10);
      std::string image(784, '\0');
      image.replace(28 * (i % 10), 28, 28, '\xff');
      images += image;
    }
    write(split + "-images-idx3-ubyte", {0x803, count, 28, 28}, images);
    write(split + "-labels-idx1-ubyte", {0x801, count}, labels);
  }
}

TEST_F(RunTest, InterruptedAtAnyStepAndResumedEqualsUninterrupted) {
  write_images(root_ / "images");
  std::string words;
  for (int i = 0; i < 800; ++i) words += "word " + std::to_string(i * i) + " ";
  std::ofstream(root_ / "text.txt") << words;
  struct Case {
    std::string kind, source, optimizer;
  };
  const std::vector<Case> cases = {{"gpt", "tales", "sgd"},
                                   {"gpt", (root_ / "text.txt").string(), "accum-adamw"},
                                   {"bert", "tales", "lamb"},
                                   {"seq2seq", "translation", "adam"},
                                   {"cnn", (root_ / "images").string(), "adamw"}};
  for (const Case& c : cases) {
    config::Settings s = settings(c.optimizer);
    s.model.kind = c.kind;
    s.data.source = c.source;
    if (c.kind == "cnn") s.model = {.kind = "cnn", .layers = 2, .width = 4};  // with batch norm
    const std::string whole = "whole-" + c.kind + c.optimizer;
    EXPECT_FALSE(train(whole, s, false).interrupted);
    const auto expected = metrics(whole);
    ASSERT_EQ(expected.size(), 12u);
    for (const std::int64_t stop_after : {1, 4, 7, 11}) {
      const std::string name = c.kind + c.optimizer + std::to_string(stop_after);
      EXPECT_TRUE(train(name, s, false, stop_after).interrupted);
      EXPECT_EQ(metrics(name).size(), static_cast<std::size_t>(stop_after));
      EXPECT_FALSE(train(name, s, true).interrupted);
      EXPECT_EQ(metrics(name), expected) << "stopped after " << stop_after;
      EXPECT_EQ(model_bytes(name), model_bytes(whole));
    }
  }
}

// As after a power cut: the metrics are ahead of the newest checkpoint, and their last line is torn.
TEST_F(RunTest, LinesAfterTheCheckpointAreCutOff) {
  const config::Settings s = settings();
  train("whole", s, false);
  train("cut", s, false, 8);
  std::ofstream(root_ / "cut" / "metrics.jsonl", std::ios::app) << R"({"step":9,"loss":1})"
                                                                << "\n"
                                                                << R"({"step":10,"lo)";
  train("cut", s, true);
  EXPECT_EQ(metrics("cut"), metrics("whole"));
}

TEST_F(RunTest, ResumingAFinishedRunChangesNothing) {
  const config::Settings s = settings();
  train("run", s, false);
  const auto before = metrics("run");
  const std::string summary = read_file(root_ / "run" / "summary.json");
  const RunOutcome outcome = train("run", s, true);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_EQ(metrics("run"), before);
  EXPECT_EQ(read_file(root_ / "run" / "summary.json"), summary);
}

TEST_F(RunTest, AnEarlierRunIsMovedAsideWhole) {
  train("run", settings(), false);
  const auto before = metrics("run");
  train("run", settings("sgd"), false);
  EXPECT_EQ(metrics("run.1"), before);
  EXPECT_NE(metrics("run"), before);
}

TEST_F(RunTest, ADamagedCheckpointIsNoticedOnResume) {
  train("run", settings(), false, 4);
  const fs::path file = model_files(read_checkpoint_info(newest("run"))).at(0);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-3, std::ios::end).put('?');
  try {
    train("run", settings(), true);
    FAIL() << "should have thrown";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(file.string()));
    EXPECT_THAT(e.what(), testing::HasSubstr("damaged"));
  }
}

TEST_F(RunTest, ADamagedIndexIsNoticedOnResume) {
  train("run", settings(), false, 4);
  const fs::path index = newest("run") / "index.json";
  const std::string whole = read_file(index);
  const std::size_t digit = whole.find("\"samples\": 16") + 12;
  for (const std::string& damaged : {std::string(), std::string("{}"), std::string(R"({"files": []})"),
                                     whole.substr(0, digit) + "7" + whole.substr(digit)}) {
    std::ofstream(index) << damaged;
    EXPECT_THROW(train("run", settings(), true), InputError) << damaged;
  }
  std::ofstream(index) << whole;
  EXPECT_FALSE(train("run", settings(), true).interrupted);
}

// As after a power cut during a save.
TEST_F(RunTest, HalfACheckpointIsIgnoredAndRemoved) {
  train("run", settings(), false, 4);
  fs::create_directories(root_ / "run" / "checkpoints" / "step-9.tmp");
  train("run", settings(), true);
  EXPECT_FALSE(fs::exists(root_ / "run" / "checkpoints" / "step-9.tmp"));
  EXPECT_EQ(newest("run").filename(), "step-12");
}

TEST_F(RunTest, OnlyTheNewestCheckpointsAreKept) {
  config::Settings s = settings();
  s.train.keep_checkpoints = 2;
  train("run", s, false);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root_ / "run" / "checkpoints")) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("step-8", "step-12"));
}

TEST_F(RunTest, ResumingWithAnotherModelOrOptimizerIsRefused) {
  train("run", settings(), false, 4);
  EXPECT_THROW(train("run", settings("sgd"), true), InputError);
  config::Settings wider = settings();
  wider.model.width = 32;
  EXPECT_THROW(train("run", wider, true), InputError);
  config::Settings other_heads = settings();
  other_heads.model.heads = 4;
  EXPECT_THROW(train("run", other_heads, true), InputError);
  config::Settings shorter = settings();
  shorter.train.steps = 3;
  EXPECT_THROW(train("run", shorter, true), InputError);
  EXPECT_EQ(metrics("run").size(), 4u);
}

TEST_F(RunTest, BadInputLeavesNothingBehind) {
  config::Settings s = settings();
  s.data.source = (root_ / "missing.txt").string();
  EXPECT_THROW(train("run", s, false), InputError);
  EXPECT_FALSE(fs::exists(root_ / "run"));
}

TEST_F(RunTest, ASlashAtTheEndOfTheDirectoryIsFine) {
  train("run/", settings(), false);
  train("run/", settings(), false);
  EXPECT_EQ(metrics("run.1"), metrics("run"));
}

TEST_F(RunTest, SummaryHasWhatPeopleAskFor) {
  const observe::Summary summary = train("run", settings(), false).summary;
  EXPECT_EQ(summary.steps, 12);
  EXPECT_EQ(summary.samples, 48);
  EXPECT_EQ(summary.tokens, 48 * 24);
  EXPECT_GT(summary.tokens_per_second, 0);
  EXPECT_GT(summary.peak_memory_bytes, 1 << 20);
  ASSERT_TRUE(summary.eval_loss && summary.test_loss && summary.entropy_floor);
  EXPECT_GT(*summary.eval_loss, *summary.entropy_floor);
  EXPECT_EQ(metrics("run").back()["eval_loss"], *summary.eval_loss);
}

}  // namespace
}  // namespace rookery::train
