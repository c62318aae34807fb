#include "observe/progress.h"

#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rookery::observe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// A run in virtual time, whose steps have 1000 tokens and 10 samples.
class ProgressTest : public testing::Test {
 protected:
  Progress::Options options(int columns) {
    return {.total_steps = 100, .columns = [columns] { return columns; }, .now = [this] { return now_; }};
  }

  void step(Progress& progress, std::chrono::nanoseconds duration, std::optional<double> eval_loss = {}) {
    now_ += duration;
    ++step_;
    StepMetrics metrics{.step = step_, .loss = loss_, .samples = step_ * 10, .tokens = step_ * 1000};
    metrics.eval_loss = eval_loss;
    progress.step(metrics);
  }

  // What was written since the last call.
  std::string written() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }

  std::ostringstream out_;
  Progress::Time now_{};
  std::int64_t step_ = 0;
  double loss_ = 2;
};

constexpr std::string_view kClearRest = "\x1b[K";

TEST_F(ProgressTest, PlainLinesComeEveryFiveSecondsAndAtEvaluations) {
  Progress progress(out_, options(0));
  step(progress, seconds(1));
  EXPECT_EQ(written(), "step 1/100  loss 2  1000 tokens/s  ETA 1 min 39 s\n");
  step(progress, seconds(1));
  step(progress, milliseconds(3999));
  EXPECT_EQ(written(), "");
  step(progress, milliseconds(1));
  EXPECT_THAT(written(), HasSubstr("step 4/100  "));
  step(progress, seconds(1), 1.5);
  EXPECT_THAT(written(), HasSubstr("step 5/100  loss 2  eval 1.5  "));
  step(progress, seconds(1));
  EXPECT_EQ(written(), "");
  progress.finish({});
  EXPECT_THAT(written(), HasSubstr("step 6/100  loss 2  eval 1.5  "));
}

TEST_F(ProgressTest, ASwarmShowsWhatItCostsToBeTogether) {
  Progress progress(out_, options(0));
  now_ += seconds(1);
  StepMetrics metrics{.step = 1, .loss = 2, .samples = 10, .tokens = 1000, .eval_loss = 1.5};
  metrics.together = {.compute_seconds = 0.75, .wait_seconds = 0.25, .bytes_sent = 2 << 20};
  metrics.consensus_distance = 0.125;
  progress.step(metrics);
  EXPECT_THAT(written(), HasSubstr("waiting 25%  2.0 MiB/s sent  distance 0.12"));
}

TEST_F(ProgressTest, FinishDoesNotRepeatALine) {
  Progress progress(out_, options(0));
  step(progress, seconds(1));
  written();
  progress.finish({});
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressTest, TerminalLineIsRedrawnInPlaceAtMostTenTimesASecond) {
  Progress progress(out_, options(100));
  step(progress, milliseconds(20));
  EXPECT_EQ(written(), "\r[>                   ] 1/100  loss 2  50.0 k tokens/s  ETA 2 s" + std::string(kClearRest));
  int redraws = 0;
  for (int i = 0; i < 50; ++i) {
    step(progress, milliseconds(20));
    redraws += !written().empty();
  }
  EXPECT_EQ(redraws, 10);
  progress.finish({});
  EXPECT_THAT(written(), EndsWith("\n"));
}

TEST_F(ProgressTest, LineFitsTheTerminal) {
  for (int columns = 1; columns < 120; ++columns) {
    written();  // the end of the line before
    Progress progress(out_, options(columns));
    step(progress, seconds(7000), 1.25);
    const std::string line = written();
    EXPECT_LT(line.size() - 1 - kClearRest.size(), static_cast<std::size_t>(columns)) << line;
    EXPECT_THAT(line, Not(HasSubstr("\n")));
  }
}

TEST_F(ProgressTest, FullWidthShowsABarAndNarrowOnesDropTheLeastImportant) {
  Progress wide(out_, options(120));
  for (int i = 0; i < 50; ++i) step(wide, seconds(1));
  EXPECT_THAT(written(), HasSubstr("[==========>         ] 50/100  loss 2  1000 tokens/s  ETA 50 s"));
  Progress narrow(out_, options(20));
  step(narrow, seconds(1));
  EXPECT_THAT(written(), HasSubstr("\r51/100  loss 2" + std::string(kClearRest)));
}

TEST_F(ProgressTest, EndsTheLineWhenTheRunFails) {
  {
    Progress progress(out_, options(80));
    step(progress, seconds(1));
    written();
  }
  EXPECT_EQ(written(), "\n");
}

TEST_F(ProgressTest, ImagesAreCountedInSamples) {
  auto images = options(0);
  images.unit = Progress::Unit::kSamples;
  Progress progress(out_, images);
  step(progress, seconds(1));
  EXPECT_THAT(written(), HasSubstr("10 samples/s"));
}

TEST_F(ProgressTest, LossIsSmoothedAndRecoversFromNan) {
  Progress progress(out_, options(0));
  step(progress, seconds(5));
  loss_ = 1;
  step(progress, seconds(5));
  EXPECT_THAT(written(), HasSubstr("loss 1.95  "));
  loss_ = std::numeric_limits<double>::quiet_NaN();
  step(progress, seconds(5));
  EXPECT_THAT(written(), HasSubstr("loss nan  "));
  loss_ = 3;
  step(progress, seconds(5));
  EXPECT_THAT(written(), HasSubstr("loss 3  "));
}

TEST_F(ProgressTest, ResumedRunCountsOnlyItsOwnWork) {
  auto resumed = options(0);
  resumed.first_step = step_ = 90;
  Progress progress(out_, resumed);
  step(progress, seconds(1));
  EXPECT_EQ(written(), "step 91/100  loss 2\n");  // how much of the total is this step's is not known yet
  step(progress, seconds(5));
  EXPECT_EQ(written(), "step 92/100  loss 2  200 tokens/s  ETA 40 s\n");
}

TEST_F(ProgressTest, StepsThatTakeNoTimeGiveNoSpeed) {
  Progress progress(out_, options(0));
  step(progress, seconds(0));
  EXPECT_EQ(written(), "step 1/100  loss 2\n");
}

TEST(TerminalColumns, IsZeroForWhatIsNoTerminal) { EXPECT_EQ(terminal_columns(-1), 0); }

}  // namespace
}  // namespace rookery::observe
