#include "plan/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "base/suggest.h"

namespace rookery::plan {
namespace {

constexpr std::array<std::pair<Schedule, std::string_view>, 3> kNames = {
    {{Schedule::kGpipe, "gpipe"}, {Schedule::k1f1b, "1f1b"}, {Schedule::kAsync, "async"}}};

}  // namespace

Schedule parse_schedule(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [schedule, its_name] : kNames) {
    if (name == its_name) return schedule;
    known.emplace_back(its_name);
  }
  throw InputError("pipeline.schedule: there is no schedule '{}'{}", name, did_you_mean(std::string(name), known));
}

std::string_view name_of(Schedule schedule) {
  return std::ranges::find(kNames, schedule, &std::pair<Schedule, std::string_view>::first)->second;
}

std::size_t in_flight(const ScheduleOptions& options, StagePlace place) {
  const std::size_t from_here = place.stages - place.stage;
  switch (options.schedule) {
    case Schedule::kGpipe:
      return options.micro_batches;
    case Schedule::k1f1b:
      return std::min<std::size_t>(options.micro_batches, from_here);
    case Schedule::kAsync:
      return options.in_flight > 0 ? options.in_flight : from_here;
  }
  ROOKERY_CHECK(false, "schedule = {}", static_cast<int>(options.schedule));
}

std::uint64_t staleness_bound(const ScheduleOptions& options, StagePlace place) {
  if (is_synchronous(options.schedule)) return 0;
  const std::uint64_t others = in_flight(options, place) - 1;
  return (others + options.update_frequency - 1) / options.update_frequency;
}

Agenda::Agenda(ScheduleOptions options, StagePlace place) : options_(options), limit_(plan::in_flight(options, place)) {
  ROOKERY_CHECK(options.micro_batches > 0 && options.micro_batches % options.group() == 0,
                "micro_batches = {}, update_frequency = {}", options.micro_batches, options.update_frequency);
  ROOKERY_CHECK(place.stage < place.stages && limit_ > 0);
}

bool Agenda::is_idle() const { return forwards_ == backwards_ && backwards_ == updates_ * options_.group(); }

// Whether the schedule allows another forward, whatever has come.
bool Agenda::may_forward() const {
  if (forwards_ - backwards_ >= limit_) return false;
  if (!is_synchronous(options_.schedule)) return true;
  // The next step's weights are those after this one's update.
  return forwards_ < (updates_ + 1) * options_.micro_batches;
}

std::optional<Action> Agenda::next(std::uint64_t forwards, std::uint64_t backwards) const {
  if (backwards_ == (updates_ + 1) * options_.group()) return Action::kUpdate;
  const bool has_forward = may_forward() && forwards > forwards_;
  const bool has_backward = backwards_ < forwards_ && backwards > backwards_;
  if (options_.schedule == Schedule::kAsync) {
    // In turn where both are possible: whoever goes through all backwards first, and then through all forwards, leaves
    // the stages on either side without work in the meantime.
    if (has_forward && (was_backward_ || !has_backward)) return Action::kForward;
    return has_backward ? std::optional(Action::kBackward) : std::nullopt;
  }
  // The order is fixed: forwards up to the limit (of the step, in gpipe), then a backward for each that is on its way.
  if (may_forward()) return has_forward ? std::optional(Action::kForward) : std::nullopt;
  return has_backward ? std::optional(Action::kBackward) : std::nullopt;
}

void Agenda::done(Action action) {
  switch (action) {
    case Action::kForward:
      ++forwards_;
      was_backward_ = false;
      return;
    case Action::kBackward:
      ++backwards_;
      was_backward_ = true;
      return;
    case Action::kUpdate:
      ++updates_;
      return;
  }
}

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Carries agendas out, each action as soon as its stage is free and its input is there.
class Rehearsal {
 public:
  Rehearsal(const std::vector<ScheduleOptions>& options, const std::vector<ActionTimes>& times, std::uint64_t steps,
            double variation)
      : times_(times), total_(steps * options.at(0).micro_batches), variation_(variation) {
    for (std::size_t i = 0; i < options.size(); ++i) {
      stages_.push_back({.agenda = Agenda(options[i], {i, options.size()})});
    }
  }

  std::vector<PlannedAction> run() {
    std::vector<PlannedAction> actions;
    actions.reserve(stages_.size() * total_ * 5 / 2);
    for (std::size_t i = 0; i < stages_.size(); ++i) next_.push_back(next_of(i));
    for (;;) {
      // Of all actions that are possible, the one that begins first.
      const std::optional<PlannedAction>* first = nullptr;
      for (const auto& next : next_) {
        if (next && (first == nullptr || next->begin < (*first)->begin)) first = &next;
      }
      if (first == nullptr) return actions;
      actions.push_back(**first);
      carry_out(actions.back());
    }
  }

 private:
  struct Stage {
    Agenda agenda;
    double free = 0;                             // when it has done what it does
    double forward_free = 0, backward_free = 0;  // when what it sends has left
    std::vector<double> inputs{}, returns{};     // when each came
  };

  // The earliest action of a stage: at the moment when it is free, or when something comes.
  std::optional<PlannedAction> next_of(std::size_t i) const {
    const Stage& stage = stages_[i];
    const bool is_last = i + 1 == stages_.size();
    auto input = std::ranges::upper_bound(stage.inputs, stage.free);
    auto back = std::ranges::upper_bound(stage.returns, stage.free);
    for (double now = stage.free;;) {
      const auto inputs = i == 0 ? total_ : static_cast<std::uint64_t>(input - stage.inputs.begin());
      const auto returns = is_last ? stage.agenda.forwards() : static_cast<std::uint64_t>(back - stage.returns.begin());
      if (const auto action = stage.agenda.next(inputs, returns)) return planned(i, *action, now);
      if (input == stage.inputs.end() && back == stage.returns.end()) return std::nullopt;
      now = std::min(input == stage.inputs.end() ? kNever : *input, back == stage.returns.end() ? kNever : *back);
      while (input != stage.inputs.end() && *input <= now) ++input;
      while (back != stage.returns.end() && *back <= now) ++back;
    }
  }

  PlannedAction planned(std::size_t i, Action action, double now) const {
    const ActionTimes& t = times_[i];
    const Agenda& agenda = stages_[i].agenda;
    const bool forward = action == Action::kForward;
    const double takes = forward ? t.forward : action == Action::kBackward ? t.backward : t.update;
    const std::uint64_t number = forward                       ? agenda.forwards()
                                 : action == Action::kBackward ? agenda.backwards()
                                                               : agenda.backwards() - 1;
    return {i, action, number, now, now + takes * factor(i, action, number)};
  }

  double factor(std::size_t stage, Action action, std::uint64_t number) const {
    if (variation_ == 0) return 1;
    static const std::array<double, 251> kDraws =
        draws();  // a prime number, so that the same ones do not meet again soon
    return 1 + variation_ * kDraws[(31 * stage + 17 * static_cast<std::size_t>(action) + 3 * number) % kDraws.size()];
  }

  static std::array<double, 251> draws() {
    std::array<double, 251> draws;
    Random random({word_of("rehearsal")});
    for (double& draw : draws) draw = 2 * random.uniform() - 1;
    return draws;
  }

  void carry_out(const PlannedAction& action) {
    Stage& stage = stages_[action.stage];
    stage.agenda.done(action.action);
    stage.free = action.end;
    const ActionTimes& t = times_[action.stage];
    const auto send = [&](double& line, double takes) { return line = std::max(line, action.end) + takes; };
    double& back_line = t.one_card ? stage.forward_free : stage.backward_free;
    if (action.action == Action::kForward && action.stage + 1 < stages_.size()) {
      const double sent = send(stage.forward_free, t.send_forward);
      stages_[action.stage + 1].inputs.push_back(sent + t.latency_forward);
      next_[action.stage + 1] = next_of(action.stage + 1);
    } else if (action.action == Action::kBackward && action.stage > 0) {
      const double sent = send(back_line, t.send_backward);
      stages_[action.stage - 1].returns.push_back(sent + t.latency_backward);
      next_[action.stage - 1] = next_of(action.stage - 1);
    }
    next_[action.stage] = next_of(action.stage);
  }

  const std::vector<ActionTimes>& times_;
  std::uint64_t total_;
  double variation_;
  std::vector<Stage> stages_;
  std::vector<std::optional<PlannedAction>> next_;  // of each stage, if something is possible
};

}  // namespace

std::vector<PlannedAction> timeline(const std::vector<ScheduleOptions>& options, const std::vector<ActionTimes>& times,
                                    std::uint64_t steps, double variation) {
  ROOKERY_CHECK(!options.empty() && options.size() == times.size());
  return Rehearsal(options, times, steps, variation).run();
}

std::string draw(const std::vector<PlannedAction>& actions, std::size_t stages, double column) {
  double end = 0;
  std::uint64_t highest = 0;
  for (const PlannedAction& action : actions) {
    end = std::max(end, action.end);
    highest = std::max(highest, action.micro_batch);
  }
  const auto columns = static_cast<std::size_t>(std::ceil(end / column - 1e-9));
  const std::size_t width = fmt::format("({})|", highest).size();
  std::vector<std::vector<std::string>> cells(stages, std::vector<std::string>(columns));
  for (const PlannedAction& action : actions) {
    const auto first = static_cast<std::size_t>(std::floor(action.begin / column + 1e-9));
    const auto after = std::max(first + 1, static_cast<std::size_t>(std::ceil(action.end / column - 1e-9)));
    auto& row = cells[action.stage];
    if (action.action == Action::kUpdate) {
      if (first > 0) row[first - 1] += '|';
      continue;
    }
    const bool forward = action.action == Action::kForward;
    for (std::size_t c = first; c < std::min(after, columns); ++c) {
      row[c] = fmt::format(fmt::runtime(forward ? "{} " : "({})"), action.micro_batch);
    }
  }
  std::string picture;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::string line = fmt::format("stage {:<3}", stage);
    for (std::string cell : cells[stage]) {
      if (cell.empty()) cell = ". ";
      if (!cell.ends_with('|')) cell += ' ';
      line += fmt::format("{:>{}}", cell, width + 1);
    }
    picture += line.substr(0, line.find_last_not_of(". ") + 1) + '\n';
  }
  return picture;
}

}  // namespace rookery::plan
