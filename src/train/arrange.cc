#include "train/arrange.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/suggest.h"
#include "collective/codec.h"
#include "measure/survey.h"
#include "observe/memory.h"
#include "plan/segments.h"
#include "train/local_peers.h"
#include "train/make_method.h"
#include "train/profile.h"
#include "train/setup.h"
#include "train/wiring.h"

namespace rookery::train {
namespace {

// What a peer's memory has to hold besides its stage: buffers of each link, and what lies between blocks in use.
constexpr Bytes kBytesPerLink = 3 << 20;
constexpr double kUsable = 0.95;

// Whoever says that it is worse than this is taken to be this bad.
constexpr double kSlowest = 1e-3;  // speed
constexpr double kMostJitter = 2;  // as a share of a step's time
constexpr double kMostCrowding = 4;
constexpr double kSlowestUpdate = 1e-6;  // seconds for a parameter
constexpr double kDearestByte = 1e-6;    // processor seconds
constexpr double kLongestHop = 1e-3;     // seconds
constexpr double kSlowestLayer = 3600;   // seconds
constexpr double kSlowestStep = 86400;
constexpr double kSlowestLink = 100;    // bytes/s
constexpr double kLongestLatency = 60;  // seconds

constexpr std::size_t kMostDescribedLinks = 2'000'000;  // between two peers each

Bytes memory_of_links(std::size_t peers) { return kBytesPerLink * static_cast<Bytes>(peers - 1); }

std::optional<plan::Cut> cut_by_hand(const config::Settings& settings) {
  if (!settings.pipeline.stages) return {};
  plan::Cut cut;
  for (const config::LayerRange& range : *settings.pipeline.stages) {
    cut.push_back({static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end)});
  }
  return cut;
}

// As even as it can be.
std::vector<std::size_t> dealt_out(std::size_t peers, std::size_t clusters) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < clusters; ++i) sizes.push_back(peers * (i + 1) / clusters - peers * i / clusters);
  return sizes;
}

// How many peers each cluster has; nothing if the settings leave it open.
std::optional<std::vector<std::size_t>> cluster_sizes(const config::Settings& settings) {
  const auto peers = static_cast<std::size_t>(settings.swarm.peers);
  if (const auto& clusters = settings.swarm.clusters) {
    if (clusters->sizes.empty()) return dealt_out(peers, static_cast<std::size_t>(clusters->count));
    return std::vector<std::size_t>(clusters->sizes.begin(), clusters->sizes.end());
  }
  if (!settings.pipeline.stages) return {};
  const std::size_t stages = settings.pipeline.stages->size();
  if (peers % stages != 0) {
    throw InputError(
        "pipeline.stages has {} stages, of which {} peers cannot make whole clusters; say in swarm.clusters how many "
        "peers each has",
        stages, peers);
  }
  return std::vector<std::size_t>(peers / stages, stages);
}

// On its way, where there are many.
double bytes_of_a_value(const std::string& codec) {
  constexpr std::size_t kMany = 1 << 20;
  return static_cast<double>(collective::encoded_bytes(collective::parse_codec(codec), kMany)) /
         static_cast<double>(kMany);
}

// How many steps there may be between rounds, shortest first: so that a run has at least eight, or else the shortest.
std::vector<std::int64_t> intervals_for(const config::Settings& settings) {
  constexpr std::int64_t kLeastRounds = 8;
  std::vector<std::int64_t> intervals;
  for (const std::int64_t interval : {8, 16, 32, 64, 128}) {
    if (interval <= settings.sync.delay || interval < settings.sync.fragments) continue;
    const bool is_short = interval * kLeastRounds <= settings.train.steps - settings.sync.warmup_steps;
    if (intervals.empty() || is_short) intervals.push_back(interval);
  }
  return intervals;
}

// To begin with, where settings leave it open.
std::int64_t first_interval(const config::Settings& settings) {
  if (settings.sync.interval) return *settings.sync.interval;
  const std::vector<std::int64_t> intervals = intervals_for(settings);
  return intervals.empty() ? interval_of(settings.sync) : intervals[intervals.size() / 2];
}

plan::MethodOptions method_of(const config::Settings& settings) {
  const config::Sync& sync = settings.sync;
  const auto steps = [](std::int64_t count) { return static_cast<std::uint64_t>(count); };
  plan::MethodOptions method{.method = plan::parse_method(sync.method == "auto" ? "allreduce" : sync.method),
                             .value_bytes = bytes_of_a_value(sync.codec),
                             .interval = steps(first_interval(settings)),
                             .delay = steps(sync.delay),
                             .fragments = steps(sync.fragments),
                             .warmup = steps(sync.warmup_steps),
                             .pull_probability = sync.pull == "random" ? sync.pull_probability : 0,
                             .topology = sync.topology == "bandwidth-aware" ? "auto" : sync.topology,
                             .waits = sync.mode == "atc",
                             .group = static_cast<std::size_t>(sync.group),
                             .consensus = sync.consensus};
  if (sync.average_moments) {
    method.value_bytes *= 1 + static_cast<double>(keeping_of(settings, 1, plan::Schedule::k1f1b).optimizer_values);
  }
  return method;
}

// Those that a run may have: the one that it names, or all that its other settings allow.
std::vector<plan::MethodOptions> methods_of(config::Settings settings, std::size_t layers) {
  if (settings.sync.method != "auto") return {method_of(settings)};
  std::vector<plan::MethodOptions> methods;
  std::exception_ptr refusal;
  for (const char* name : {"allreduce", "gossip", "local-sgd", "diloco", "palsgd"}) {
    settings.sync.method = name;
    try {
      check_sync(settings, layers);
      methods.push_back(method_of(settings));
    } catch (const InputError&) {
      refusal = std::current_exception();  // settings that are not for this method
    }
  }
  if (methods.empty()) std::rethrow_exception(refusal);
  return methods;
}

// What else a candidate's method could be like, where settings leave that open.
std::vector<plan::MethodOptions> variants_of(const config::Settings& settings, const plan::Candidate& candidate) {
  const config::Sync& sync = settings.sync;
  const plan::MethodOptions& method = candidate.method;
  std::vector<plan::MethodOptions> variants;
  if (plan::is_local(method.method) && !sync.interval) {
    for (const std::int64_t interval : intervals_for(settings)) {
      variants.push_back(method);
      variants.back().interval = static_cast<std::uint64_t>(interval);
    }
  }
  // Stages of a cluster may be on other computers than its first.
  const auto is_alone = [](const std::vector<std::size_t>& peers) { return peers.size() == 1; };
  if (method.method != plan::Method::kGossip || !std::ranges::all_of(candidate.clusters, is_alone)) return variants;
  const auto add_topology = [&](const char* name) {
    variants.push_back(method);
    variants.back().topology = name;
  };
  const bool knows_links = sync.topology == "bandwidth-aware";
  if (knows_links || sync.topology == "auto") add_topology("alternating-exp-ring");
  constexpr std::size_t kMostOfARing = 8;  // more of them would need too many steps to agree
  if (knows_links && candidate.clusters.size() <= kMostOfARing) add_topology("ring");
  return variants;
}

std::vector<plan::ScheduleOptions> schedules_of(config::Settings settings) {
  if (settings.pipeline.schedule != "auto") return {schedule_of(settings, true, 0)};
  std::vector<plan::ScheduleOptions> schedules;
  for (const char* name : {"1f1b", "gpipe", "async"}) {
    settings.pipeline.schedule = name;
    try {
      schedules.push_back(schedule_of(settings, true, 0));
    } catch (const InputError&) {
      // Steps cannot be cut into such updates.
    }
  }
  return schedules;
}

void write(const plan::Candidate& candidate, const plan::ModelProfile& model, wire::Plan& plan) {
  Bytes largest = 0;
  for (std::size_t cluster = 0; cluster < candidate.clusters.size(); ++cluster) {
    const plan::Partition& partition = candidate.partitions[cluster];
    for (std::size_t stage = 0; stage < partition.cut.size(); ++stage) {
      const plan::Layers layers = partition.cut[stage];
      wire::PlannedPeer& peer = plan.peers[candidate.clusters[cluster][stage]];
      peer.cluster = static_cast<std::uint32_t>(cluster);
      peer.stage = static_cast<std::uint32_t>(stage);
      peer.begin = static_cast<std::uint32_t>(layers.begin);
      peer.end = static_cast<std::uint32_t>(layers.end);
      peer.in_flight = static_cast<std::uint32_t>(partition.in_flight[stage]);
      peer.memory = static_cast<std::uint64_t>(partition.memory[stage].total() + memory_of_links(plan.peers.size()));
      if (layers.end < model.size()) largest = std::max(largest, model[layers.end - 1].border);
    }
  }
  plan.border_bytes = static_cast<std::uint64_t>(largest);
}

// Where there is only one cluster, its stages have copies of each other in memory, if there is room: of themselves two,
// and of the one before them two, and one that is coming. So often that they take a fiftieth of the links' time.
void plan_copies(const config::Settings& settings, const plan::Option& chosen, const plan::ModelProfile& model,
                 const plan::Swarm& swarm, wire::Plan& plan) {
  constexpr double kShareOfTime = 0.02, kSecondsBetween = 10, kMostSteps = 100'000;
  const std::vector<std::size_t>& peers = chosen.candidate.clusters.front();
  const std::size_t stages = peers.size();
  const bool wanted = settings.swarm.buddy_every.value_or(1) > 0;
  if (!wanted || stages < 2 || chosen.candidate.clusters.size() > 1) return;
  const auto values = 1 + keeping_of(settings, 1, chosen.candidate.schedule.schedule).optimizer_values;
  std::vector<Bytes> state(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const plan::Layers layers = chosen.candidate.partitions.front().cut[stage];
    for (std::size_t i = layers.begin; i < layers.end; ++i) {
      state[stage] += model[i].parameters * static_cast<Bytes>(sizeof(float) * values);
    }
  }
  double transfer = 0;
  bool fits = true;
  std::vector<Bytes> copies(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::size_t before = (stage + stages - 1) % stages, next = (stage + 1) % stages;
    copies[stage] = 2 * state[stage] + 3 * state[before];
    transfer = std::max(transfer, static_cast<double>(state[stage]) / swarm.link(peers[stage], peers[next]).bandwidth);
    const plan::Peer& peer = swarm.peers[peers[stage]];
    const Bytes all = chosen.candidate.partitions.front().memory[stage].total() + copies[stage];
    if (!peer.memory || all <= *peer.memory) continue;
    fits = false;
    if (!settings.swarm.buddy_every) continue;
    throw InputError("swarm.buddy_every: with copies of its stages {} would need {}, but has {}; 0 does without",
                     peer.name, format_bytes(all), format_bytes(*peer.memory));
  }
  if (!fits) return;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    plan.peers[peers[stage]].memory += static_cast<std::uint64_t>(copies[stage]);
  }
  if (settings.swarm.buddy_every) return;
  const double between = std::max(kSecondsBetween, transfer / kShareOfTime);
  const double steps = std::ceil(between / std::max(plan.step_seconds, 1e-3));
  plan.settings.push_back(fmt::format("swarm.buddy_every={}", static_cast<int>(std::min(steps, kMostSteps))));
}

// A network card that all links of a peer share: while it sends to several others, they carry clearly less than each
// alone would. So must the others without the one that lost most, which may have seemed faster than it is.
void find_cards(const std::vector<swarm::Means>& means, plan::Swarm& swarm) {
  constexpr double kClearly = 0.75;
  struct Outgoing {
    std::size_t links = 0;
    double apart = 0, together = 0;
    double most_lost = 0, apart_there = 0, together_there = 0;  // by one link

    void add(double alone, double sharing) {
      ++links;
      apart += alone;
      together += sharing;
      if (alone - sharing > most_lost) most_lost = alone - sharing, apart_there = alone, together_there = sharing;
    }
    bool share() const {
      return together < kClearly * apart && together - together_there < kClearly * (apart - apart_there);
    }
  };
  std::vector<Outgoing> outgoing(means.size());
  for (const swarm::Means& receiver : means) {
    for (const wire::SurveyedLink& link : receiver.links) {
      if (link.peer >= means.size() || link.while_sharing <= 0 || link.bandwidth <= 0) continue;
      outgoing[link.peer].add(link.bandwidth, link.while_sharing);
    }
  }
  for (std::size_t i = 0; i < means.size(); ++i) {
    if (!outgoing[i].share()) continue;
    const double at_once = outgoing[i].together * measure::kSharing / static_cast<double>(outgoing[i].links);
    swarm.peers[i].uplink = std::max(at_once, kSlowestLink);
  }
}

// For layers.
Bytes usable(double memory, std::size_t peers) {
  return std::max<Bytes>(0, static_cast<Bytes>(kUsable * memory) - memory_of_links(peers));
}

// Of the memory that is free on its computer, where others are that have no limit either.
std::optional<double> fair_share(const std::vector<swarm::Means>& means, std::size_t of, bool local) {
  const auto free = static_cast<double>(means[of].ready.available);
  if (free == 0) return std::nullopt;
  const auto shares = [&](const swarm::Means& other) {
    return !other.memory && (local || (!other.host.empty() && other.host == means[of].host));
  };
  return free / static_cast<double>(std::max<std::ptrdiff_t>(1, std::ranges::count_if(means, shares)));
}

}  // namespace

plan::Swarm swarm_of(const std::vector<swarm::Means>& means, bool local) {
  plan::Swarm swarm;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const swarm::Means& own = means[i];
    const wire::Ready& ready = own.ready;
    plan::Peer& peer = swarm.peers.emplace_back();
    peer.name = own.name;
    peer.host = own.host;
    peer.processors = local ? "here" : own.host;
    if (!peer.processors.empty()) swarm.cores[peer.processors] = std::max<std::uint32_t>(1, ready.cores);
    peer.pace = std::clamp(ready.speed, kSlowest, 1 / kSlowest);
    if (ready.step_time > 0) peer.step_time = std::min(ready.step_time, kSlowestStep);
    peer.jitter = std::min(ready.jitter, kMostJitter);
    peer.update = std::min(ready.update, kSlowestUpdate);
    peer.byte_cost = std::min(ready.byte_cost, kDearestByte);
    peer.hop = std::min(ready.hop, kLongestHop);
    if (own.crowding > 0) peer.crowding = std::clamp(own.crowding, 1 / kMostCrowding, kMostCrowding);
    if (!ready.layers.empty()) {
      auto layers = std::make_shared<std::vector<plan::LayerTimes>>();
      for (const wire::LayerTimes& layer : ready.layers) {
        layers->push_back({std::min(layer.forward, kSlowestLayer), std::min(layer.backward, kSlowestLayer)});
      }
      peer.layers = std::move(layers);
    }
    const std::optional<double> memory =
        own.memory ? std::optional(static_cast<double>(*own.memory)) : fair_share(means, i, local);
    if (memory) peer.memory = usable(*memory, means.size());
    for (const wire::SurveyedLink& link : own.links) {
      const double carried = std::max(link.bandwidth, link.while_sharing);  // where the two have not met: at least that
      if (link.peer >= means.size() || carried <= 0) continue;
      swarm.links[{link.peer, i}] = {std::max(carried, kSlowestLink), std::min(link.latency, kLongestLatency)};
    }
  }
  if (!swarm.links.empty()) plan::fill_in(swarm, plan::usual_link(swarm));  // where not all have met
  find_cards(means, swarm);
  return swarm;
}

plan::Swarm described_swarm(const config::Settings& settings, const Profile& profile) {
  constexpr plan::Link kWithinAComputer{.bandwidth = 1e9, .latency = 50e-6};
  const auto peers = static_cast<std::size_t>(settings.swarm.peers);
  const auto own_memory = static_cast<Bytes>(observe::resident_memory());
  auto layers = std::make_shared<std::vector<plan::LayerTimes>>();
  for (const plan::LayerProfile& layer : profile.layers) layers->push_back({layer.forward, layer.backward});
  plan::Swarm swarm{.cores = {{"here", std::max(1u, std::thread::hardware_concurrency())}}};
  const auto has_limit = [](const config::Peer& peer) { return peer.memory.has_value(); };
  const auto limited = static_cast<std::size_t>(std::ranges::count_if(settings.peers, has_limit));
  const double share = static_cast<double>(observe::available_memory()) /
                       static_cast<double>(std::max<std::size_t>(1, peers - std::min(peers, limited)));
  for (std::size_t i = 0; i < peers; ++i) {
    const config::Peer described = i < settings.peers.size() ? settings.peers[i] : config::Peer{};
    plan::Peer& peer = swarm.peers.emplace_back();
    peer.name = local_peer_name(i, peers);
    peer.host = described.host.empty() ? "here" : described.host;
    peer.processors = "here";
    peer.layers = layers;
    peer.pace = described.speed;
    peer.update = profile.update;
    peer.byte_cost = profile.byte_cost;
    peer.hop = profile.hop;
    peer.jitter = described.jitter > 0 ? described.jitter : profile.jitter;
    if (described.step_time.count() > 0) peer.step_time = std::chrono::duration<double>(described.step_time).count();
    const double memory = described.memory ? static_cast<double>(*described.memory - own_memory) : share;
    peer.memory = usable(memory, peers);
  }
  plan::Link link = kWithinAComputer;
  if (settings.network.bandwidth) link.bandwidth = *settings.network.bandwidth / 8;
  if (settings.network.latency.count() > 0)
    link.latency = std::chrono::duration<double>(settings.network.latency).count();
  for (std::size_t from = 0; from < peers; ++from) {
    for (std::size_t to = 0; to < peers; ++to) {
      if (from != to) swarm.links[{from, to}] = link;
    }
  }
  return swarm;
}

plan::Swarm described_swarm(const config::DescribedSwarm& description, const Profile& profile) {
  plan::Swarm swarm;
  double micro_batch = 0;  // on this computer
  for (const plan::LayerProfile& layer : profile.layers) micro_batch += layer.forward + layer.backward;
  std::map<std::string, std::vector<std::size_t>> by_name;
  for (const config::DescribedPeer& described : description.peers) {
    const plan::Card card = plan::preset(described.network);
    for (std::int64_t i = 0; i < described.count; ++i) {
      const std::string base = described.name.empty() ? fmt::format("peer-{}", swarm.peers.size()) : described.name;
      by_name[base].push_back(swarm.peers.size());
      plan::Peer& peer = swarm.peers.emplace_back();
      peer.name = described.count > 1 && !described.name.empty() ? fmt::format("{}-{}", base, i) : base;
      peer.host = described.host;
      peer.speed = described.speed;
      if (described.micro_batch_time.count() > 0) {
        peer.speed = micro_batch / std::chrono::duration<double>(described.micro_batch_time).count();
      }
      peer.jitter = described.jitter;
      if (described.step_time.count() > 0) peer.step_time = std::chrono::duration<double>(described.step_time).count();
      peer.update = profile.update / peer.speed;
      peer.memory = described.memory;
      peer.uplink = described.uplink ? *described.uplink / 8 : card.uplink;
      if (described.within) peer.within = *described.within / 8;
      peer.downlink = described.downlink ? *described.downlink / 8 : card.downlink;
      peer.latency = described.latency ? std::chrono::duration<double>(*described.latency).count() : card.latency;
    }
  }
  std::size_t links = 0;
  for (const config::DescribedLink& described : description.links) {
    for (const std::string* const end : {&described.from, &described.to}) {
      if (by_name.contains(*end)) continue;
      std::vector<std::string> known;
      for (const auto& [name, peers] : by_name) known.push_back(name);
      throw InputError("a link goes to '{}', but there is no such peer{}", *end, did_you_mean(*end, known));
    }
    const std::vector<std::size_t>&senders = by_name[described.from], &receivers = by_name[described.to];
    links += senders.size() * receivers.size();
    if (links > kMostDescribedLinks) {
      throw InputError(
          "from {} '{}' to {} '{}' there are too many links, of which there can be {} in all; describe how these peers "
          "are connected by their network, uplink, downlink and latency",
          senders.size(), described.from, receivers.size(), described.to, kMostDescribedLinks);
    }
    plan::Link link{.latency = std::chrono::duration<double>(described.latency).count()};
    if (described.bandwidth) link.bandwidth = *described.bandwidth / 8;
    for (const std::size_t from : senders) {
      for (const std::size_t to : receivers) {
        if (from != to) swarm.links[{from, to}] = swarm.links[{to, from}] = link;
      }
    }
  }
  plan::check(swarm);
  return swarm;
}

void learn(plan::Swarm& swarm, std::size_t peer, const std::vector<wire::SurveyedLink>& links) {
  for (const wire::SurveyedLink& link : links) {
    const auto known = swarm.links.find({link.peer, peer});
    if (known == swarm.links.end() || link.bandwidth <= 0) continue;
    known->second.bandwidth = std::max(known->second.bandwidth, link.bandwidth);
  }
}

config::DescribedSwarm description_of(const plan::Swarm& swarm) {
  const auto duration = [](double seconds) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(std::min(seconds, kSlowestStep)));
  };
  const auto rate = [](double bytes) {
    return std::isfinite(bytes) ? std::optional<BitsPerSecond>(std::round(8 * bytes)) : std::nullopt;
  };
  config::DescribedSwarm description;
  for (const plan::Peer& peer : swarm.peers) {
    config::DescribedPeer& described = description.peers.emplace_back();
    described.name = peer.name;
    described.host = peer.host;
    described.network = "datacenter";  // only what was measured limits it
    described.jitter = peer.jitter;
    described.memory = peer.memory;
    described.uplink = rate(peer.uplink);
    described.downlink = rate(peer.downlink);
    const double pace = std::min(1.0, peer.pace);
    if (peer.step_time) {
      described.step_time = duration(*peer.step_time / pace);
    } else if (peer.layers) {
      double micro_batch = 0;
      for (const plan::LayerTimes& layer : *peer.layers) micro_batch += layer.forward + layer.backward;
      described.micro_batch_time = duration(micro_batch * (pace < 1 ? 1 : peer.crowding.value_or(1)) / pace);
    } else {
      described.speed = peer.speed * pace;
    }
  }
  for (const auto& [ends, there] : swarm.links) {
    const auto [from, to] = ends;
    const auto back = swarm.links.find({to, from});
    if (from > to && back != swarm.links.end()) continue;
    const plan::Link other = back != swarm.links.end() ? back->second : there;
    description.links.push_back({.from = swarm.peers[from].name,
                                 .to = swarm.peers[to].name,
                                 .bandwidth = rate(std::min(there.bandwidth, other.bandwidth)),
                                 .latency = duration(std::max(there.latency, other.latency))});
  }
  return description;
}

plan::Job job_of(const Blueprint& blueprint, plan::ModelProfile layers) {
  const config::Settings& settings = blueprint.settings;
  for (plan::LayerProfile& layer : layers) layer.encoded = bytes_of_a_value(settings.pipeline.codec) / sizeof(float);
  return {.model = std::move(layers),
          .keeping = keeping_of(settings, 1, plan::Schedule::k1f1b),
          .samples = static_cast<double>(settings.train.batch),
          .steps = static_cast<std::uint64_t>(settings.train.steps),
          .clips = settings.train.clip > 0,
          .seed = static_cast<std::uint64_t>(settings.train.seed),
          .goal = settings.swarm.goal == "samples" ? plan::Goal::kSamples : plan::Goal::kLoss};
}

void check_arrangement(const config::Settings& settings, std::size_t layers) {
  const auto by_hand = cut_by_hand(settings);
  if (by_hand) plan::check_cut(*by_hand, layers, "pipeline.stages");
  const auto sizes = cluster_sizes(settings);
  if (!sizes) return;
  if (by_hand && std::ranges::find(*sizes, by_hand->size()) == sizes->end()) {
    throw InputError("pipeline.stages has {} stages, but no cluster has {} peers: swarm.clusters makes them [{}]",
                     by_hand->size(), by_hand->size(), fmt::join(*sizes, ", "));
  }
  const std::size_t largest = std::ranges::max(*sizes);
  if (largest > layers) {
    throw InputError("a cluster of {} peers would have as many stages, but the model has only {} layers", largest,
                     layers);
  }
  schedule_of(settings, largest > 1, 0);  // throws if there is none
}

std::vector<plan::MethodOptions> methods_to_compare(const Blueprint& blueprint) {
  config::Settings settings = blueprint.settings;
  settings.sync.method = "auto";
  return methods_of(std::move(settings), blueprint.model->size());
}

std::vector<plan::Option> options_for(const Blueprint& blueprint, const plan::Job& job, const plan::Swarm& swarm) {
  return options_for(blueprint, blueprint.settings, job, swarm);
}

std::vector<plan::Option> options_for(const Blueprint& blueprint, const config::Settings& settings,
                                      const plan::Job& job, const plan::Swarm& swarm) {
  check_arrangement(settings, blueprint.model->size());
  plan::Wishes wishes{.sizes = cluster_sizes(settings),
                      .may_form = settings.swarm.clusters && settings.swarm.clusters->sizes.empty(),
                      .cut = cut_by_hand(settings),
                      .schedules = schedules_of(settings),
                      .methods = methods_of(settings, blueprint.model->size())};
  wishes.variants = [&](const plan::Candidate& candidate) { return variants_of(settings, candidate); };
  wishes.keeping = [&](const plan::MethodOptions& method, std::size_t clusters, plan::Schedule schedule) {
    config::Settings own = settings;
    own.sync.method = plan::name_of(method.method);
    return keeping_of(own, clusters, schedule);
  };
  return plan::decide(job, swarm, wishes);
}

void arrange(const Blueprint& blueprint, plan::Swarm swarm, wire::Plan& plan) {
  for (plan::Peer& peer : swarm.peers) {
    if (!peer.layers || peer.layers->size() == blueprint.model->size()) continue;
    spdlog::warn("{} has measured {} layers, but the model has {}: it is planned with as if it had measured none",
                 peer.name, peer.layers->size(), blueprint.model->size());
    peer.layers.reset();
  }
  const auto has_layers = [](const plan::Peer& peer) { return peer.layers != nullptr; };
  const bool is_measured = std::ranges::all_of(swarm.peers, has_layers);
  arrange(blueprint, job_of(blueprint, is_measured ? layer_sizes(blueprint) : measure_profile(blueprint).layers), swarm,
          plan);
  if (!is_measured) plan.step_seconds = 0;
}

plan::Option arrange(const Blueprint& blueprint, const plan::Job& job, const plan::Swarm& swarm, wire::Plan& plan) {
  plan::Option best = options_for(blueprint, job, swarm).front();
  write_plan(blueprint.settings, best, job.model, plan);
  plan_copies(blueprint.settings, best, job.model, swarm, plan);
  return best;
}

void write_plan(const config::Settings& settings, const plan::Option& chosen, const plan::ModelProfile& model,
                wire::Plan& plan) {
  write(chosen.candidate, model, plan);
  plan.step_seconds = chosen.prediction.step_seconds;
  if (settings.sync.method == "auto") {
    plan.settings.push_back(fmt::format("sync.method={}", plan::name_of(chosen.candidate.method.method)));
  }
  const plan::MethodOptions& method = chosen.candidate.method;
  if (plan::is_local(method.method) && !settings.sync.interval) {
    plan.settings.push_back(fmt::format("sync.interval={}", method.interval));
  }
  const bool leaves_open = settings.sync.topology == "auto" || settings.sync.topology == "bandwidth-aware";
  if (method.method == plan::Method::kGossip && leaves_open) {
    plan.settings.push_back(fmt::format("sync.topology={}", method.topology));
  }
  if (settings.pipeline.schedule == "auto") {
    plan.settings.push_back(fmt::format("pipeline.schedule={}", plan::name_of(chosen.candidate.schedule.schedule)));
  }
}

}  // namespace rookery::train
