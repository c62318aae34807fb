#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/clock.h"
#include "net/host.h"
#include "swarm/files.h"
#include "swarm/talk.h"
#include "wire/swarm_message.h"

namespace rookery::swarm::internal {

inline constexpr Duration kQuiet = std::chrono::milliseconds(800);  // three heartbeats that did not come

// A place in the swarm, and who has it: a peer that was let in, or one that is expected to return.
struct Seat {
  Seat(Clock& clock, net::Meeting meeting, const Aside& aside)
      : link(std::move(meeting.link)), guest(meeting.other), patience(clock), doubt(clock) {
    talk.emplace(*link);
    files.emplace(clock.executor(), *link, Files::End::kCoordinator, aside);
  }

  Seat(Clock& clock, net::Guest who) : guest(std::move(who)), patience(clock), doubt(clock) {}

  void say(const wire::SwarmMessage& message) {
    if (talk) talk->say(message);
  }

  void close(const net::LinkError& reason) {
    if (link) link->close(reason);
  }

  // Has to do what comes next by then.
  void expect_by(Time when, const char* what) {
    patience.set(when, [this, what] {
      close(net::LinkError(net::Failure::kLate, "", fmt::format("did not {} in time", what)));
    });
  }

  // It has returned: what is known of it goes on.
  void follow(const Seat& before) {
    introduction = before.introduction;
    ready = before.ready;
    surveyed = before.surveyed;
    linked = before.linked;
    is_late = before.is_late;
    restored = before.restored;
    suspected_by = before.suspected_by;
    accusers = before.accusers;
    last_step = before.last_step;
    stands_in = before.stands_in;
  }

  // Nothing is heard of it.
  bool is_quiet(Time now) const { return is_away ? now >= quiet_from : link->statistics().silent_for > kQuiet; }

  const std::string& name() const { return guest.name; }

  std::shared_ptr<net::Link> link;  // nothing if it has not returned yet
  net::Guest guest;
  std::optional<Talk> talk{};
  std::optional<Files> files{};
  Alarm patience, doubt;
  std::optional<wire::Introduction> introduction{};
  std::optional<wire::Ready> ready{};
  std::optional<wire::Surveyed> surveyed{};  // of the survey that is under way, or the last one
  std::optional<std::uint64_t> halted{};     // the last step that it has begun, when it was told to stop
  std::optional<std::uint64_t> holding{};    // the same, when it was told to hold
  std::deque<wire::Saved> unfetched{};
  bool linked = false, ended = false, gone = false, refused = false;
  bool is_late = false;          // came when the run had begun, and has not taken part yet
  bool is_away = false;          // its link has gone silent, and it may return
  Time quiet_from{};             // when it is away: from when on that says something
  bool stands_in = false;        // was asked to join once more
  bool is_replaced = false;      // by itself: it has returned by another link
  bool paused = false;           // somebody of its cluster was lost, and it has stopped
  std::uint32_t restored = 0;    // the last generation in which it has got what belongs to its place
  std::uint64_t last_step = 0;   // that it has reported
  std::uint64_t held = 0;        // the last step after which it has a copy of the stage before it
  std::set<std::string> misses;  // those to whom it has no link any more
  std::map<std::uint32_t, std::deque<std::uint64_t>> suspected_by{};  // clusters, and after which steps of late
  std::set<std::string> accusers{};                                   // their peers

  bool is_done() const { return (ended && unfetched.empty()) || gone; }
};

}  // namespace rookery::swarm::internal
