#include "observe/activity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <string_view>

namespace rookery::observe {
namespace {

constexpr std::size_t kMostSpans = 4096;

std::optional<ActivityKind> kind_of(std::string_view what) {
  if (what == "forward") return ActivityKind::kForward;
  if (what == "backward" || what == "forward and backward") return ActivityKind::kBackward;
  if (what == "update") return ActivityKind::kUpdate;
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
  static constexpr std::array<const char*, kActivityKinds> kNames = {"forward", "backward", "update", "round"};
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
  std::function<double()> seconds;
  std::mutex mutex;  // spans end on the network's thread and on the computing one
  std::vector<ActivitySpan> spans{};

  std::function<void()> begin(std::shared_ptr<Core> self, ActivityKind kind) {
    return [self = std::move(self), kind, begin = seconds()] {
      const double end = self->seconds();
      const std::lock_guard lock(self->mutex);
      if (self->spans.size() < kMostSpans) self->spans.push_back({kind, begin, end});
    };
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
  return [core = core_](std::string_view, std::uint64_t) { return core->begin(core, ActivityKind::kRound); };
}

std::vector<ActivitySpan> Activity::take() {
  const std::lock_guard lock(core_->mutex);
  return std::exchange(core_->spans, {});
}

}  // namespace rookery::observe
