#include "train/wiring.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace rookery::train {
namespace {

// Channels of one pair of stages.
constexpr std::uint32_t kTrainingIndex = 0, kEvaluationIndex = 1, kTieIndex = 2;
constexpr std::size_t kHeaderBytes = 16 * 1024;  // of a border, at most
constexpr std::size_t kAhead = 4;                // messages of a tie beyond the micro-batches on their way

// The layer that brings a parameter.
std::size_t first_use(const model::Model& model, const Parameter& parameter) {
  for (std::size_t layer = 0; layer < model.size(); ++layer) {
    if (std::ranges::find(model.layer(layer).parameters(), parameter) != model.layer(layer).parameters().end()) {
      return layer;
    }
  }
  ROOKERY_CHECK(false, "{} is not in the model", parameter.spec().name);
}

// What stage `user` of a cut uses of earlier stages' parameters, by their owner.
std::map<std::size_t, std::vector<Parameter>> replicas_of(const model::Model& model, const plan::Cut& cut,
                                                          std::size_t user) {
  std::map<std::size_t, std::vector<Parameter>> result;
  for (const Parameter& parameter : model.parameters(cut[user].begin, cut[user].end)) {
    const std::size_t layer = first_use(model, parameter);
    if (layer >= cut[user].begin) continue;
    const auto owner = std::ranges::find_if(cut, [&](const plan::Layers& stage) { return layer < stage.end; });
    auto& own = result[static_cast<std::size_t>(owner - cut.begin())];
    if (std::ranges::find(own, parameter) == own.end()) own.push_back(parameter);
  }
  return result;
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

Wiring::Wiring(Clock& network, Executor home, const wire::Plan& plan, std::size_t rank, std::vector<net::Link*> links,
               Trainee& trainee)
    : network_(network),
      home_(std::move(home)),
      plan_(plan),
      rank_(rank),
      links_(std::move(links)),
      trainee_(trainee),
      clusters_(plan, trainee.model().size()),
      cluster_(plan.peers.at(rank).cluster),
      stage_{plan.peers[rank].stage, clusters_.ranks[cluster_].size()},
      schedule_(schedule_of(trainee.settings(), clusters_.have_stages(), plan.peers[rank].in_flight)) {}

std::vector<net::Link*> Wiring::links_to(const std::vector<std::size_t>& ranks) const {
  std::vector<net::Link*> links;
  for (const std::size_t rank : ranks) links.push_back(links_.at(rank));
  return links;
}

sync::Rounds* Wiring::rounds(const std::vector<std::size_t>& ranks, std::size_t own, sync::LinkRoundsOptions options) {
  options.generation = plan_.generation;
  rounds_.push_back(std::make_unique<sync::LinkRounds>(network_, home_, own, links_to(ranks), options));
  return rounds_.back().get();
}

pipeline::Borders& Wiring::borders(std::optional<std::size_t> previous, std::optional<std::size_t> next,
                                   pipeline::LinkBordersOptions options) {
  options.generation = plan_.generation;
  borders_.push_back(std::make_unique<pipeline::LinkBorders>(network_, home_, previous ? links_.at(*previous) : nullptr,
                                                             next ? links_.at(*next) : nullptr, options));
  return *borders_.back();
}

Ring Wiring::ring(std::size_t number) {
  const plan::Segment& segment = clusters_.segments[number];
  const Stage& stage = trainee_.stage();
  const std::size_t begin = stage.begin_of(segment.layers.begin);
  Ring ring{.segment = number, .layers = segment.layers, .place = {.cluster = cluster_, .weights = {}}};
  ring.place.layer_begins.clear();
  for (std::size_t layer = segment.layers.begin; layer < segment.layers.end; ++layer) {
    ring.place.layer_begins.push_back(stage.begin_of(layer) - begin);
  }
  ring.place.values = stage.begin_of(segment.layers.end) - begin;
  std::vector<std::size_t> holders;
  std::map<std::string, std::size_t> hosts;
  for (std::size_t c = 0; c < clusters_.ranks.size(); ++c) {
    holders.push_back(clusters_.ranks[c][segment.stages[c]]);
    const wire::PlannedPeer& peer = plan_.peers[holders.back()];
    ring.place.weights.push_back(peer.weight);
    const std::string host = peer.host.empty() ? peer.contact.name : peer.host;
    ring.place.hosts.push_back(hosts.emplace(host, hosts.size()).first->second);
  }
  const auto id = static_cast<std::uint32_t>(number);
  const config::Settings& settings = trainee_.settings();
  ring.rounds = rounds(holders, cluster_,
                       {.segment = id,
                        .slots = method_slots(settings, ring.place),
                        .codec = collective::parse_codec(settings.sync.codec)});
  ring.exact = rounds(holders, cluster_, {.segment = id, .apart = true, .slots = Member::kExactSlots});
  return ring;
}

Connections Wiring::connections() {
  Connections connections;
  for (std::size_t s = 0; s < clusters_.segments.size(); ++s) {
    if (clusters_.segments[s].stages[cluster_] == stage_.stage) connections.rings.push_back(ring(s));
  }
  connections.segments = clusters_.segments.size();
  const auto after_segments = static_cast<std::uint32_t>(clusters_.segments.size());
  std::vector<std::size_t> everybody(plan_.peers.size());
  for (std::size_t i = 0; i < everybody.size(); ++i) everybody[i] = i;
  connections.everybody = rounds(everybody, rank_, {.segment = after_segments, .apart = true, .slots = 1});
  const std::vector<std::size_t>& own = clusters_.ranks[cluster_];
  connections.cluster = rounds(own, stage_.stage, {.segment = after_segments + 1, .slots = 1});

  std::optional<std::size_t> previous, next;
  if (!stage_.is_first()) previous = own[stage_.stage - 1];
  if (!stage_.is_last()) next = own[stage_.stage + 1];
  const std::size_t bytes = plan_.border_bytes + kHeaderBytes;
  pipeline::LinkBordersOptions options{.index = kTrainingIndex,
                                       .codec = collective::parse_codec(trainee_.settings().pipeline.codec),
                                       .most_backward = plan::in_flight(schedule_, stage_),
                                       .forward_bytes = bytes,
                                       .backward_bytes = bytes};
  if (previous) {
    plan::ScheduleOptions theirs = schedule_;
    theirs.in_flight = plan_.peers[*previous].in_flight;
    options.most_forward = plan::in_flight(theirs, {stage_.stage - 1, stage_.stages});
  }
  connections.training = &borders(previous, next, options);
  options.index = kEvaluationIndex;
  options.codec = collective::Codec::kNone;
  options.most_forward = options.most_backward = stage_.stages;
  connections.evaluations = &borders(previous, next, options);
  tie(connections);
  return connections;
}

void Wiring::tie(Connections& connections) {
  const plan::Cut& cut = clusters_.cuts[cluster_];
  const std::vector<std::size_t>& own = clusters_.ranks[cluster_];
  const auto add = [&](Tie::End end, std::size_t other, const std::vector<Parameter>& parameters) {
    std::vector<std::string> names;
    std::size_t bytes = kHeaderBytes;
    for (const Parameter& parameter : parameters) {
      names.push_back(parameter.spec().name);
      bytes += static_cast<std::size_t>(parameter.spec().elements()) * sizeof(float);
    }
    const std::size_t most = plan::in_flight(schedule_, {0, stage_.stages}) + kAhead;
    const pipeline::LinkBordersOptions options{.index = kTieIndex,
                                               .most_forward = most,
                                               .most_backward = most,
                                               .forward_bytes = bytes,
                                               .backward_bytes = bytes};
    const bool owns = end == Tie::End::kOwner;
    connections.ties.emplace_back(end, owns ? borders({}, own[other], options) : borders(own[other], {}, options),
                                  trainee_.stage(), names);
  };
  for (const auto& [owner, parameters] : replicas_of(trainee_.model(), cut, stage_.stage)) {
    add(Tie::End::kReplica, owner, parameters);
  }
  for (std::size_t user = stage_.stage + 1; user < cut.size(); ++user) {
    const auto all = replicas_of(trainee_.model(), cut, user);
    const auto mine = all.find(stage_.stage);
    if (mine != all.end()) add(Tie::End::kOwner, user, mine->second);
  }
}

void Wiring::cancel(const net::LinkError& reason) {
  for (const auto& rounds : rounds_) rounds->cancel(reason);
  for (const auto& borders : borders_) borders->cancel(reason);
}

}  // namespace rookery::train
