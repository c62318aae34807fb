#include "train/ledger.h"

#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::train {
namespace {

using observe::ClusterSteps;
using observe::Repeated;
using testing::ElementsAre;
using testing::IsEmpty;

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() { std::filesystem::remove(file_); }
  ~LedgerTest() override { std::filesystem::remove(file_); }

  // The first cluster is away in steps 3 to 5, the second from step 5 on.
  static void do_seven_steps(Ledger& ledger) {
    for (std::int64_t step = 1; step <= 7; ++step) ledger.done(step, {step < 3 || step > 5, step < 5});
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("rookery-ledger-" + std::to_string(::getpid()));
};

TEST_F(LedgerTest, SaysWhichStepsOfWhichClustersWereLeftOut) {
  Ledger ledger("", 0);
  do_seven_steps(ledger);
  EXPECT_THAT(ledger.left_out(), ElementsAre(ClusterSteps{.cluster = 0, .first_step = 3, .last_step = 5},
                                             ClusterSteps{.cluster = 1, .first_step = 5, .last_step = 7}));
  EXPECT_EQ(ledger.steps_left_out(), 6);
  EXPECT_THAT(ledger.repeated(), IsEmpty());
}

TEST_F(LedgerTest, AnotherOneGoesOnWithIt) {
  Ledger ledger(file_, 0);
  do_seven_steps(ledger);
  Ledger next(file_, 9);  // nobody knows more of the second cluster than that it had not come back
  EXPECT_THAT(next.left_out(), ElementsAre(ClusterSteps{.cluster = 0, .first_step = 3, .last_step = 5},
                                           ClusterSteps{.cluster = 1, .first_step = 5, .last_step = 9}));
  next.done(10, {true, false});
  next.done(11, {true, true});
  EXPECT_EQ(next.left_out().back(), (ClusterSteps{.cluster = 1, .first_step = 5, .last_step = 10}));
  EXPECT_EQ(Ledger(file_, 20).left_out(), next.left_out());
}

TEST_F(LedgerTest, ReadsWhatOlderVersionsWrote) {
  std::ofstream(file_) << R"({"left_out":[{"cluster":0,"first_step":3,"last_step":4}],"repeated":[]})";
  EXPECT_EQ(Ledger(file_, 9).steps_left_out(), 2);
}

TEST_F(LedgerTest, KnowsWhatWasForgotten) {
  Ledger ledger(file_, 0);
  do_seven_steps(ledger);
  ledger.forgot({.cluster = 1, .first_step = 2, .last_step = 4});
  ledger.forgot({.cluster = 0, .first_step = 6, .last_step = 7});
  EXPECT_EQ(Ledger(file_, 7).forgotten(), ledger.forgotten());
  EXPECT_THAT(Ledger(file_, 5).forgotten(), ElementsAre(ClusterSteps{.cluster = 1, .first_step = 2, .last_step = 4}));
  ledger.rewound(7, 3);
  EXPECT_THAT(ledger.forgotten(), ElementsAre(ClusterSteps{.cluster = 1, .first_step = 2, .last_step = 3}));
}

// What came after the checkpoint is done again, and whether a cluster is there then is seen then.
TEST_F(LedgerTest, AResumedRunForgetsWhatCameLater) {
  Ledger ledger(file_, 0);
  do_seven_steps(ledger);
  EXPECT_THAT(Ledger(file_, 4).left_out(), ElementsAre(ClusterSteps{.cluster = 0, .first_step = 3, .last_step = 4}));
  EXPECT_THAT(Ledger(file_, 0).left_out(), IsEmpty()) << "that is another run";
}

TEST_F(LedgerTest, StepsThatAreDoneAgainAreNamed) {
  Ledger ledger(file_, 0);
  do_seven_steps(ledger);
  ledger.rewound(7, 7);
  EXPECT_THAT(ledger.repeated(), IsEmpty());
  ledger.rewound(7, 5);
  EXPECT_THAT(ledger.repeated(), ElementsAre(Repeated{.first_step = 6, .last_step = 7}));
  ledger.done(6, {true, true});
  EXPECT_THAT(Ledger(file_, 6).repeated(), ElementsAre(Repeated{.first_step = 6, .last_step = 7}));
}

TEST_F(LedgerTest, WhatIsDoneAgainIsNotLeftOutYet) {
  Ledger ledger(file_, 0);
  do_seven_steps(ledger);
  ledger.rewound(7, 4);
  EXPECT_THAT(ledger.left_out(), ElementsAre(ClusterSteps{.cluster = 0, .first_step = 3, .last_step = 4}));
}

// Whoever was away when another plan was made is no cluster of that.
TEST_F(LedgerTest, AClusterThatIsNoMoreHasComeToItsEnd) {
  Ledger ledger(file_, 0);
  do_seven_steps(ledger);
  ledger.done(8, {true});
  EXPECT_EQ(Ledger(file_, 12).left_out().back(), (ClusterSteps{.cluster = 1, .first_step = 5, .last_step = 7}));
}

TEST_F(LedgerTest, AFileThatIsNoneIsNamed) {
  std::ofstream(file_) << "{\"left_out\": 5}";
  EXPECT_THROW(Ledger(file_, 3), InputError);
}

}  // namespace
}  // namespace rookery::train
