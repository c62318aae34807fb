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

// What most of a slot was spent on.
class Slot {
 public:
  void spend(ActivityKind kind, double seconds) { spent_[static_cast<std::size_t>(kind)] += seconds; }

  std::optional<ActivityKind> most(double length) const {
    double idle = length;
    for (const double seconds : spent_) idle -= seconds;
    const auto most = std::ranges::max_element(spent_);
    if (*most <= 0 || *most < idle) return std::nullopt;
    return static_cast<ActivityKind>(most - spent_.begin());
  }

 private:
  std::array<double, kActivityKinds> spent_{};
};

std::vector<ActivitySpan> in_slots(const std::vector<ActivitySpan>& spans, double length) {
  const double first = std::floor(spans.front().begin / length);
  double last_end = 0;
  for (const ActivitySpan& span : spans) last_end = std::max(last_end, span.end);
  std::vector<Slot> slots(static_cast<std::size_t>(std::ceil(last_end / length) - first) + 1);
  for (const ActivitySpan& span : spans) {
    for (double at = span.begin; at < span.end;) {
      const double slot = std::floor(at / length);
      const double end = std::min(span.end, std::max((slot + 1) * length, std::nextafter(at, span.end)));
      slots[static_cast<std::size_t>(slot - first)].spend(span.kind, end - at);
      at = end;
    }
  }
  std::vector<ActivitySpan> result;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto kind = slots[i].most(length);
    if (!kind) continue;
    const double begin = (first + static_cast<double>(i)) * length, end = begin + length;
    if (!result.empty() && result.back().kind == *kind && begin - result.back().end < length / 2) {
      result.back().end = end;
    } else {
      result.push_back({*kind, begin, end});
    }
  }
  return result;
}

void thin(std::vector<ActivitySpan>& spans, double most_per_second) {
  if (spans.empty()) return;
  std::ranges::sort(spans, {}, &ActivitySpan::begin);
  const double seconds = std::max(1.0, spans.back().end - spans.front().begin);
  if (static_cast<double>(spans.size()) > most_per_second * seconds) spans = in_slots(spans, 1 / most_per_second);
}

}  // namespace

const char* name_of(ActivityKind kind) {
  static constexpr std::array<const char*, kActivityKinds> kNames = {"forward", "backward", "update", "round"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<ActivitySpan> thinned(std::vector<ActivitySpan> spans, double most_per_second) {
  std::vector<ActivitySpan> rounds;
  std::erase_if(spans, [](const ActivitySpan& span) { return !(span.begin < span.end); });
  for (const ActivitySpan& span : spans) {
    if (span.kind == ActivityKind::kRound) rounds.push_back(span);
  }
  std::erase_if(spans, [](const ActivitySpan& span) { return span.kind == ActivityKind::kRound; });
  thin(spans, most_per_second);
  thin(rounds, most_per_second);
  spans.insert(spans.end(), rounds.begin(), rounds.end());
  std::ranges::stable_sort(spans, {}, &ActivitySpan::begin);
  return spans;
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
