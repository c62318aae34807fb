#include "sync/lendable.h"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

namespace rookery::sync {
namespace {

using Values = std::vector<float>;

TEST(LendableTest, WhoeverBorrowsKeepsWhatWasBorrowed) {
  Lendable lendable(Values{1, 2, 3});
  lendable.offer();
  const Lendable::Loan loan = lendable.borrow();
  ASSERT_NE(loan, nullptr);
  lendable.recall();
  lendable.values()[1] = 7;
  EXPECT_EQ(*loan, Values({1, 2, 3}));
  lendable.offer();
  EXPECT_EQ(*lendable.borrow(), Values({1, 7, 3}));
}

TEST(LendableTest, NobodyBorrowsWhatIsBeingChanged) {
  Lendable lendable(Values{1});
  EXPECT_EQ(lendable.borrow(), nullptr);
  lendable.offer();
  EXPECT_NE(lendable.borrow(), nullptr);
  lendable.recall();
  EXPECT_EQ(lendable.borrow(), nullptr);
}

TEST(LendableTest, WhatNobodyHasIsChangedInItsPlace) {
  Lendable lendable(Values(1000));
  const float* const place = lendable.values().data();
  lendable.offer();
  lendable.borrow();  // and given back
  lendable.recall();
  EXPECT_EQ(lendable.values().data(), place);
  lendable.offer();
  const Lendable::Loan loan = lendable.borrow();
  EXPECT_EQ(loan->data(), place);
  lendable.recall();
  EXPECT_NE(lendable.values().data(), place);
}

TEST(LendableTest, LoansOutliveWhoLends) {
  Lendable::Loan loan;
  {
    Lendable lendable(Values{4, 5});
    lendable.offer();
    loan = lendable.borrow();
  }
  EXPECT_EQ(*loan, Values({4, 5}));
}

// Values that are lent are all the same number; for the thread sanitizer, too.
TEST(LendableTest, BorrowersOnOtherThreadsSeeNoChange) {
  Lendable lendable(Values(1000));
  lendable.offer();
  std::size_t torn = 0;
  std::thread borrower([&] {
    for (int i = 0; i < 2000; ++i) {
      const Lendable::Loan loan = lendable.borrow();
      if (loan && std::ranges::count(*loan, loan->front()) != 1000) ++torn;
    }
  });
  for (int i = 1; i < 2000; ++i) {
    lendable.recall();
    std::ranges::fill(lendable.values(), static_cast<float>(i));
    lendable.offer();
  }
  borrower.join();
  EXPECT_EQ(torn, 0u);
}

}  // namespace
}  // namespace rookery::sync
