#include <algorithm>
#include <limits>

#include <boost/asio/post.hpp>

#include "train/peer_work.h"
#include "train/setup.h"

namespace rookery::train {

Task<> PeerWork::take_steps(Member& member) {
  const config::Train& t = trainee_->settings().train;
  const auto next_after = [](std::int64_t step, std::int64_t every) {
    return every > 0 ? (step / every + 1) * every : std::numeric_limits<std::int64_t>::max();
  };
  while (position_.step < t.steps) {
    const std::int64_t evaluation = t.eval_batches > 0 ? next_after(position_.step, t.eval_every) : t.steps;
    const std::int64_t until = std::min({t.steps, evaluation, next_after(position_.step, t.checkpoint_every)});
    auto running = member.run(
        until, [this](std::uint64_t step) { return may_begin(step); },
        [&](const wire::StepReport& report) {
          stepped(report);
          hand_on(member);
          keep_copy(member);
        });
    co_await std::move(running);
    const bool is_asked_to_save = is_to_save();
    if ((position_.step < until && !is_asked_to_save) || position_.step == t.steps) co_return;  // the run is to end
    if (t.eval_batches > 0 && due(position_.step, t.eval_every)) {
      auto evaluating = evaluate(member, data::Split::kEval, trainee_->evaluated_samples());
      co_await std::move(evaluating);
    }
    if (due(position_.step, t.checkpoint_every) || is_asked_to_save) {
      auto saving = save(member, false);
      co_await std::move(saving);
    }
  }
}

void PeerWork::stepped(const wire::StepReport& report) {
  position_.step = static_cast<std::int64_t>(report.step);
  position_.samples += static_cast<std::int64_t>(report.samples);
  position_.tokens += static_cast<std::int64_t>(report.tokens);
  position_.seconds += report.compute_seconds + report.wait_seconds;
  if (!report.pulled) position_.loss = report.loss;
  busy_seconds_ += report.compute_seconds;
  tell(report);
}

pipeline::Admission PeerWork::may_begin(std::uint64_t step) {
  const std::lock_guard lock(gate_.mutex);
  if (gate_.save_after && step > *gate_.save_after) return pipeline::Admission::kNever;
  if (gate_.halted && !(gate_.end && step <= *gate_.end)) {
    return gate_.end ? pipeline::Admission::kNever : pipeline::Admission::kLater;
  }
  if (!gate_.halted && gate_.hold_after && step > *gate_.hold_after) return pipeline::Admission::kLater;
  gate_.begun = std::max(gate_.begun, step);
  return pipeline::Admission::kNow;
}

// After this step, because somebody has asked for it. What it was asked for before it took part is not for it to do.
bool PeerWork::is_to_save() {
  const std::lock_guard lock(gate_.mutex);
  const auto step = static_cast<std::uint64_t>(position_.step);
  if (!gate_.save_after || step < *gate_.save_after) return false;
  const std::uint64_t asked = *std::exchange(gate_.save_after, std::nullopt);
  gate_.saved = std::max(gate_.saved, asked);
  return step == asked;
}

Task<> PeerWork::end(Member& member) {
  auto finishing = finish(member);
  co_await std::move(finishing);
  auto saving = save(member, true);
  co_await std::move(saving);
  auto parting = member.all_say(true);  // nobody leaves while a neighbour waits for what it has sent
  co_await std::move(parting);
}

// The copies become one, and what it is worth is found out.
Task<> PeerWork::finish(Member& member) {
  const config::Train& t = trainee_->settings().train;
  auto settling = member.settle();
  co_await std::move(settling);
  if (t.eval_batches > 0 && position_.step == t.steps) {
    auto evaluating = evaluate(member, data::Split::kEval, trainee_->evaluated_samples());
    co_await std::move(evaluating);
    auto testing = evaluate(member, data::Split::kTest, kMaxTestSamples);
    co_await std::move(testing);
  }
  if (trainee_->settings().sync.method == "none") co_return;
  auto agreeing = member.agree();
  co_await std::move(agreeing);
}

Task<> PeerWork::evaluate(Member& member, data::Split split, std::uint64_t samples) {
  wire::Evaluated evaluated{.step = static_cast<std::uint64_t>(position_.step),
                            .split = split == data::Split::kEval ? "eval" : "test"};
  const bool alone = trainee_->settings().sync.method == "none";
  auto evaluating = member.evaluate(split, samples, &halted_);
  const std::optional<Evaluation> evaluation = co_await std::move(evaluating);
  if (!evaluation) co_return;  // the run is to end
  LossReport report = evaluation->report;
  if (alone) {
    auto evaluating_own = member.evaluate_own(split, samples, &halted_);
    const std::optional<LossReport> own = co_await std::move(evaluating_own);
    if (!own) co_return;
    report = *own;
  }
  evaluated.loss = report.loss;
  evaluated.accuracy = report.accuracy;
  evaluated.consensus_distance = evaluation->consensus_distance;
  evaluated.own = alone;
  if (alone ? trainee_->stage().is_last() : wiring_->stage().is_first()) tell(evaluated);
}

std::uint64_t PeerWork::halt() {
  halted_ = true;
  if (succession_) succession_->stop(false);
  const std::lock_guard lock(gate_.mutex);
  // A cluster that is whole again begins after those steps whatever happens.
  if (succession_ && succession_->is_whole(own_place().cluster)) gate_.begun = std::max(gate_.begun, own_place().from);
  gate_.halted = true;
  return gate_.begun;
}

void PeerWork::end_at(std::uint64_t step) {
  {
    const std::lock_guard lock(gate_.mutex);
    gate_.end = std::max(step, gate_.begun);
  }
  boost::asio::post(compute_->executor(), [this] {
    if (member_ != nullptr) member_->wake();
  });
}

std::uint64_t PeerWork::hold() {
  const std::lock_guard lock(gate_.mutex);
  if (succession_ && succession_->is_whole(own_place().cluster)) gate_.begun = std::max(gate_.begun, own_place().from);
  gate_.hold_after = gate_.begun;
  return gate_.begun;
}

void PeerWork::release(std::optional<std::uint64_t> save_after, bool holds_again) {
  {
    const std::lock_guard lock(gate_.mutex);
    if (save_after && *save_after > gate_.saved) gate_.save_after = save_after;
    gate_.hold_after = holds_again ? save_after : std::nullopt;
  }
  boost::asio::post(compute_->executor(), [this] {
    if (member_ != nullptr) member_->wake();
  });
}

}  // namespace rookery::train
