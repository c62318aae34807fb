#include "pipeline/stage_runner.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rookery::pipeline {

using plan::Action;

StageRunner::StageRunner(Clock& clock, plan::ScheduleOptions options, plan::StagePlace place, Borders& borders,
                         StageWork& work)
    : clock_(clock), options_(options), place_(place), borders_(&borders), work_(work), agenda_(options, place) {}

void StageRunner::restart(Borders& borders) {
  borders_ = &borders;
  agenda_ = plan::Agenda(options_, place_);
  input_.reset();
  gradients_.reset();
  versions_.clear();
  ends_ = held_ = false;
}

Task<> StageRunner::run(std::uint64_t end) {
  ends_ = false;  // the work may admit more by now
  for (;;) {
    const std::optional<Action> action = next(end);
    if (action) {
      auto doing = carry_out(*action);
      co_await std::move(doing);
    } else if (agenda_.is_idle() && (ends_ || agenda_.forwards() == end)) {
      co_return;
    } else {
      const bool wants_forward = !ends_ && !held_ && agenda_.forwards() < end &&
                                 agenda_.next(agenda_.forwards() + 1, agenda_.backwards()) == Action::kForward;
      auto waiting = wait(wants_forward);
      co_await std::move(waiting);
    }
  }
}

std::optional<Action> StageRunner::next(std::uint64_t end) {
  collect();
  held_ = false;
  if (!ends_ && agenda_.forwards() < end) {
    const Admission admission = work_.admit(agenda_.forwards());
    ends_ = admission == Admission::kNever;
    held_ = admission == Admission::kLater;
  }
  const bool may_begin = !ends_ && !held_ && agenda_.forwards() < end;
  const bool has_input = place_.is_first() || input_.has_value();
  // On the last stage, what went forward can go back at once.
  const bool has_gradients = place_.is_last() || gradients_.has_value();
  return agenda_.next(agenda_.forwards() + (may_begin && has_input ? 1 : 0),
                      std::min(agenda_.forwards(), agenda_.backwards() + (has_gradients ? 1 : 0)));
}

void StageRunner::collect() {
  if (!place_.is_first() && !input_) {
    input_ = borders_->take_forward();
    ROOKERY_CHECK(!input_ || input_->micro_batch == agenda_.forwards());
  }
  if (!place_.is_last() && !gradients_) {
    gradients_ = borders_->take_backward();
    ROOKERY_CHECK(!gradients_ || gradients_->micro_batch == agenda_.backwards());
  }
}

Task<> StageRunner::carry_out(Action action) {
  const Time start = clock_.now();
  if (action == Action::kForward) {
    const std::uint64_t number = agenda_.forwards();
    const Span span(watch_, "forward", number);
    versions_[number] = agenda_.updates();
    auto passing = work_.forward(place_.is_first() ? Border{.micro_batch = number} : *std::exchange(input_, {}));
    Border output = co_await std::move(passing);
    output.micro_batch = number;
    if (!place_.is_last()) borders_->send_forward(std::move(output));
  } else if (action == Action::kBackward) {
    const std::uint64_t number = agenda_.backwards();
    const Span span(watch_, "backward", number);
    ++record_.staleness[agenda_.updates() - versions_.at(number)];
    versions_.erase(number);
    auto passing = work_.backward(place_.is_last() ? Border{.micro_batch = number} : *std::exchange(gradients_, {}));
    Border gradients = co_await std::move(passing);
    gradients.micro_batch = number;
    if (!place_.is_first()) borders_->send_backward(std::move(gradients));
  } else {
    const Span span(watch_, "update", agenda_.updates());
    auto updating = work_.update(agenda_.updates());
    co_await std::move(updating);
    co_await yield();  // whoever never waits for others would never hear of what they want
  }
  agenda_.done(action);
  record_.busy += clock_.now() - start;
  record_.most_in_flight =
      std::max(record_.most_in_flight, static_cast<std::size_t>(agenda_.forwards() - agenda_.backwards()));
}

Task<> StageRunner::wait(bool for_forward) {
  const Time start = clock_.now();
  const Span span(watch_, for_forward ? "wait for a forward" : "wait for a backward",
                  for_forward ? agenda_.forwards() : agenda_.backwards());
  auto waiting = borders_->changed().wait();
  co_await std::move(waiting);
  (for_forward ? record_.waited_forward : record_.waited_backward) += clock_.now() - start;
}

}  // namespace rookery::pipeline
