#include "observe/activity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace rookery::observe {
namespace {

constexpr std::size_t kMostSpans = 4096;
constexpr double kShortestWait = 1e-4;  // seconds, within something else

std::optional<ActivityKind> kind_of(std::string_view what) {
  if (what == "forward") return ActivityKind::kForward;
  if (what == "backward" || what == "forward and backward") return ActivityKind::kBackward;
  if (what == "update") return ActivityKind::kUpdate;
  if (what.starts_with("wait")) return ActivityKind::kWait;
  return std::nullopt;
}

// Where several were under way at once, they are one.
std::vector<ActivitySpan> joined(const std::vector<ActivitySpan>& spans) {
  std::vector<ActivitySpan> result;
  for (const ActivitySpan& span : spans) {
    if (!result.empty() && span.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, span.end);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

}  // namespace

const char* name_of(ActivityKind kind) {
  static constexpr std::array<const char*, kActivityKinds> kNames = {"forward", "backward", "update", "round", "wait"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<ActivitySpan> Thinning::in_slots(const std::vector<ActivitySpan>& spans, double length, Owed& owed) {
  const double first = spans.front().begin;
  double last = first;
  for (const ActivitySpan& span : spans) last = std::max(last, span.end);
  std::vector<Owed> slots(static_cast<std::size_t>(std::ceil((last - first) / length)));
  for (const ActivitySpan& span : spans) {
    for (auto slot = static_cast<std::size_t>((span.begin - first) / length); slot < slots.size(); ++slot) {
      const double begin = first + static_cast<double>(slot) * length;
      if (begin >= span.end) break;
      slots[slot][static_cast<std::size_t>(span.kind)] +=
          std::max(0.0, std::min(span.end, begin + length) - std::max(span.begin, begin));
    }
  }
  std::vector<ActivitySpan> result;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const double begin = first + static_cast<double>(slot) * length, end = std::min(last, begin + length);
    double nothing = end - begin;
    for (std::size_t kind = 0; kind < kActivityKinds; ++kind) {
      owed[kind] += slots[slot][kind];
      nothing -= slots[slot][kind];
    }
    owed.back() += nothing;
    const auto most = std::ranges::max_element(owed);
    *most -= end - begin;
    if (most == owed.end() - 1) continue;
    const auto kind = static_cast<ActivityKind>(most - owed.begin());
    if (!result.empty() && result.back().kind == kind && begin - result.back().end < length / 2) {
      result.back().end = end;
    } else {
      result.push_back({kind, begin, end});
    }
  }
  return result;
}

std::vector<ActivitySpan> Thinning::thin(std::vector<ActivitySpan> spans, double most_per_second, Owed& owed) {
  if (spans.empty()) return spans;
  double last = spans.front().end;
  for (const ActivitySpan& span : spans) last = std::max(last, span.end);
  const double seconds = std::max(1.0, last - spans.front().begin);
  if (static_cast<double>(spans.size()) <= most_per_second * seconds) return spans;
  return in_slots(spans, 1 / most_per_second, owed);
}

std::vector<ActivitySpan> Thinning::operator()(std::vector<ActivitySpan> spans, double most_per_second) {
  std::erase_if(spans, [](const ActivitySpan& span) { return !(span.begin < span.end); });
  std::ranges::stable_sort(spans, {}, &ActivitySpan::begin);
  const auto others =
      std::ranges::stable_partition(spans, [](const ActivitySpan& span) { return span.kind != ActivityKind::kRound; });
  const std::vector<ActivitySpan> rounds(others.begin(), others.end());
  spans.erase(others.begin(), others.end());
  std::vector<ActivitySpan> result = thin(std::move(spans), most_per_second, computing_);
  const std::vector<ActivitySpan> few = thin(joined(rounds), most_per_second, rounds_);
  result.insert(result.end(), few.begin(), few.end());
  std::ranges::stable_sort(result, {}, &ActivitySpan::begin);
  return result;
}

struct Activity::Core {
  // What has not ended yet, and when what has not been remembered of it began.
  struct Open {
    std::uint64_t number = 0;
    ActivityKind kind{};
    double begin = 0, since = 0;
  };

  std::function<double()> seconds;
  std::mutex mutex;  // spans end on the network's thread and on the computing one
  std::vector<ActivitySpan> spans{};
  std::vector<Open> open{};  // of computing, each within the one before
  std::uint64_t begun = 0;

  void remember(ActivityKind kind, double begin, double end) {
    if (begin < end && spans.size() < kMostSpans) spans.push_back({kind, begin, end});
  }

  // As far as it has gone on.
  void remember_open(double now) {
    for (std::size_t i = 0; i < open.size(); ++i) {
      remember(open[i].kind, open[i].since, i + 1 < open.size() ? open[i + 1].begin : now);
      open[i].since = now;
    }
  }

  std::function<void()> begin_round(std::shared_ptr<Core> self) {
    return [self = std::move(self), begin = seconds()] {
      const double end = self->seconds();
      const std::lock_guard lock(self->mutex);
      self->remember(ActivityKind::kRound, begin, end);
    };
  }

  std::function<void()> begin(std::shared_ptr<Core> self, ActivityKind kind) {
    const double now = seconds();
    const std::lock_guard lock(mutex);
    open.push_back({.number = ++begun, .kind = kind, .begin = now, .since = now});
    return [self = std::move(self), number = begun] {
      const double end = self->seconds();
      const std::lock_guard inner_lock(self->mutex);
      self->end(number, end);
    };
  }

  void end(std::uint64_t number, double now) {
    const auto found = std::ranges::find(open, number, &Open::number);
    if (found == open.end()) return;  // what it was within has ended before
    const Open own = *found;
    Open* around = found != open.begin() ? &*(found - 1) : nullptr;
    open.erase(found, open.end());
    if (around != nullptr && own.kind == ActivityKind::kWait && now - own.begin < kShortestWait) return;
    if (around != nullptr) {
      remember(around->kind, around->since, own.begin);
      around->since = now;
    }
    remember(own.kind, own.since, now);
  }
};

Activity::Activity(std::function<double()> seconds) : core_(std::make_shared<Core>()) {
  core_->seconds = std::move(seconds);
}

BeginSpan Activity::computing() {
  return [core = core_](std::string_view what, std::uint64_t) -> std::function<void()> {
    const auto kind = kind_of(what);
    return kind ? core->begin(core, *kind) : std::function<void()>();
  };
}

BeginSpan Activity::rounds() {
  return [core = core_](std::string_view, std::uint64_t) { return core->begin_round(core); };
}

std::vector<ActivitySpan> Activity::take() {
  const double now = core_->seconds();
  const std::lock_guard lock(core_->mutex);
  core_->remember_open(now);
  return std::exchange(core_->spans, {});
}

}  // namespace rookery::observe
