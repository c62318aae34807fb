#include "train/wiring.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "plan/grid.h"
#include "plan/runtime.h"
#include "train/internal/purpose.h"
#include "train/make_method.h"

namespace rookery::train {
namespace {

// Channels of one pair of stages.
constexpr std::uint32_t kTrainingIndex = 0, kEvaluationIndex = 1, kTieIndex = 2;
constexpr std::size_t kHeaderBytes = 16 * 1024;  // of a border, at most
constexpr std::size_t kAhead = 4;                // messages of a tie beyond the micro-batches on their way

std::size_t group_of(const config::Settings& settings) { return static_cast<std::size_t>(settings.sync.group); }

// Whether a round has to be among all: copies are to be equal after it, or what travels are differences to what all
// have.
bool ring_of_all(const config::Settings& settings) {
  const config::Sync& sync = settings.sync;
  return sync.robust != "off" || sync.method == "allreduce" ||
         ((sync.method == "diloco" || sync.method == "palsgd") && sync.warmup_steps > 0);
}

}  // namespace

Clusters::Clusters(const wire::Plan& plan, std::size_t layers) {
  for (std::size_t rank = 0; rank < plan.peers.size(); ++rank) {
    const wire::PlannedPeer& peer = plan.peers[rank];
    if (peer.cluster >= ranks.size()) ranks.resize(peer.cluster + 1);
    auto& own = ranks[peer.cluster];
    if (peer.stage >= own.size()) own.resize(peer.stage + 1, plan.peers.size());
    own[peer.stage] = rank;
  }
  for (const auto& own : ranks) {
    plan::Cut& cut = cuts.emplace_back();
    for (const std::size_t rank : own) {
      if (rank == plan.peers.size()) throw InputError("a plan in which nobody holds a stage of a cluster");
      cut.push_back({plan.peers[rank].begin, plan.peers[rank].end});
    }
    if (own.empty()) throw InputError("a plan with a cluster of nobody");
  }
  segments = plan::segments(cuts, layers);
}

bool Clusters::have_stages() const {
  return std::ranges::any_of(cuts, [](const plan::Cut& cut) { return cut.size() > 1; });
}

std::vector<std::size_t> Clusters::holders(const plan::Segment& segment) const {
  std::vector<std::size_t> holders;
  for (std::size_t c = 0; c < ranks.size(); ++c) holders.push_back(ranks[c][segment.stages[c]]);
  return holders;
}

Place place_in(const wire::Plan& plan, const Clusters& clusters, const plan::Segment& segment, std::size_t cluster) {
  Place place{.cluster = cluster, .weights = {}};
  std::map<std::string, std::size_t> hosts;
  for (const std::size_t holder : clusters.holders(segment)) {
    const wire::PlannedPeer& peer = plan.peers[holder];
    place.weights.push_back(peer.weight);
    const std::string host = peer.host.empty() ? peer.contact.name : peer.host;
    place.hosts.push_back(hosts.emplace(host, hosts.size()).first->second);
  }
  return place;
}

net::Traffic training_traffic(const net::Link& link) {
  const net::LinkStatistics all = link.statistics();
  net::Traffic apart = sync::LinkRounds::apart_traffic(link);
  for (const auto purpose : {internal::kDonationPurpose, internal::kBuddyPurpose, internal::kCopyPurpose}) {
    const net::Traffic own = link.traffic(purpose);
    apart.sent += own.sent;
    apart.received += own.received;
    apart.payload_sent += own.payload_sent;
    apart.payload_received += own.payload_received;
  }
  const auto without = [](std::uint64_t whole, std::uint64_t part) { return whole - std::min(whole, part); };
  return {.sent = without(all.bytes_sent, apart.sent),
          .received = without(all.bytes_received, apart.received),
          .payload_sent = without(all.payload_sent, apart.payload_sent),
          .payload_received = without(all.payload_received, apart.payload_received)};
}

observe::Arrangement arrangement_of(const config::Settings& settings, std::size_t clusters, bool pipelines) {
  const config::Sync& sync = settings.sync;
  observe::Arrangement arrangement{.clusters = static_cast<std::int64_t>(clusters),
                                   .schedule = std::string(plan::name_of(schedule_of(settings, pipelines, 0).schedule)),
                                   .method = sync.method};
  if (has_intervals(sync)) arrangement.interval = interval_of(sync);
  if (sync.method == "gossip") arrangement.topology = plan::topology_for(sync.topology, clusters);
  return arrangement;
}

plan::ScheduleOptions schedule_of(const config::Settings& settings, bool pipelines, std::size_t in_flight) {
  const std::string& name = settings.pipeline.schedule;
  const plan::ScheduleOptions options{
      .schedule = plan::parse_schedule(name != "auto" ? name
                                       : pipelines    ? "async"
                                                      : "1f1b"),
      .micro_batches = static_cast<std::uint64_t>(settings.train.micro_batches),
      .update_frequency = static_cast<std::uint64_t>(settings.pipeline.update_frequency),
      .in_flight = in_flight};
  if (options.micro_batches % options.group() != 0) {
    throw InputError("pipeline.update_frequency ({}) must divide train.micro_batches ({})", options.update_frequency,
                     options.micro_batches);
  }
  return options;
}

Wiring::Wiring(Clock& network, Executor home, const wire::Plan& plan, const Clusters& clusters, std::size_t rank,
               LinkTo link_to, Compute& compute)
    : network_(network),
      home_(std::move(home)),
      plan_(plan),
      rank_(rank),
      link_to_(std::move(link_to)),
      compute_(compute),
      clusters_(clusters),
      cluster_(plan.peers.at(rank).cluster),
      stage_{plan.peers[rank].stage, clusters_.ranks[cluster_].size()},
      schedule_(schedule_of(compute.settings(), clusters_.have_stages(), plan.peers[rank].in_flight)) {}

// How many neighbours are on one computer each time.
std::size_t Wiring::together(const std::vector<std::size_t>& ranks) const {
  return plan::block_of(ranks.size(), [&](std::size_t a, std::size_t b) {
    const std::string& host = plan_.peers[ranks[a]].host;
    return !host.empty() && host == plan_.peers[ranks[b]].host;
  });
}

// To those with whom it has rounds: its neighbours in rings; where copies mix, all.
std::vector<net::Link*> Wiring::links_to(const std::vector<std::size_t>& ranks, std::size_t own, std::size_t together,
                                         bool mixes) const {
  std::vector<net::Link*> links(ranks.size());
  const auto add = [&](std::size_t place) {
    if (place != own) links[place] = link_to_(ranks[place]);
  };
  for (std::size_t i = 0; mixes && i < ranks.size(); ++i) add(i);
  for (const plan::GridPhase& phase : plan::grid_phases(own, ranks.size(), group_of(compute_.settings()), together)) {
    const std::size_t size = phase.members.size();
    const auto place = static_cast<std::size_t>(std::ranges::find(phase.members, own) - phase.members.begin());
    add(phase.members[(place + 1) % size]);
    add(phase.members[(place + size - 1) % size]);
  }
  return links;
}

std::unique_ptr<sync::LinkRounds> Wiring::rounds(const std::vector<std::size_t>& ranks, std::size_t own,
                                                 sync::LinkRoundsOptions options) {
  const bool mixes = !options.apart && compute_.settings().sync.method == "gossip";
  options.group = group_of(compute_.settings());
  // What is set apart has to come out the same to the bit on all segments, wherever their holders are.
  options.together = options.apart ? 1 : together(ranks);
  options.scale = compute_.scale();
  options.watch = watch_rounds_;
  return std::make_unique<sync::LinkRounds>(network_, home_, own, links_to(ranks, own, options.together, mixes),
                                            options);
}

// With the holders of a segment in all clusters that are whole.
sync::Rounds* Wiring::changing_rounds(std::size_t number, sync::ChangingRoundsOptions options) {
  const auto rank_of = [this, number](std::size_t cluster) {
    return clusters_.ranks[cluster][clusters_.segments[number].stages[cluster]];
  };
  const auto holder_of = [this, rank_of](std::size_t cluster) {
    const std::size_t rank = rank_of(cluster);
    const wire::PlannedPeer& peer = plan_.peers[rank];
    const bool here = is_whole_(cluster);
    return sync::Holder{.here = here,
                        .link = here && rank != rank_ ? link_to_(rank) : nullptr,
                        .weight = peer.weight,
                        .since = peer.since,
                        .from = peer.from * schedule_.updates()};
  };
  options.generation = 1;
  options.segment = static_cast<std::uint32_t>(number);
  options.scale = compute_.scale();
  options.watch = watch_rounds_;
  options.is_in_suspense = is_in_suspense_;
  if (suspect_) {
    options.suspect = [this, rank_of](std::size_t cluster, const std::string& text) {
      suspect_(rank_of(cluster), text);
    };
  }
  changing_.push_back(
      std::make_unique<sync::ChangingRounds>(network_, home_, cluster_, clusters_.ranks.size(), holder_of, options));
  return changing_.back().get();
}

sync::Rounds* Wiring::with_fault(sync::Rounds* rounds) {
  if (fault_ == sync::Fault::kNone) return rounds;
  faulty_.push_back(std::make_unique<sync::FaultyRounds>(*rounds, fault_));
  return faulty_.back().get();
}

void Wiring::changed(std::size_t cluster) {
  for (const auto& rounds : changing_) rounds->changed(cluster);
}

std::uint64_t Wiring::rounds_repeated() const {
  std::uint64_t repeated = 0;
  for (const auto& rounds : changing_) repeated += rounds->repeated();
  return repeated;
}

pipeline::Borders& Wiring::borders(std::optional<std::size_t> previous, std::optional<std::size_t> next,
                                   pipeline::LinkBordersOptions options) {
  options.generation = cluster_generation_;
  options.watch = watch_sends_;
  borders_.push_back(std::make_unique<pipeline::LinkBorders>(network_, home_, previous ? link_to_(*previous) : nullptr,
                                                             next ? link_to_(*next) : nullptr, options));
  return *borders_.back();
}

Ring Wiring::ring(std::size_t number) {
  const plan::Segment& segment = clusters_.segments[number];
  const std::size_t begin = compute_.begin_of(segment.layers.begin);
  Ring ring{.segment = number, .layers = segment.layers, .place = place_in(plan_, clusters_, segment, cluster_)};
  ring.place.layer_begins.clear();
  for (std::size_t layer = segment.layers.begin; layer < segment.layers.end; ++layer) {
    ring.place.layer_begins.push_back(compute_.begin_of(layer) - begin);
  }
  ring.place.values = compute_.begin_of(segment.layers.end) - begin;
  ring.place.scale = compute_.scale();
  const config::Settings& settings = compute_.settings();
  ring.place.changing = static_cast<bool>(is_whole_);
  const std::size_t slots = method_slots(settings, ring.place);
  if (ring.place.changing) {
    const std::size_t everybody = clusters_.ranks.size();
    const bool keeps_equal = ring_of_all(settings);
    sync::ChangingRoundsOptions training{.slots = slots,
                                         .group = keeps_equal ? everybody : group_of(settings),
                                         .codec = collective::parse_codec(settings.sync.codec),
                                         .robust = collective::parse_robust(settings.sync.robust)};
    if (settings.sync.method == "gossip") training.topology = topology_of(settings.sync, ring.place);
    ring.rounds = with_fault(changing_rounds(number, std::move(training)));
    sync::ChangingRoundsOptions exact{.apart = true, .slots = Member::exact_slots(true), .group = everybody};
    if (settings.sync.robust != "off") {
      exact.robust = collective::Robust::kTrimmedMean;  // norms of copies say nothing
      exact.robust_slot = Member::averages_copies;
    }
    ring.exact = changing_rounds(number, exact);
    return ring;
  }
  const auto add = [&](sync::LinkRoundsOptions options) {
    options.segment = static_cast<std::uint32_t>(number);
    options.generation = plan_.generation;
    rounds_.push_back(rounds(clusters_.holders(segment), cluster_, options));
    return rounds_.back().get();
  };
  ring.rounds = with_fault(add({.slots = slots, .codec = collective::parse_codec(settings.sync.codec)}));
  ring.exact = add({.apart = true, .slots = Member::exact_slots(false)});
  return ring;
}

Connections Wiring::connections() {
  Connections connections;
  for (std::size_t s = 0; s < clusters_.segments.size(); ++s) {
    if (clusters_.segments[s].stages[cluster_] == stage_.stage) connections.rings.push_back(ring(s));
  }
  connections.segments = clusters_.segments.size();
  connections.cluster = cluster_connections(0);  // whoever comes later gets others when its cluster begins again
  return connections;
}

ClusterConnections Wiring::cluster_connections(std::uint32_t generation) {
  cluster_generation_ = generation;
  borders_.clear();
  cluster_rounds_.reset();
  const std::vector<std::size_t>& own = clusters_.ranks[cluster_];
  const auto missing =
      std::ranges::find_if(own, [this](std::size_t rank) { return rank != rank_ && link_to_(rank) == nullptr; });
  if (missing != own.end() && generation > 0) {
    throw net::LinkError(net::Failure::kClosed, plan_.peers[*missing].contact.name, "is not linked up");
  }
  if (missing == own.end()) {  // else this peer is new, and waits for its mates
    const auto after_segments = static_cast<std::uint32_t>(clusters_.segments.size());
    cluster_rounds_ = rounds(own, stage_.stage, {.generation = generation, .segment = after_segments + 1, .slots = 1});
  }
  std::optional<std::size_t> previous, next;
  if (!stage_.is_first()) previous = own[stage_.stage - 1];
  if (!stage_.is_last()) next = own[stage_.stage + 1];
  const std::size_t bytes = plan_.border_bytes + kHeaderBytes;
  pipeline::LinkBordersOptions options{.index = kTrainingIndex,
                                       .codec = collective::parse_codec(compute_.settings().pipeline.codec),
                                       .most_backward = plan::in_flight(schedule_, stage_),
                                       .forward_bytes = bytes,
                                       .backward_bytes = bytes};
  if (previous) {
    plan::ScheduleOptions theirs = schedule_;
    theirs.in_flight = plan_.peers[*previous].in_flight;
    options.most_forward = plan::in_flight(theirs, {stage_.stage - 1, stage_.stages});
  }
  ClusterConnections connections{.rounds = cluster_rounds_.get()};
  connections.training = &borders(previous, next, options);
  options.index = kEvaluationIndex;
  options.codec = collective::Codec::kNone;
  options.most_forward = options.most_backward = stage_.stages;
  connections.evaluations = &borders(previous, next, options);
  connections.ties = ties();
  return connections;
}

std::vector<Tie> Wiring::ties() {
  std::vector<Tie> ties;
  const std::vector<std::size_t>& own = clusters_.ranks[cluster_];
  for (Tied& tied : compute_.ties(clusters_.cuts[cluster_], stage_.stage)) {
    std::size_t bytes = kHeaderBytes;
    for (const Tied::Range& range : tied.ranges) bytes += (range.end - range.begin) * sizeof(float);
    const std::size_t owner = tied.owns ? stage_.stage : tied.other;
    plan::ScheduleOptions of_owner = schedule_;  // who uses them is ahead of it, by as many as are on their way
    of_owner.in_flight = plan_.peers[own[owner]].in_flight;
    const std::size_t most = plan::in_flight(of_owner, {owner, stage_.stages}) + kAhead;
    const pipeline::LinkBordersOptions options{.index = kTieIndex,
                                               .most_forward = most,
                                               .most_backward = most,
                                               .forward_bytes = bytes,
                                               .backward_bytes = bytes,
                                               .newest_forward = true};
    pipeline::Borders& way = tied.owns ? borders({}, own[tied.other], options) : borders(own[tied.other], {}, options);
    ties.emplace_back(std::move(tied), way, compute_);
  }
  return ties;
}

void Wiring::cancel(const net::LinkError& reason) {
  for (const auto& rounds : rounds_) rounds->cancel(reason);
  for (const auto& rounds : changing_) rounds->cancel(reason);
  cancel_cluster(reason);
}

void Wiring::leave_cluster() {
  rounds_.clear();
  borders_.clear();
  cluster_rounds_.reset();
}

void Wiring::cancel_cluster(const net::LinkError& reason) {
  if (cluster_rounds_) cluster_rounds_->cancel(reason);
  for (const auto& borders : borders_) borders->cancel(reason);
}

}  // namespace rookery::train
