#include "swarm/internal/life.h"

#include <algorithm>
#include <variant>

namespace rookery::swarm::internal {
namespace {

constexpr std::size_t kMostRecent = 1 << 16;
constexpr std::size_t kAtOnce = 1000;
constexpr Duration kLookAgain = std::chrono::milliseconds(1);

// Of a report of a step, or of an evaluation after it.
std::optional<std::uint64_t> step_of(const wire::SwarmMessage& message) {
  if (const auto* report = std::get_if<wire::StepReport>(&message)) return report->step;
  if (const auto* evaluated = std::get_if<wire::Evaluated>(&message)) return evaluated->step;
  return std::nullopt;
}

}  // namespace

Life::Life(Clock& clock_, net::Host& host_, const PeerOptions& options_, net::Meeting meeting)
    : clock(clock_), host(host_), options(options_), coordinator(meeting.other.name), background(clock.executor()) {
  begin(std::move(meeting));
}

void Life::begin(net::Meeting meeting) {
  session = std::make_shared<Session>(clock.executor(), std::move(meeting), options.aside);
}

void Life::say(const wire::SwarmMessage& message) {
  if (step_of(message)) {
    recent.push_back(message);
    if (recent.size() > kMostRecent) {
      recent.pop_front();
      ++forgotten;
    }
  }
  if (std::holds_alternative<wire::Ended>(message) || std::holds_alternative<wire::Failed>(message)) last = message;
  if (!is_away) session->talk.say(message);
}

Task<> Life::say_again(std::uint64_t known) {
  for (std::uint64_t next = forgotten; next < forgotten + recent.size(); ++next) {
    next = std::max(next, forgotten);
    const wire::SwarmMessage& message = recent[next - forgotten];
    const bool is_report = std::holds_alternative<wire::StepReport>(message);
    if (is_report ? *step_of(message) <= known : *step_of(message) < known) continue;
    session->talk.say(message);
    while (session->talk.unheard() > kAtOnce && !session->link->has_ended()) {
      auto waiting = clock.sleep_for(kLookAgain);
      co_await std::move(waiting);
    }
  }
}

void Life::forget_after(std::uint64_t step) {
  std::erase_if(recent, [&](const wire::SwarmMessage& message) { return *step_of(message) > step; });
}

}  // namespace rookery::swarm::internal
