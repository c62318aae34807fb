// The kernels at the shapes of a small (width 128) and a medium (width 768) transformer, the matrix product beside
// OpenBLAS. Compare with one thread each, and trust medians of interleaved runs:
//   OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 ./kernels_bench --benchmark_repetitions=5
//     --benchmark_enable_random_interleaving=true --benchmark_report_aggregates_only=true

#include <benchmark/benchmark.h>
#include <cblas.h>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "tensor/kernels/attention.h"
#include "tensor/kernels/gemm.h"
#include "tensor/kernels/layer_norm.h"

namespace rookery::kernels {
namespace {

std::vector<float> random_floats(std::int64_t n) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = uniform(generator);
  return values;
}

// The three products of a linear layer with weight W (out, in) and x (rows, in).
enum class Form { kForward, kInputGradient, kWeightGradient };  // y = x Wᵀ, dx = dy W, dW += dyᵀ x
enum class Library { kRookery, kOpenBlas };

struct Product {
  Form form;
  std::int64_t m, n, k;
};

Product product_of(Form form, std::int64_t rows, std::int64_t out, std::int64_t in) {
  switch (form) {
    case Form::kForward:
      return {form, rows, out, in};
    case Form::kInputGradient:
      return {form, rows, in, out};
    case Form::kWeightGradient:
      break;
  }
  return {form, out, in, rows};
}

void run_product(Library library, const Product& p, const float* a, const float* b, float* c) {
  const bool a_transposed = p.form == Form::kWeightGradient, b_transposed = p.form == Form::kForward;
  if (library == Library::kRookery) {
    gemm(p.m, p.n, p.k, a_transposed ? Matrix{a, 1, p.m} : Matrix{a, p.k, 1},
         b_transposed ? Matrix{b, 1, p.k} : Matrix{b, p.n, 1}, c, p.n, p.form == Form::kWeightGradient);
  } else {
    const auto size = [](std::int64_t n) { return static_cast<blasint>(n); };
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans,
                size(p.m), size(p.n), size(p.k), 1, a, size(a_transposed ? p.m : p.k), b,
                size(b_transposed ? p.k : p.n), p.form == Form::kWeightGradient ? 1 : 0, c, size(p.n));
  }
}

void report_rate(benchmark::State& state, double operations) {
  state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
}

void bench_product(benchmark::State& state, Library library, Product p) {
  const auto a = random_floats(p.m * p.k), b = random_floats(p.k * p.n);
  auto c = random_floats(p.m * p.n);
  for (auto _ : state) {
    run_product(library, p, a.data(), b.data(), c.data());
    benchmark::ClobberMemory();
  }
  report_rate(state, 2.0 * static_cast<double>(p.m * p.n * p.k));
}

void register_products() {
  struct Layer {
    std::int64_t rows, out, in;
  };
  std::vector<Layer> layers = {{2048, 384, 128}, {2048, 128, 128}, {2048, 512, 128}, {2048, 128, 512}};
  for (std::int64_t rows : {512, 2048}) {
    for (auto [out, in] : {std::pair{768, 768}, {2304, 768}, {3072, 768}, {768, 3072}}) {
      layers.push_back({rows, out, in});
    }
  }
  layers.push_back({512, 50257, 128});
  layers.push_back({512, 50257, 768});
  for (const Layer& layer : layers) {
    for (auto [form, name] :
         {std::pair{Form::kForward, "y"}, {Form::kInputGradient, "dx"}, {Form::kWeightGradient, "dW"}}) {
      const Product p = product_of(form, layer.rows, layer.out, layer.in);
      for (auto [library, who] : {std::pair{Library::kRookery, "rookery"}, {Library::kOpenBlas, "openblas"}}) {
        benchmark::RegisterBenchmark(fmt::format("gemm/{}/{}x{}x{}/{}", name, p.m, p.n, p.k, who).c_str(),
                                     bench_product, library, p);
      }
    }
  }
}

struct AttentionCase {
  std::int64_t batch, heads, length, width;
  bool causal;
};

void bench_attention(benchmark::State& state, AttentionCase c, bool backward) {
  const std::int64_t width = c.heads * c.width, tokens = c.batch * c.length;
  const auto qkv = random_floats(tokens * 3 * width), dout = random_floats(tokens * width);
  std::vector<float> gradient(qkv.size()), out(dout.size()), statistics(static_cast<std::size_t>(tokens * c.heads));
  const AttentionShape shape{c.batch,
                             c.heads,
                             c.length,
                             c.length,
                             c.width,
                             3 * width,
                             3 * width,
                             3 * width,
                             c.causal,
                             nullptr,
                             1 / std::sqrt(static_cast<float>(c.width))};
  const float *q = qkv.data(), *k = q + width, *v = k + width;
  attention_forward(shape, q, k, v, out.data(), statistics.data());
  for (auto _ : state) {
    if (backward) {
      attention_backward(shape, q, k, v, out.data(), statistics.data(), dout.data(), gradient.data(),
                         gradient.data() + width, gradient.data() + 2 * width);
    } else {
      attention_forward(shape, q, k, v, out.data(), statistics.data());
    }
    benchmark::ClobberMemory();
  }
  // Two products of (T, T, width) forward, five backward; half of each if causal.
  const double product = 2.0 * static_cast<double>(tokens * c.length * width) / (c.causal ? 2 : 1);
  report_rate(state, product * (backward ? 5 : 2));
}

void register_attention() {
  for (const AttentionCase& c : {AttentionCase{8, 8, 256, 16, true},
                                 {8, 8, 256, 16, false},
                                 {2, 12, 512, 64, true},
                                 {2, 12, 1024, 64, true},
                                 {2, 12, 1024, 64, false},
                                 {2, 12, 512, 80, true}}) {
    for (bool backward : {false, true}) {
      benchmark::RegisterBenchmark(fmt::format("attention/{}/B{}_H{}_T{}_W{}{}", backward ? "backward" : "forward",
                                               c.batch, c.heads, c.length, c.width, c.causal ? "_causal" : "")
                                       .c_str(),
                                   bench_attention, c, backward)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

void bench_layer_norm(benchmark::State& state, bool backward) {
  const std::int64_t rows = 2048, width = state.range(0);
  const auto x = random_floats(rows * width), dy = random_floats(rows * width), weight = random_floats(width);
  std::vector<float> y(x.size()), statistics(2 * rows), dweight(weight), dbias(weight);
  layer_norm_forward(rows, width, x.data(), weight.data(), weight.data(), 1e-5f, y.data(), statistics.data());
  for (auto _ : state) {
    if (backward) {
      layer_norm_backward(rows, width, x.data(), weight.data(), statistics.data(), dy.data(), y.data(), dweight.data(),
                          dbias.data());
    } else {
      layer_norm_forward(rows, width, x.data(), weight.data(), weight.data(), 1e-5f, y.data(), statistics.data());
    }
    benchmark::ClobberMemory();
  }
}

BENCHMARK_CAPTURE(bench_layer_norm, forward, false)->Arg(128)->Arg(768)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(bench_layer_norm, backward, true)->Arg(128)->Arg(768)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rookery::kernels

int main(int argc, char** argv) {
  rookery::kernels::register_products();
  rookery::kernels::register_attention();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
