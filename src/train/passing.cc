#include "train/passing.h"

#include <algorithm>

#include "train/tensor_border.h"

namespace rookery::train {

using pipeline::Border;

Passing::Passing(Clock& clock, Trainee& trainee, plan::StagePlace stage, pipeline::Borders& borders)
    : trainee_(trainee),
      stage_(stage),
      runner_(clock, {.schedule = plan::Schedule::kAsync, .micro_batches = 1}, stage, borders, *this) {}

Task<std::optional<LossReport>> Passing::pass(data::Split split, std::uint64_t begin, std::uint64_t end,
                                              const std::atomic<bool>* stop) {
  split_ = split;
  begin_ = begin;
  end_ = std::max(begin, std::min(end, trainee_.data().size(split)));
  first_ = runner_.micro_batches();
  stop_ = stop;
  stopped_ = false;
  loss_ = correct_ = terms_ = 0;
  const auto batch = static_cast<std::uint64_t>(trainee_.settings().train.batch);
  auto running = runner_.run(first_ + (end_ - begin_ + batch - 1) / batch);
  co_await std::move(running);
  if (stopped_) co_return std::nullopt;
  const double all = std::max(1.0, terms_);
  co_return LossReport{loss_ / all, correct_ / all, static_cast<std::int64_t>(terms_)};
}

// Whoever is told to stop passes on nothing, and so does whoever gets nothing.
Task<Border> Passing::forward(Border input) {
  stopped_ = stopped_ || (stop_ != nullptr && *stop_) || (!stage_.is_first() && input.tensors.empty());
  if (stopped_) co_return Border{};
  const auto batch_size = static_cast<std::uint64_t>(trainee_.settings().train.batch);
  const std::uint64_t from = begin_ + (input.micro_batch - first_) * batch_size;
  Batch batch;
  if (stage_.is_first() || stage_.is_last()) batch = trainee_.batch(split_, from, std::min(from + batch_size, end_));
  const Tensors inputs = stage_.is_first() ? batch.inputs : to_tensors(input);
  if (!stage_.is_last()) co_return to_border(trainee_.stage().predict(inputs));
  const ops::LossSum loss = trainee_.stage().evaluate(inputs, batch.targets);
  loss_ += loss.sum.item<double>();
  correct_ += static_cast<double>(loss.correct);
  terms_ += static_cast<double>(batch.loss_terms);
  co_return Border{};
}

Task<Border> Passing::backward(Border /*gradients*/) { co_return Border{}; }

Task<> Passing::update(std::uint64_t /*number*/) { co_return; }

}  // namespace rookery::train
