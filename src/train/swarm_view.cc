#include "train/swarm_view.h"

#include <algorithm>
#include <map>
#include <utility>

#include "train/wiring.h"

namespace rookery::train {
namespace {

using dashboard::LinkView;
using dashboard::PeerView;
using dashboard::Phase;
using dashboard::View;

bool is_whole(const wire::Plan& plan, std::uint32_t cluster) {
  return std::ranges::all_of(plan.peers, [&](const auto& peer) { return peer.cluster != cluster || peer.here; });
}

void add_link(View::Links& links, const std::string& from, const std::string& to, const char* kind) {
  if (from == to || links.size() >= View::kMostLinks) return;
  LinkView& link = links[{from, to}];
  link.kind = link.kind.empty() || link.kind == kind ? kind : "both";
}

// Over which borders go, and rounds.
View::Links links_of(const wire::Plan& plan, const Clusters& clusters) {
  View::Links links;
  const auto name = [&](std::size_t rank) { return plan.peers[rank].contact.name; };
  for (const std::vector<std::size_t>& ranks : clusters.ranks) {
    for (std::size_t stage = 1; stage < ranks.size(); ++stage) {
      add_link(links, name(ranks[stage - 1]), name(ranks[stage]), "pipeline");
      add_link(links, name(ranks[stage]), name(ranks[stage - 1]), "pipeline");
    }
  }
  for (const plan::Segment& segment : clusters.segments) {
    std::vector<std::size_t> ring = clusters.holders(segment);
    std::erase_if(ring, [&](std::size_t rank) { return !is_whole(plan, plan.peers[rank].cluster); });
    for (std::size_t i = 0; ring.size() > 1 && i < ring.size(); ++i) {
      add_link(links, name(ring[i]), name(ring[(i + 1) % ring.size()]), "ring");
    }
  }
  return links;
}

}  // namespace

SwarmView::SwarmView(dashboard::Dashboard& dashboard, std::size_t layers, std::function<const plan::Swarm&()> measured)
    : dashboard_(dashboard), layers_(layers), measured_(std::move(measured)) {}

void SwarmView::set_state(const std::string& peer, State state, const std::string& why) {
  dashboard_.show([=](View& view, double) {
    view.peer(peer).state = state;
    view.peer(peer).why = why;
  });
}

void SwarmView::joined(const wire::Introduction& peer) {
  set_state(peer.contact.name, State::kJoining, "");
  dashboard_.show([peer](View& view, double) {
    PeerView& shown = view.peer(peer.contact.name);
    shown.stands_in = peer.stands_in;
    shown.limit = peer.memory > 0 ? std::optional(peer.memory) : std::nullopt;
  });
}

void SwarmView::introduced_again(const wire::Introduction& peer, const wire::Ready& ready) {
  joined(peer);
  SwarmView::ready(peer.contact.name, ready);
}

void SwarmView::refused(const std::string& peer, const std::string& why) { set_state(peer, State::kRefused, why); }

void SwarmView::left(const std::string& peer, const std::string& why) { set_state(peer, State::kLeft, why); }

void SwarmView::ready(const std::string& peer, const wire::Ready& ready) {
  dashboard_.show([=](View& view, double) {
    PeerView& shown = view.peer(peer);
    shown.state = State::kReady;
    shown.why.clear();
    shown.hardware = ready.about;
    shown.cores = ready.cores;
    shown.speed = ready.speed;
    shown.resident = ready.resident;
    shown.own = ready.resident;
    if (ready.available > 0) shown.available = ready.resident + ready.available;
  });
}

void SwarmView::planned(const wire::Plan& plan) {
  has_begun_ = false;
  plan_ = plan;
  dashboard_.show([generation = plan.generation, seconds = plan.step_seconds](View& view, double) {
    view.plan.emplace();
    view.plan->generation = generation;
    if (seconds > 0) view.plan->predicted_step_seconds = seconds;
  });
  show_places(plan);
  show_links(plan);
}

void SwarmView::replanned(const wire::Plan& plan) {
  plan_ = plan;
  dashboard_.show([generation = plan.generation](View& view, double) {
    if (view.plan) view.plan->generation = generation;
  });
  show_places(plan);
  show_links(plan);
}

void SwarmView::taken_up(const wire::Plan& plan) {
  planned(plan);
  began();
}

void SwarmView::began() {
  has_begun_ = true;
  dashboard_.show([](View& view, double) {
    view.run.phase = Phase::kTraining;
    view.run.why.clear();
  });
  show_places(plan_);
}

// Who has which place, and what that means for it. Whoever was lost is still shown there, as long as nobody else is.
void SwarmView::show_places(const wire::Plan& plan) {
  dashboard_.show([plan, has_begun = has_begun_](View& view, double) {
    std::map<std::string, const wire::PlannedPeer*> placed;
    for (const wire::PlannedPeer& peer : plan.peers) placed[peer.contact.name] = &peer;
    std::vector<std::string> names;
    for (const auto& [name, peer] : view.peers()) names.push_back(name);
    for (const std::string& name : names) {
      if (!placed.contains(name)) view.peer(name).place.reset();
    }
    std::size_t clusters = 0;
    for (const wire::PlannedPeer& planned : plan.peers) {
      clusters = std::max<std::size_t>(clusters, planned.cluster + 1);
      PeerView& peer = view.peer(planned.contact.name);
      peer.place = {planned.cluster, planned.stage, planned.begin, planned.end};
      peer.host = planned.host;
      if (planned.memory > 0) peer.planned = peer.own + planned.memory;
      if (planned.empty || peer.state == State::kEnded || peer.state == State::kSilent || !has_begun) continue;
      peer.state = is_whole(plan, planned.cluster) && !planned.restores ? State::kTraining
                   : planned.restores                                   ? State::kRestoring
                                                                        : State::kWaiting;
      peer.why = peer.state == State::kWaiting     ? "another stage of its cluster is missing"
                 : peer.state == State::kRestoring ? "gets what belongs to its place"
                                                   : "";
    }
    if (view.plan) view.plan->clusters = clusters;
  });
}

void SwarmView::show_links(const wire::Plan& plan) {
  View::Links links = links_of(plan, Clusters(plan, layers_));
  const plan::Swarm& measured = measured_();
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < measured.peers.size(); ++i) known[measured.peers[i].name] = i;
  for (auto& [ends, link] : links) {
    const auto from = known.find(ends.first), to = known.find(ends.second);
    if (from == known.end() || to == known.end()) continue;
    const auto found = measured.links.find({from->second, to->second});
    if (found == measured.links.end()) continue;
    link.bandwidth = found->second.bandwidth;
    link.latency = found->second.latency;
    link.is_measured = true;
  }
  dashboard_.show([links = std::move(links)](View& view, double) mutable {
    for (auto& [ends, link] : links) {
      const auto before = view.links.find(ends);
      if (before == view.links.end()) continue;
      link.rate = before->second.rate;
      if (link.is_measured) continue;
      link.bandwidth = before->second.bandwidth;
      link.latency = before->second.latency;
    }
    view.links = std::move(links);
  });
}

void SwarmView::relieved(const std::string& peer) {
  set_state(peer, State::kLeft, "stood in, and somebody has come for its place");
}

void SwarmView::silent(const std::string& peer, const std::string& why) { set_state(peer, State::kSilent, why); }

void SwarmView::returned(const std::string& peer) {
  set_state(peer, State::kTraining, "");
  show_places(plan_);
}

void SwarmView::stepped(const std::string& peer, const wire::StepReport& report) {
  dashboard_.show([=](View& view, double seconds) {
    PeerView& shown = view.peer(peer);
    shown.bytes_sent = report.bytes_sent;
    shown.bytes_received = report.bytes_received;
    shown.staleness = report.staleness;
    shown.rounds_failed = report.rounds_failed;
    shown.stepped(seconds, report.step, report.compute_seconds, report.wait_seconds);
  });
}

void SwarmView::active(const std::string& peer, const wire::Activity& activity) {
  std::vector<std::pair<std::string, wire::LinkTraffic>> links;
  for (const wire::LinkTraffic& link : activity.traffic) {
    if (link.peer >= plan_.peers.size() || plan_.peers[link.peer].contact.name == peer) continue;
    links.emplace_back(plan_.peers[link.peer].contact.name, link);
  }
  dashboard_.show([=](View& view, double seconds) {
    PeerView& shown = view.peer(peer);
    shown.resident = activity.resident;
    for (const std::string& line : activity.log) shown.say(line);
    std::vector<observe::ActivitySpan> spans;
    for (const wire::DoneSpan& span : activity.spans) {
      if (span.kind >= observe::kActivityKinds) continue;
      const double begin = seconds - span.begin;
      spans.push_back({static_cast<observe::ActivityKind>(span.kind), begin, std::min(seconds, begin + span.seconds)});
    }
    view.add_spans(peer, std::move(spans), seconds);
    for (const auto& [other, link] : links) {
      view.carried(seconds, peer, other, link.sent);
      view.observed(other, peer, link.bandwidth, link.latency);
    }
  });
}

void SwarmView::ended(const std::string& peer, const wire::Ended&) { set_state(peer, State::kEnded, ""); }

void SwarmView::expelled(const std::string& peer, const std::string& why) { set_state(peer, State::kExpelled, why); }

void SwarmView::lost(const std::string& peer, const std::string& why) {
  dashboard_.show([=](View& view, double) {
    PeerView& shown = view.peer(peer);
    if (shown.state == State::kExpelled || shown.state == State::kLeft) return;  // why is known better
    shown.state = State::kLost;
    shown.why = why;
  });
}

void SwarmView::held() {
  dashboard_.show([](View& view, double seconds) {
    view.run.phase = Phase::kPaused;
    view.add_event(seconds, "paused", "", "");
  });
}

void SwarmView::released() {
  dashboard_.show([](View& view, double seconds) {
    view.run.phase = Phase::kTraining;
    view.add_event(seconds, "resumed", "", "");
  });
}

void SwarmView::noted(const std::string& event, const std::string& peer, const std::string& text) {
  dashboard_.show([=](View& view, double seconds) { view.add_event(seconds, event, peer, text); });
}

void SwarmView::decided(const std::string& method, const std::string& schedule) {
  dashboard_.show([=](View& view, double) {
    view.run.method = method;
    view.run.schedule = schedule;
  });
}

void SwarmView::over(Phase phase, const std::string& why) {
  dashboard_.show([=](View& view, double) {
    view.run.phase = phase;
    view.run.why = why;
  });
}

void DashboardSink::step(const observe::StepMetrics& metrics) {
  dashboard_.show([metrics](View& view, double) { view.add_step(metrics); });
}

}  // namespace rookery::train
