#include "tensor/kernels/attention.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tensor/kernels/internal/targets.h"
#include "tensor/kernels/internal/test_support.h"

namespace rookery::kernels {
namespace {

// Queries, keys and values side by side in one buffer if the lengths are equal, as a packed projection gives them;
// else queries alone, and keys beside values. `gap` floats after the heads belong to nobody.
struct Problem {
  std::int64_t batch, heads, queries, keys, width;
  bool causal = false;
  std::vector<std::int64_t> key_lengths = {};
  std::int64_t gap = 0;
};

constexpr float kUntouched = 1234;

struct Buffers {
  AttentionShape shape;
  std::vector<float> query_data, key_data;
  std::int64_t query_at = 0, key_at, value_at;
  bool packed;

  const float* q() const { return query_data.data(); }
  const float* k() const { return (packed ? query_data : key_data).data() + key_at; }
  const float* v() const { return (packed ? query_data : key_data).data() + value_at; }
};

Buffers buffers_of(const Problem& p) {
  Buffers b;
  const std::int64_t width = p.heads * p.width;
  b.packed = p.queries == p.keys;
  const std::int64_t query_stride = (b.packed ? 3 * width : width) + p.gap;
  const std::int64_t key_stride = b.packed ? query_stride : 2 * width + p.gap;
  b.key_at = b.packed ? width : 0;
  b.value_at = b.key_at + width;
  b.query_data = random_floats(p.batch * p.queries * query_stride, 1);
  b.key_data = random_floats(b.packed ? 0 : p.batch * p.keys * key_stride, 2);
  b.shape = {p.batch,
             p.heads,
             p.queries,
             p.keys,
             p.width,
             query_stride,
             key_stride,
             key_stride,
             p.causal,
             p.key_lengths.empty() ? nullptr : p.key_lengths.data(),
             2.5f / std::sqrt(static_cast<float>(p.width))};
  return b;
}

struct Result {
  std::vector<float> out, log_sum_exp, query_gradient, key_gradient;
  bool operator==(const Result&) const = default;
};

Result run(const Buffers& b, const std::vector<float>& dout) {
  const AttentionShape& s = b.shape;
  Result r;
  r.out.resize(dout.size());
  r.log_sum_exp.resize(s.batch * s.heads * s.query_length);
  r.query_gradient.assign(b.query_data.size(), kUntouched);
  r.key_gradient.assign(b.key_data.size(), kUntouched);
  float* keys = (b.packed ? r.query_gradient : r.key_gradient).data();
  attention_forward(s, b.q(), b.k(), b.v(), r.out.data(), r.log_sum_exp.data());
  attention_backward(s, b.q(), b.k(), b.v(), r.out.data(), r.log_sum_exp.data(), dout.data(), r.query_gradient.data(),
                     keys + b.key_at, keys + b.value_at);
  return r;
}

struct Expected {
  std::vector<double> out, log_sum_exp, query_gradient, key_gradient;
};

// One head, the whole matrix, in double.
void reference_head(const Buffers& b, std::int64_t sample, std::int64_t h, const std::vector<float>& dout,
                    Expected& e) {
  const AttentionShape& s = b.shape;
  const std::int64_t keys = s.key_lengths ? s.key_lengths[sample] : s.key_length, w = s.head_width;
  const auto query_row = [&](std::int64_t i) { return (sample * s.query_length + i) * s.query_stride + h * w; };
  const auto key_row = [&](std::int64_t j) { return (sample * s.key_length + j) * s.key_stride + h * w; };
  const auto out_row = [&](std::int64_t i) { return ((sample * s.query_length + i) * s.heads + h) * w; };
  double* dk = (b.packed ? e.query_gradient : e.key_gradient).data() + b.key_at;
  double* dv = (b.packed ? e.query_gradient : e.key_gradient).data() + b.value_at;
  for (std::int64_t j = 0; j < s.key_length; ++j) {
    std::fill_n(dk + key_row(j), w, 0.0);
    std::fill_n(dv + key_row(j), w, 0.0);
  }
  for (std::int64_t i = 0; i < s.query_length; ++i) {
    const std::int64_t limit = s.causal ? std::min(keys, i + 1) : keys;
    const float *q = b.q() + query_row(i), *g = dout.data() + out_row(i);
    std::vector<double> p(limit), dp(limit);
    double sum = 0, delta = 0;
    for (std::int64_t j = 0; j < limit; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < w; ++c) score += double{q[c]} * double{b.k()[key_row(j) + c]};
      sum += p[j] = std::exp(score * double{s.scale});
    }
    e.log_sum_exp[(sample * s.heads + h) * s.query_length + i] = std::log(sum);
    double* dq = e.query_gradient.data() + query_row(i);
    std::fill_n(dq, w, 0.0);
    for (std::int64_t j = 0; j < limit; ++j) {
      p[j] /= sum;
      for (std::int64_t c = 0; c < w; ++c) {
        const double v = b.v()[key_row(j) + c];
        e.out[out_row(i) + c] += p[j] * v;
        dv[key_row(j) + c] += p[j] * double{g[c]};
        dp[j] += v * double{g[c]};
      }
      delta += p[j] * dp[j];
    }
    for (std::int64_t j = 0; j < limit; ++j) {
      const double ds = p[j] * (dp[j] - delta) * double{s.scale};
      for (std::int64_t c = 0; c < w; ++c) {
        dq[c] += ds * double{b.k()[key_row(j) + c]};
        dk[key_row(j) + c] += ds * double{q[c]};
      }
    }
  }
}

Result check(const Problem& p) {
  const Buffers b = buffers_of(p);
  const auto dout = random_floats(p.batch * p.queries * p.heads * p.width, 3);
  Result result = run(b, dout);
  Expected e;
  e.out.resize(result.out.size());
  e.log_sum_exp.resize(result.log_sum_exp.size());
  e.query_gradient.assign(result.query_gradient.size(), kUntouched);
  e.key_gradient.assign(result.key_gradient.size(), kUntouched);
  for (std::int64_t sample = 0; sample < p.batch; ++sample) {
    for (std::int64_t h = 0; h < p.heads; ++h) reference_head(b, sample, h, dout, e);
  }
  SCOPED_TRACE(testing::Message() << "width " << p.width << ", queries " << p.queries << ", keys " << p.keys);
  expect_near(result.out, e.out, 2e-6);
  expect_near(result.log_sum_exp, e.log_sum_exp, 2e-6);
  expect_near(result.query_gradient, e.query_gradient, 1e-5);
  expect_near(result.key_gradient, e.key_gradient, 1e-5);
  return result;
}

class Attention : public EveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Attention, testing::ValuesIn(every_target()), target_name);

TEST_P(Attention, at_edge_sizes) {
  for (std::int64_t width : {1, 7, 16, 20, 80}) {
    for (std::int64_t length : {1, 2, 6, 7, 16, 17, 45}) {
      for (bool causal : {false, true}) {
        check({.batch = 1, .heads = 2, .queries = length, .keys = length, .width = width, .causal = causal});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Attention, over_several_blocks_of_queries_and_keys) {
  check({.batch = 1, .heads = 1, .queries = 331, .keys = 331, .width = 16, .causal = true});
  check({.batch = 1, .heads = 1, .queries = 331, .keys = 331, .width = 64, .causal = true});
  check({.batch = 1, .heads = 1, .queries = 300, .keys = 300, .width = 24});
}

TEST_P(Attention, across_sequences_of_different_length) {
  check({.batch = 2, .heads = 2, .queries = 5, .keys = 33, .width = 16});
  check({.batch = 2, .heads = 3, .queries = 33, .keys = 1, .width = 9});
  check({.batch = 1, .heads = 2, .queries = 130, .keys = 21, .width = 64});
}

TEST_P(Attention, ignores_padding) {
  check({.batch = 4, .heads = 2, .queries = 19, .keys = 19, .width = 16, .key_lengths = {1, 19, 16, 7}});
  check({.batch = 3, .heads = 2, .queries = 19, .keys = 19, .width = 10, .causal = true, .key_lengths = {1, 19, 8}});
  check({.batch = 3, .heads = 1, .queries = 4, .keys = 40, .width = 16, .key_lengths = {40, 39, 2}});
}

TEST_P(Attention, leaves_what_lies_between_tokens_alone) {
  check({.batch = 2, .heads = 2, .queries = 9, .keys = 9, .width = 5, .causal = true, .gap = 3});
  check({.batch = 2, .heads = 2, .queries = 9, .keys = 12, .width = 5, .key_lengths = {3, 12}, .gap = 3});
}

TEST(AttentionThreads, do_not_change_the_bits) {
  same_with_any_threads(
      [] { return check({.batch = 2, .heads = 3, .queries = 70, .keys = 70, .width = 16, .causal = true}); });
}

TEST(AttentionScores, may_be_large) {
  const Problem p{.batch = 1, .heads = 1, .queries = 20, .keys = 20, .width = 4};
  Buffers b = buffers_of(p);
  for (float& value : b.query_data) value *= 40;
  const Result result = run(b, random_floats(20 * 4, 3));
  for (float value : result.out) EXPECT_TRUE(std::isfinite(value));
  for (float value : result.query_gradient) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace rookery::kernels
