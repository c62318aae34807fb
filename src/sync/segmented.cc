#include "sync/segmented.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"

namespace rookery::sync {

Segmented::Segmented(Executor executor, std::vector<Part> parts)
    : executor_(std::move(executor)), parts_(std::move(parts)), moments_(parts_.size()) {
  ROOKERY_CHECK(!parts_.empty());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    ROOKERY_CHECK(parts_[i].begin == (i == 0 ? 0 : parts_[i - 1].end) && parts_[i].begin <= parts_[i].end);
  }
}

Copy Segmented::copy_of(std::size_t part, Copy copy) const {
  const std::size_t begin = parts_[part].begin, size = parts_[part].end - begin;
  return {.parameters = copy.parameters.subspan(begin, size),
          .gradients = copy.gradients.subspan(begin, size),
          .moments = moments_[part]};
}

template <typename Ask>
Task<> Segmented::ask_all(Ask ask) {
  TaskGroup group(executor_);
  for (std::size_t i = 0; i < parts_.size(); ++i) group.spawn(ask(i));
  auto all = group.join();
  co_await std::move(all);
}

void Segmented::start(Copy copy) {
  ROOKERY_CHECK(parts_.back().end == copy.parameters.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    moments_[i].clear();
    for (const std::span<float> moment : copy.moments) {
      moments_[i].push_back(moment.subspan(parts_[i].begin, parts_[i].end - parts_[i].begin));
    }
    parts_[i].method->start(copy_of(i, copy));
  }
}

Move Segmented::move(std::uint64_t step) const { return parts_[0].method->move(step); }
double Segmented::lr_factor(std::uint64_t step) const { return parts_[0].method->lr_factor(step); }
bool Segmented::averages_gradients(std::uint64_t step) const { return parts_[0].method->averages_gradients(step); }
bool Segmented::works_on_blocks() const { return parts_[0].method->works_on_blocks(); }
bool Segmented::keeps_copies_equal(std::uint64_t done) const { return parts_[0].method->keeps_copies_equal(done); }
bool Segmented::pulls() const { return parts_[0].method->pulls(); }

void Segmented::gradients_ready(std::uint64_t step, std::size_t from, Copy copy) {
  for (std::size_t i = parts_.size(); i-- > 0;) {
    if (parts_[i].end <= from) return;
    parts_[i].method->gradients_ready(step, from - std::min(from, parts_[i].begin), copy_of(i, copy));
  }
}

Task<> Segmented::before_update(std::uint64_t step, Copy copy) {
  return ask_all([this, step, copy](std::size_t i) { return parts_[i].method->before_update(step, copy_of(i, copy)); });
}

void Segmented::before_block(std::size_t begin, std::size_t end, Copy copy) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::size_t from = std::max(begin, parts_[i].begin), to = std::min(end, parts_[i].end);
    if (from >= to) continue;
    parts_[i].method->before_block(from - parts_[i].begin, to - parts_[i].begin, copy_of(i, copy));
  }
}

void Segmented::after_block(std::size_t begin, std::size_t end, Copy copy) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::size_t from = std::max(begin, parts_[i].begin), to = std::min(end, parts_[i].end);
    if (from >= to) continue;
    parts_[i].method->after_block(from - parts_[i].begin, to - parts_[i].begin, copy_of(i, copy));
  }
}

void Segmented::pull(std::uint64_t step, double lr_share, Copy copy) {
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].method->pull(step, lr_share, copy_of(i, copy));
}

Task<> Segmented::after_step(std::uint64_t step, Copy copy) {
  return ask_all([this, step, copy](std::size_t i) { return parts_[i].method->after_step(step, copy_of(i, copy)); });
}

Task<> Segmented::settle(Copy copy) {
  return ask_all([this, copy](std::size_t i) { return parts_[i].method->settle(copy_of(i, copy)); });
}

std::optional<double> Segmented::drift(Copy copy) const {
  double squares = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto own = parts_[i].method->drift(copy_of(i, copy));
    if (!own) return std::nullopt;
    squares += *own * *own;
  }
  return std::sqrt(squares);
}

std::vector<Method::NamedState> Segmented::state() {
  std::vector<NamedState> all;
  for (const Part& part : parts_) {
    for (const NamedState& own : part.method->state()) all.push_back({own.name, own.values, part.begin + own.begin});
  }
  return all;
}

bool Segmented::has_agreed() const {
  return std::ranges::all_of(parts_, [](const auto& part) { return part.method->has_agreed(); });
}

std::vector<std::span<float>> Segmented::handed_on(Copy copy, bool equal) {
  std::vector<std::span<float>> all;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    for (const std::span<float> own : parts_[i].method->handed_on(copy_of(i, copy), equal)) all.push_back(own);
  }
  return all;
}

std::vector<std::shared_ptr<const Lendable>> Segmented::lends() const {
  std::vector<std::shared_ptr<const Lendable>> all;
  for (const Part& part : parts_) std::ranges::move(part.method->lends(), std::back_inserter(all));
  return all;
}

void Segmented::recall() {
  for (const Part& part : parts_) part.method->recall();
}

void Segmented::begin_again(std::uint64_t steps_done, Copy copy, bool equal) {
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].method->begin_again(steps_done, copy_of(i, copy), equal);
}

std::uint64_t Segmented::rounds_failed() const {
  std::uint64_t most = 0;
  for (const Part& part : parts_) most = std::max(most, part.method->rounds_failed());
  return most;
}

std::uint64_t Segmented::rounds() const {
  std::uint64_t most = 0;
  for (const Part& part : parts_) most = std::max(most, part.method->rounds());
  return most;
}

}  // namespace rookery::sync
