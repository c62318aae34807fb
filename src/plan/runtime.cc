#include "plan/runtime.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "base/suggest.h"
#include "plan/averaging.h"
#include "plan/internal/line.h"
#include "plan/internal/rhythm.h"
#include "plan/topology.h"

namespace rookery::plan {
namespace {

using internal::OnALine;
using internal::Processors;
using internal::Rhythm;

constexpr std::uint64_t kMostSteps = 400;                       // that are rehearsed; the others go on as the last did
constexpr std::uint64_t kMostTurns = 20'000, kLeastSteps = 40;  // steps of all clusters together; then fewer
constexpr double kLeastFactor = 0.05;                           // of a step's time, however it varies
constexpr std::uint64_t kDraws = 0x72756e74;

constexpr std::array<std::pair<Method, std::string_view>, 6> kNames = {{{Method::kNone, "none"},
                                                                        {Method::kAllReduce, "allreduce"},
                                                                        {Method::kGossip, "gossip"},
                                                                        {Method::kLocalSgd, "local-sgd"},
                                                                        {Method::kDiloco, "diloco"},
                                                                        {Method::kPalsgd, "palsgd"}}};

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// A segment and its ring.
struct Way {
  std::vector<std::size_t> members;  // peers, by cluster
  std::optional<Averaging> averaging{};
  std::vector<double> buckets;                 // bytes of each, in the order in which backward completes them
  std::vector<std::vector<double>> readiness;  // of each bucket, by cluster: seconds after the step's begin
  std::vector<Transfer> transfers{};           // of each bucket
  double bytes = 0;                            // of all buckets
  double values = 0;
  std::vector<double> company{};  // by peer: what it averages on all rings, for each value of this one
};

// What goes from one member of a group to another in an exchange.
struct Flow {
  std::size_t from = 0, to = 0;
  double bytes = 0;
};

// Of each of its values everybody sends so many bytes to everybody, or less on a ring.
std::vector<Flow> flows_of(const std::vector<std::size_t>& members, double bytes, bool on_ring) {
  std::vector<Flow> flows;
  const std::size_t m = members.size();
  for (std::size_t i = 0; i < m; ++i) {
    if (on_ring) {
      const double share = 2 * static_cast<double>(m - 1) / static_cast<double>(m);
      flows.push_back({members[i], members[(i + 1) % m], share * bytes});
      continue;
    }
    for (const std::size_t to : members) {
      if (to != members[i]) flows.push_back({members[i], to, bytes});
    }
  }
  return flows;
}

class Forecast {
 public:
  Forecast(const Job& job, const Swarm& swarm, const Candidate& candidate)
      : job_(job),
        swarm_(swarm),
        candidate_(candidate),
        method_(candidate.method),
        clusters_(candidate.clusters.size()),
        synchronous_(is_synchronous(candidate.schedule.schedule)),
        processors_(job, swarm, checked(candidate)),
        mixed_bytes_(swarm.peers.size(), 0.0) {
    find_computers();
    find_ways();
    for (std::size_t c = 0; c < clusters_; ++c) rhythms_.emplace_back(job, swarm, candidate, processors_, c);
    find_readiness();
  }

  Prediction make() {
    Prediction prediction;
    const std::uint64_t steps = std::max<std::uint64_t>(1, job_.steps);
    const std::uint64_t rehearsed = rehearsal_length(steps);
    now_.clear();
    for (const Rhythm& rhythm : rhythms_) now_.push_back(rhythm.fill());
    exchanged_.assign(clusters_, 0.0);
    const std::uint64_t from = rehearsed / 2;
    double middle = 0, middle_of_last = 0, rounds = 0;
    std::vector<double> mixed;
    for (std::uint64_t step = 0; step < rehearsed; ++step) {
      if (step == from) middle = mean_now(), middle_of_last = last_now(), rounds = rounds_, mixed = mixed_bytes_;
      take(step);
    }
    // What is left goes on as the second half did.
    const double more = static_cast<double>(steps - rehearsed) / static_cast<double>(rehearsed - from);
    const auto all = [&](double half, double now) { return (now + more * (now - half)) / static_cast<double>(steps); };
    prediction.step_seconds = all(middle, mean_now());
    const double of_slowest = all(middle_of_last, last_now());
    rounds_ = all(rounds, rounds_);
    for (std::size_t i = 0; i < mixed.size(); ++i) mixed_bytes_[i] = all(mixed[i], mixed_bytes_[i]);
    count_bytes(prediction);
    const double network = processors_.network_work(prediction.bytes_sent, prediction.step_seconds);
    prediction.step_seconds += network;
    // Those who are ahead of the others in the end have not done more than they.
    prediction.samples_per_second = static_cast<double>(clusters_) * job_.samples / (of_slowest + network);
    describe(prediction);
    return prediction;
  }

 private:
  static const Candidate& checked(const Candidate& candidate) {
    ROOKERY_CHECK(!candidate.clusters.empty() && candidate.partitions.size() == candidate.clusters.size());
    return candidate;
  }

  // Whole intervals, half of them after the warm-up.
  std::uint64_t rehearsal_length(std::uint64_t steps) const {
    std::uint64_t length = std::clamp(kMostTurns / clusters_, kLeastSteps, kMostSteps);
    if (is_local(method_.method)) {
      const std::uint64_t interval = method_.interval;
      // Two are enough where there are very many copies.
      const std::uint64_t least = 4 * interval * clusters_ > 2 * kMostTurns ? 2 : 4;
      const std::uint64_t intervals = std::max<std::uint64_t>(least, length / interval / 2 * 2);
      length = 2 * (method_.warmup + intervals / 2 * interval);
    }
    return std::min(length, steps);
  }

  void find_computers() {
    std::map<std::string, std::size_t> known;
    for (std::size_t i = 0; i < swarm_.peers.size(); ++i) {
      const std::string& host = swarm_.peers[i].host;
      computers_.push_back(host.empty() ? swarm_.peers.size() + i : known.emplace(host, i).first->second);
    }
  }

  void find_ways() {
    std::vector<Cut> cuts;
    for (const Partition& partition : candidate_.partitions) cuts.push_back(partition.cut);
    for (const Segment& segment : segments(cuts, job_.model.size())) {
      Way& way = ways_.emplace_back();
      for (std::size_t c = 0; c < clusters_; ++c) {
        way.members.push_back(candidate_.clusters[c][segment.stages[c]]);
      }
      for (std::size_t l = segment.layers.begin; l < segment.layers.end; ++l) {
        way.values += static_cast<double>(job_.model[l].parameters);
      }
      way.bytes = way.values * method_.value_bytes;
      way.averaging.emplace(swarm_, way.members, method_.group);
      segments_.push_back(segment);
    }
    std::vector<double> values(swarm_.peers.size(), 0.0);
    for (const Way& way : ways_) {
      for (const std::size_t peer : way.members) values[peer] += way.values;
    }
    for (Way& way : ways_) {
      for (const double all : values) way.company.push_back(way.values > 0 ? all / way.values : 1);
    }
  }

  // When the gradients of each bucket are complete.
  void find_readiness() {
    for (std::size_t w = 0; w < ways_.size(); ++w) {
      Way& way = ways_[w];
      const auto values = static_cast<std::size_t>(way.values);
      const std::size_t bucket = bucket_of(values);
      const std::size_t count = (values + bucket - 1) / bucket;
      for (std::size_t b = count; b-- > 0;) {
        way.buckets.push_back(static_cast<double>(std::min(bucket, values - b * bucket)) * method_.value_bytes);
        way.transfers.push_back(way.averaging->transfer(way.buckets.back(), way.company));
        auto& ready = way.readiness.emplace_back();
        for (std::size_t c = 0; c < clusters_; ++c) ready.push_back(rhythms_[c].ready_at(segments_[w], b * bucket));
      }
    }
  }

  double mean_now() const { return std::accumulate(now_.begin(), now_.end(), 0.0) / static_cast<double>(clusters_); }

  double last_now() const { return *std::ranges::max_element(now_); }

  // Of the slowest stage of a cluster in a step: they wait for each other.
  double factor(std::size_t c, std::uint64_t step) const {
    double most = 0;
    for (const std::size_t peer : candidate_.clusters[c]) {
      const double jitter = swarm_.peers[peer].jitter;
      if (jitter == 0) {
        most = std::max(most, 1.0);
        continue;
      }
      Random random({job_.seed, kDraws, peer, step});
      const double drawn = std::max(kLeastFactor, 1 + jitter * normal(random));
      most = std::max(most, processors_.varied(peer, drawn));
    }
    return most;
  }

  double pull_time(std::size_t c) const { return internal::kPassShare * rhythms_[c].longest_update(); }

  bool pulls(std::size_t c, std::uint64_t step) const {
    if (method_.method != Method::kPalsgd || step < method_.warmup || method_.pull_probability <= 0) return false;
    Random random({job_.seed, kDraws, 1'000'000 + c, step});
    return random.uniform() < method_.pull_probability;
  }

  void take(std::uint64_t step) {
    const bool warms_up =
        (method_.method == Method::kDiloco || method_.method == Method::kPalsgd) && step < method_.warmup;
    if (clusters_ == 1 || method_.method == Method::kNone) {
      for (std::size_t c = 0; c < clusters_; ++c) compute(c, step);
    } else if (method_.method == Method::kAllReduce || warms_up) {
      all_reduce(step);
    } else if (method_.method == Method::kGossip) {
      gossip(step);
    } else {
      local(step);
    }
  }

  void compute(std::size_t c, std::uint64_t step) {
    now_[c] += pulls(c, step) ? pull_time(c) : rhythms_[c].step() * factor(c, step) + rhythms_[c].after_backward();
  }

  // Everybody waits for everybody. An asynchronous pipeline makes several updates in a step, each with a round.
  void all_reduce(std::uint64_t step) {
    std::vector<double> factors, begins = now_;
    for (std::size_t c = 0; c < clusters_; ++c) factors.push_back(factor(c, step));
    std::vector<double> ends(clusters_);
    const auto rounds = static_cast<double>(candidate_.schedule.updates());
    for (std::size_t c = 0; c < clusters_; ++c) ends[c] = begins[c] + rhythms_[c].step() * factors[c];
    for (const Way& way : ways_) {
      std::vector<OnALine> buckets;
      double latency = 0;
      for (std::size_t b = 0; b < way.buckets.size(); ++b) {
        double ready = 0;
        for (std::size_t c = 0; c < clusters_; ++c) {
          const double after = synchronous_ ? way.readiness[b][c] : rhythms_[c].step();
          ready = std::max(ready, begins[c] + after * factors[c]);
        }
        const Transfer& transfer = way.transfers[b];
        buckets.push_back({ready, transfer.busy * rounds, transfer.alone * rounds - transfer.latency});
        latency = std::max(latency, transfer.latency);
      }
      const double last = last_end(buckets) + latency;
      for (double& end : ends) end = std::max(end, last);
    }
    const double waits = rounds * processors_.wait_for_one();
    for (std::size_t c = 0; c < clusters_; ++c) now_[c] = ends[c] + waits + rhythms_[c].after_backward();
    rounds_ += rounds;
  }

  Topology topology() const {
    std::map<std::size_t, std::size_t> hosts;  // in the order of clusters
    std::vector<Member> members(clusters_);
    for (std::size_t c = 0; c < clusters_; ++c) {
      members[c].host = hosts.emplace(computers_[candidate_.clusters[c].front()], hosts.size()).first->second;
    }
    return {topology_for(method_.topology, clusters_), members};
  }

  // X(i,t) = max(X(i,t-1) + compute, end of the last exchange) + update; an exchange begins when all of its group have
  // come. Adapt, then combine, waits for it at once. Every update counts.
  void gossip(std::uint64_t step) {
    if (!topology_) topology_.emplace(topology());
    const std::uint64_t updates = candidate_.schedule.updates();
    std::vector<double> factors;
    for (std::size_t c = 0; c < clusters_; ++c) factors.push_back(factor(c, step));
    for (std::uint64_t turn = step * updates; turn < (step + 1) * updates; ++turn) {
      for (std::size_t c = 0; c < clusters_; ++c) {
        const double own = rhythms_[c].step() * factors[c] / static_cast<double>(updates);
        now_[c] = std::max(now_[c] + own, exchanged_[c]) + rhythms_[c].after_backward();
      }
      std::vector<Mix> groups;
      for (std::size_t c = 0; c < clusters_; ++c) {
        const Mix mix = topology_->mix(c, turn, method_.consensus);
        if (mix.members.size() > 1 && mix.members.front() == c) groups.push_back(mix);
      }
      exchange(groups);
    }
  }

  bool averages_on_ring(const Mix& group) const {
    return group.averages && group.members.size() >= kSmallestRing && method_.value_bytes == sizeof(float);
  }

  // The network card that a flow leaves by: its computer's, or, where links were measured, the part of it that the peer
  // had while all others were sending, too.
  std::size_t card_of(const Flow& flow) const {
    const bool is_measured = swarm_.links.contains({flow.from, flow.to});
    return is_measured ? 2 * swarm_.peers.size() + flow.from : computers_[flow.from];
  }

  // All groups of a turn: what leaves by a card shares it.
  void exchange(const std::vector<Mix>& groups) {
    std::vector<std::vector<Flow>> flows(groups.size());
    std::vector<double> loads(3 * swarm_.peers.size());  // bytes that leave by each card
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const Way& way : ways_) {
        std::vector<std::size_t> members;
        for (const std::size_t member : groups[g].members) members.push_back(way.members[member]);
        for (const Flow& flow : flows_of(members, way.bytes, averages_on_ring(groups[g]))) {
          const auto same = std::ranges::find_if(
              flows[g], [&](const Flow& other) { return other.from == flow.from && other.to == flow.to; });
          same == flows[g].end() ? flows[g].push_back(flow) : void(same->bytes += flow.bytes);
          if (!swarm_.are_together(flow.from, flow.to)) loads[card_of(flow)] += flow.bytes;
        }
      }
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto hops = static_cast<double>(averages_on_ring(groups[g]) ? 2 * (groups[g].members.size() - 1) : 1);
      double begin = 0, longest = 0;
      for (const std::size_t member : groups[g].members) begin = std::max(begin, now_[member]);
      for (const Flow& flow : flows[g]) {
        const Link link = swarm_.link(flow.from, flow.to);
        const double card =
            swarm_.are_together(flow.from, flow.to) ? 0 : loads[card_of(flow)] / swarm_.peers[flow.from].uplink;
        const double asking = flow.bytes > kUnaskedBytes ? link.latency : 0;
        longest = std::max(longest, asking + std::max(card, flow.bytes / link.bandwidth) + hops * link.latency);
      }
      for (const std::size_t member : groups[g].members) {
        exchanged_[member] = begin + longest;
        if (method_.waits) now_[member] = exchanged_[member];
      }
      for (const Flow& flow : flows[g]) mixed_bytes_[flow.from] += flow.bytes;
    }
  }

  // The f-th of F fragments begins a round after (f+1)H/F steps, and every H from there; it is needed `delay` steps
  // later. In an asynchronous pipeline nobody waits for rounds without a delay, unless the next one of the fragment is
  // due.
  void local(std::uint64_t step) {
    for (std::size_t c = 0; c < clusters_; ++c) compute(c, step);
    const bool has_warmup = method_.method != Method::kLocalSgd;
    const std::uint64_t done = step + 1 - (has_warmup ? method_.warmup : 0);
    const std::uint64_t fragments = std::min<std::uint64_t>(method_.fragments, job_.model.size());
    ends_.resize(fragments, 0.0);
    begun_.resize(fragments, 0);
    const bool holds_up = synchronous_ || method_.delay > 0;
    for (std::uint64_t f = 0; f < fragments; ++f) {
      const std::uint64_t offset = (f + 1) * method_.interval / fragments;
      if (done < offset || (done - offset) % method_.interval != 0) continue;
      wait_for(f);
      const double begin = *std::ranges::max_element(now_);
      double free = 0, last = 0;
      for (const Way& way : ways_) {
        const Transfer transfer = way.averaging->transfer(way.bytes / static_cast<double>(fragments), way.company);
        const double sent = std::max(begin, line_) + transfer.busy;
        free = std::max(free, sent);
        last = std::max({last, begin + transfer.alone, sent + transfer.latency});
      }
      line_ = free;
      ends_[f] = last;
      begun_[f] = done;
      rounds_ += 1 / static_cast<double>(fragments);
    }
    if (!holds_up) return;
    for (std::uint64_t f = 0; f < fragments; ++f) {
      if (begun_[f] > 0 && done == begun_[f] + method_.delay) wait_for(f);
    }
  }

  void wait_for(std::uint64_t fragment) {
    if (begun_[fragment] == 0) return;
    for (std::size_t c = 0; c < clusters_; ++c) {
      now_[c] = std::max(now_[c], ends_[fragment]) + 2 * pull_time(c) / static_cast<double>(ends_.size());
    }
    begun_[fragment] = 0;
  }

  // Of a step.
  void count_bytes(Prediction& prediction) const {
    prediction.bytes_sent.assign(swarm_.peers.size(), 0.0);
    for (std::size_t c = 0; c < clusters_; ++c) {
      const std::vector<std::size_t>& peers = candidate_.clusters[c];
      for (std::size_t s = 0; s < peers.size(); ++s) prediction.bytes_sent[peers[s]] += rhythms_[c].bytes_sent(s);
    }
    for (const Way& way : ways_) {
      for (std::size_t c = 0; c < clusters_; ++c) {
        prediction.bytes_sent[way.members[c]] += way.bytes * way.averaging->sent(c) * rounds_;
      }
    }
    for (std::size_t i = 0; i < mixed_bytes_.size(); ++i) prediction.bytes_sent[i] += mixed_bytes_[i];
  }

  void describe(Prediction& prediction) const {
    double pulled = 0;  // share of steps
    if (method_.method == Method::kPalsgd && clusters_ > 1) {
      const double warmup = std::min(1.0, static_cast<double>(method_.warmup) / static_cast<double>(job_.steps));
      pulled = method_.pull_probability * (1 - warmup);
    }
    prediction.samples_per_second *= 1 - pulled;
    prediction.memory.assign(swarm_.peers.size(), 0);
    double busy = 0;
    std::size_t peers = 0;
    for (std::size_t c = 0; c < clusters_; ++c) {
      busy += rhythms_[c].busy();
      for (std::size_t s = 0; s < candidate_.clusters[c].size(); ++s, ++peers) {
        prediction.memory[candidate_.clusters[c][s]] = candidate_.partitions[c].memory[s].total();
      }
    }
    prediction.compute_seconds = busy * (1 - pulled) / static_cast<double>(peers);
    prediction.exposed_share = std::max(0.0, 1 - prediction.compute_seconds / prediction.step_seconds);
    for (const Way& way : ways_) {
      const Transfer whole = way.averaging->transfer(way.bytes, way.company);
      prediction.round_seconds = std::max(prediction.round_seconds, whole.alone);
    }
  }

  const Job& job_;
  const Swarm& swarm_;
  const Candidate& candidate_;
  const MethodOptions& method_;
  std::size_t clusters_;
  bool synchronous_;
  std::vector<std::size_t> computers_;  // of each peer, as numbers
  std::vector<Segment> segments_;
  std::vector<Way> ways_;  // of each segment
  Processors processors_;
  std::vector<Rhythm> rhythms_;  // of each cluster
  std::optional<Topology> topology_;

  std::vector<double> now_;        // when each cluster has done what it has done
  std::vector<double> exchanged_;  // when its last exchange ended
  std::vector<double> ends_;       // of the last round of each fragment
  std::vector<std::uint64_t> begun_;
  double line_ = 0;                  // when the links have done all rounds so far
  double rounds_ = 0;                // averages of the whole model so far
  std::vector<double> mixed_bytes_;  // that each peer has sent in gossip
};

}  // namespace

Method parse_method(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [method, its_name] : kNames) {
    if (name == its_name) return method;
    known.emplace_back(its_name);
  }
  throw InputError("sync.method: there is no '{}'{}", name, did_you_mean(std::string(name), known));
}

std::string_view name_of(Method method) {
  return std::ranges::find(kNames, method, &std::pair<Method, std::string_view>::first)->second;
}

std::string described(const MethodOptions& method) {
  const std::string name(name_of(method.method));
  if (is_local(method.method)) return fmt::format("{}, H = {}", name, method.interval);
  const bool is_special = method.method == Method::kGossip && method.topology != "auto";
  return is_special ? fmt::format("{}, {}", name, method.topology) : name;
}

std::string topology_for(const std::string& name, std::size_t clusters) {
  if (name != "auto") return name;
  return std::has_single_bit(clusters) ? "one-peer-exp" : "finite";
}

std::size_t bucket_of(std::size_t values) {
  constexpr std::size_t kLargest = 25'000'000 / sizeof(float), kSmallest = 32 * 1024, kAtLeast = 4;
  return std::clamp(values / kAtLeast, kSmallest, kLargest);
}

double Prediction::all_bytes_sent() const { return std::accumulate(bytes_sent.begin(), bytes_sent.end(), 0.0); }

Prediction predict(const Job& job, const Swarm& swarm, const Candidate& candidate) {
  return Forecast(job, swarm, candidate).make();
}

}  // namespace rookery::plan
