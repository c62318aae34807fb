#include "train/learner.h"

#include <algorithm>
#include <omp.h>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/random.h"
#include "model/profile.h"

// Present when BLAS is OpenBLAS, whose pthread build does not follow OpenMP's number of threads.
extern "C" void openblas_set_num_threads(int threads) __attribute__((weak));

namespace rookery::train {
namespace {

std::int64_t count_loss_terms(const at::Tensor& targets) {
  return targets.numel() - targets.eq(kIgnoredTarget).sum().item<std::int64_t>();
}

double share(double part, std::int64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : 0; }

}  // namespace

LossReport Learner::accumulate_gradients(const Batch& batch, std::int64_t micro_batches, std::uint64_t key) {
  ROOKERY_CHECK(micro_batches >= 1 && micro_batches <= batch.samples);
  stage_.store().zero_gradients();
  LossReport report{.loss_terms = batch.loss_terms};
  const auto divisor = static_cast<double>(std::max<std::int64_t>(1, batch.loss_terms));
  for (std::int64_t i = 0; i < micro_batches; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    const Batch part = micro_batches == 1 ? batch : slice(batch, i, micro_batches);
    const ops::LossSum loss =
        stage_.loss(number, part.inputs, part.targets, {.training = true, .key = key + number}, divisor);
    stage_.backward(number, {});
    report.loss += share(loss.sum.item<double>(), batch.loss_terms);
    report.accuracy += share(static_cast<double>(loss.correct), batch.loss_terms);
  }
  return report;
}

double Learner::update(double lr, double clip) {
  const double norm = gradient_norm(stage_.store());
  stage_.update(lr, clip_scale(norm, clip));
  return norm;
}

LossReport Learner::evaluate(const Batch& batch) const {
  const ops::LossSum loss = stage_.evaluate(batch.inputs, batch.targets);
  return {share(loss.sum.item<double>(), batch.loss_terms), share(static_cast<double>(loss.correct), batch.loss_terms),
          batch.loss_terms};
}

Batch slice(const Batch& batch, std::int64_t i, std::int64_t n) {
  const std::int64_t begin = batch.samples * i / n, length = batch.samples * (i + 1) / n - begin;
  Batch part;
  for (const at::Tensor& input : batch.inputs) part.inputs.push_back(input.narrow(0, begin, length));
  part.targets = batch.targets.narrow(0, begin, length);
  part.samples = length;
  part.tokens = batch.tokens / batch.samples * length;
  part.loss_terms = count_loss_terms(part.targets);
  return part;
}

void warm_up() {
  for (const char* kind : {"gpt", "cnn"}) {
    const model::ModelOptions options = model::complete_options({.kind = kind,
                                                                 .layers = 1,
                                                                 .width = 32,
                                                                 .heads = 2,
                                                                 .context = 32,
                                                                 .vocabulary = 32,
                                                                 .classes = 4,
                                                                 .channels = 1,
                                                                 .image_size = 28});
    const auto model = model::build_model(options);
    Stage stage(*model, {0, model->size()}, plan::Versions::kLatest, {}, at::kCPU);
    stage.initialize(1);
    Learner learner(stage);
    const Batch batch = model::random_batch(model::find_kind(kind).problem, options, 4, 1);
    learner.accumulate_gradients(batch, 1, 1);
    learner.update(1e-3, 1);
  }
}

void use_threads(std::int64_t threads) {
  const int count = static_cast<int>(threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency()));
  at::set_num_threads(count);
  omp_set_num_threads(count);
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(count);
  // Numbers too small to matter would make products several times as slow. Threads that this one starts do the same.
  at::globalContext().setFlushDenormal(true);
}

}  // namespace rookery::train
