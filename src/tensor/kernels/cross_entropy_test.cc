#include "tensor/kernels/cross_entropy.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/internal/test_support.h"

namespace rookery::kernels {
namespace {

class CrossEntropy : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CrossEntropy, testing::ValuesIn(every_target()), target_name);

std::vector<std::int64_t> some_targets(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> targets(rows);
  for (std::int64_t r = 0; r < rows; ++r) targets[r] = r % 4 == 2 ? -100 : r * 5 % classes;
  return targets;
}

TEST_P(CrossEntropy, matches_the_formula_and_keeps_the_gap_between_rows) {
  const std::int64_t rows = 7;
  const float scale = 0.25f;
  for (std::int64_t classes : {1, 2, 7, 8, 9, 17, 100, 3001}) {
    const std::int64_t stride = classes + 3;
    auto logits = random_floats(rows * stride, 1);
    for (float& value : logits) value *= 20;
    const auto targets = some_targets(rows, classes);

    double loss = 0;
    std::vector<double> gradient(logits.begin(), logits.end());
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = &logits[r * stride];
      double sum = 0;
      for (std::int64_t j = 0; j < classes; ++j) sum += std::exp(double{row[j]});
      for (std::int64_t j = 0; j < classes; ++j) {
        const double p = std::exp(double{row[j]}) / sum;
        gradient[r * stride + j] = targets[r] < 0 ? 0 : double{scale} * (p - (j == targets[r] ? 1 : 0));
      }
      if (targets[r] >= 0) loss += std::log(sum) - double{row[targets[r]]};
    }
    EXPECT_NEAR(softmax_cross_entropy(rows, classes, logits.data(), stride, targets.data(), scale, nullptr), loss,
                1e-5 * std::max(1.0, loss));
    auto in_place = logits;
    softmax_cross_entropy(rows, classes, in_place.data(), stride, targets.data(), scale, in_place.data());
    expect_near(in_place, gradient, 1e-6);
  }
}

TEST_P(CrossEntropy, counts_the_first_maximum) {
  const float logits[] = {1, 2, 2, 0,  //
                          5, 5, 5, 5,  //
                          0, 0, 0, 1,  //
                          0, 0, 0, 1};
  const auto count = [&](std::vector<std::int64_t> targets) { return count_correct(4, 4, logits, 4, targets.data()); };
  EXPECT_EQ(count({1, 0, 3, 3}), 4);
  EXPECT_EQ(count({2, 1, 3, -1}), 1);
  EXPECT_EQ(count({-1, -1, -1, -1}), 0);
}

TEST_P(CrossEntropy, passes_on_what_is_not_a_number) {
  std::vector<float> logits(20, 0.0f);
  logits[3] = std::nanf("");
  const std::int64_t target = 5;
  EXPECT_TRUE(std::isnan(softmax_cross_entropy(1, 20, logits.data(), 20, &target, 1, nullptr)));
}

TEST(CrossEntropyThreads, do_not_change_the_bits) {
  const std::int64_t rows = 300, classes = 200;
  const auto logits = random_floats(rows * classes, 1);
  const auto targets = some_targets(rows, classes);
  same_with_any_threads([&] {
    std::vector<float> gradient(logits.size());
    const double loss =
        softmax_cross_entropy(rows, classes, logits.data(), classes, targets.data(), 1, gradient.data());
    return std::pair(loss, gradient);
  });
}

}  // namespace
}  // namespace rookery::kernels
