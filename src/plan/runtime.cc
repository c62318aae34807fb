#include "plan/runtime.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "base/suggest.h"
#include "plan/averaging.h"
#include "plan/topology.h"

namespace rookery::plan {
namespace {

constexpr std::uint64_t kMostSteps = 400;                       // that are rehearsed; the others go on as the last did
constexpr std::uint64_t kMostTurns = 20'000, kLeastSteps = 40;  // steps of all clusters together; then fewer
constexpr double kLeastFactor = 0.05;                           // of a step's time, however it varies
constexpr double kPassShare = 0.25;                             // of what an update takes: one pass over the parameters
constexpr double kCrowded = 0.1;  // what peers lose to each other's caches, for as many others as there are cores
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

// A transfer over links that others use, too.
struct OnALine {
  double ready = 0;            // when it begins
  double busy = 0, alone = 0;  // how long it keeps the links busy, and takes if there is no other
  double left = 1;             // the share that is still to come
};

// When all of them have ended. Those that are under way share the links evenly; none is faster than it would be alone.
// Requires: they are in the order in which they begin.
double last_end(const std::vector<OnALine>& transfers) {
  double now = 0;
  std::vector<OnALine> under_way;
  for (std::size_t next = 0; next < transfers.size() || !under_way.empty();) {
    if (under_way.empty()) now = std::max(now, transfers[next].ready);
    while (next < transfers.size() && transfers[next].ready <= now) under_way.push_back(transfers[next++]);
    const auto many = static_cast<double>(under_way.size());
    const auto takes = [many](const OnALine& own) { return std::max(own.alone, own.busy * many); };
    // To whatever happens first: one ends, or another begins.
    double passes = next < transfers.size() ? transfers[next].ready - now : std::numeric_limits<double>::infinity();
    for (const OnALine& own : under_way) passes = std::min(passes, own.left * takes(own));
    for (OnALine& own : under_way) {
      const double whole = takes(own);
      own.left = whole > 0 ? own.left - passes / whole : 0;
    }
    now += passes;
    constexpr double kNothing = 1e-9;
    std::erase_if(under_way, [](const OnALine& own) { return own.left < kNothing; });
  }
  return now;
}

// How the stages of a cluster go through a step when nobody holds them up.
struct Rhythm {
  double step = 0;                 // from the begin of a step to that of the next, updates apart if synchronous
  std::vector<double> last_begin;  // of each stage: when the last backward of a step begins, after the step did
  std::vector<double> last_end;
  std::vector<double> busy;  // of each stage in a step
  double fill = 0;           // of an asynchronous pipeline: what its first steps take longer than the others
  double longest_update = 0;
};

class Forecast {
 public:
  Forecast(const Job& job, const Swarm& swarm, const Candidate& candidate)
      : job_(job),
        swarm_(swarm),
        candidate_(candidate),
        method_(candidate.method),
        clusters_(candidate.clusters.size()),
        synchronous_(is_synchronous(candidate.schedule.schedule)),
        rings_of_peer_(swarm.peers.size(), 0.0),
        slowdown_(swarm.peers.size(), 1.0),
        border_bytes_(swarm.peers.size(), 0.0),
        mixed_bytes_(swarm.peers.size(), 0.0),
        paces_(swarm.peers.size()) {
    ROOKERY_CHECK(clusters_ > 0 && candidate.partitions.size() == clusters_);
    find_computers();
    find_ways();
    share_cores();
    for (std::size_t c = 0; c < clusters_; ++c) rhythms_.push_back(rhythm_of(c));
    find_readiness();
  }

  Prediction make() {
    Prediction prediction;
    const std::uint64_t steps = std::max<std::uint64_t>(1, job_.steps);
    const std::uint64_t rehearsed = rehearsal_length(steps);
    now_.clear();
    for (const Rhythm& rhythm : rhythms_) now_.push_back(rhythm.fill);
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
    const double network = network_work(prediction);
    prediction.step_seconds += network;
    // Those who are ahead of the others in the end have not done more than they.
    prediction.samples_per_second = static_cast<double>(clusters_) * job_.samples / (of_slowest + network);
    describe(prediction);
    return prediction;
  }

 private:
  // Whole intervals, half of them after the warm-up.
  std::uint64_t rehearsal_length(std::uint64_t steps) const {
    std::uint64_t length = std::clamp(kMostTurns / clusters_, kLeastSteps, kMostSteps);
    if (is_local(method_.method)) {
      const std::uint64_t interval = method_.interval;
      const std::uint64_t intervals = std::max<std::uint64_t>(4, length / interval / 2 * 2);
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
        rings_of_peer_[way.members.back()] += 1;
      }
      for (std::size_t l = segment.layers.begin; l < segment.layers.end; ++l) {
        way.values += static_cast<double>(job_.model[l].parameters);
      }
      way.bytes = way.values * method_.value_bytes;
      way.averaging.emplace(swarm_, way.members, method_.group);
      segments_.push_back(segment);
    }
  }

  // What a step's micro-batches take a stage.
  struct Work {
    std::size_t peer = 0;
    double alone = 0;            // as slow as it is asked to be, if it had the caches for itself
    double asked = 0, full = 0;  // and as it shares them
  };

  std::vector<Work> work_by_processors(const std::string& processors, double cores) const {
    const auto sharing = [&](const Peer& peer) { return peer.processors == processors; };
    const auto peers = static_cast<double>(std::ranges::count_if(swarm_.peers, sharing));
    const double crowded = 1 + kCrowded * std::clamp((peers - 1) / cores, 0.0, 1.5);
    std::vector<Work> all;
    for (std::size_t c = 0; c < clusters_; ++c) {
      const std::vector<Worker> workers = workers_of(swarm_, candidate_.clusters[c], candidate_.schedule.micro_batches);
      for (std::size_t s = 0; s < workers.size(); ++s) {
        const std::size_t peer = candidate_.clusters[c][s];
        if (swarm_.peers[peer].processors != processors) continue;
        const Layers layers = candidate_.partitions[c].cut[s];
        const ActionTimes asked = action_times(job_.model, workers[s], layers, job_.keeping.versions);
        Worker free = workers[s];
        free.micro_batch_time.reset();
        free.speed /= std::min(1.0, swarm_.peers[peer].pace);
        const ActionTimes full = action_times(job_.model, free, layers, job_.keeping.versions);
        const double crowded_asked = workers[s].micro_batch_time ? 1 : crowded;  // or what it pretends
        const double asked_time = asked.forward + asked.backward, full_time = full.forward + full.backward;
        all.push_back({peer, asked_time, crowded_asked * asked_time, crowded * full_time});
      }
    }
    return all;
  }

  // Peers of one computer share its processors. Each computes for a share of the time, less than all of it if it is
  // slowed down anyway; if they want more than there is, whoever computes takes longer, until it fits.
  void share_cores() {
    for (const auto& [processors, cores] : swarm_.cores) {
      const std::vector<Work> all = work_by_processors(processors, cores);
      const auto demand = [&](double factor) {
        double sum = 0;
        for (const Work& own : all) {
          const double takes = std::max(own.asked, own.full * factor);
          if (takes > 0) sum += own.full / takes;
        }
        return sum;
      };
      double low = 1, high = std::max(1.0, static_cast<double>(all.size()) / cores);
      for (int i = 0; i < 40 && high - low > 1e-9; ++i) {
        const double middle = (low + high) / 2;
        (demand(middle) > cores ? low : high) = middle;
      }
      for (const Work& own : all) {
        const double takes = std::max(own.asked, own.full * high);
        if (own.alone > 0) slowdown_[own.peer] = takes / own.alone;
        // Only the time varies that it waits to be as slow as it is asked to be.
        const Peer& peer = swarm_.peers[own.peer];
        if (takes > 0 && (peer.step_time || peer.pace < 1))
          paces_[own.peer] = {own.asked / takes, own.full * high / takes};
      }
      idle_cores_[processors] = std::max(0.0, cores - demand(high));
    }
  }

  // Where all processors compute, whoever receives something waits for one before it can pass it on.
  double wait_for_processor() const {
    constexpr double kTimeSlice = 1e-3, kFree = 0.5;
    const auto is_busy = [](const auto& idle) { return idle.second < kFree; };
    return std::ranges::any_of(idle_cores_, is_busy) ? kTimeSlice : 0;
  }

  // What rounds and borders take of processors that have something else to do makes steps longer.
  double network_work(const Prediction& prediction) const {
    double longest = 0;
    for (const auto& [processors, idle] : idle_cores_) {
      double work = 0;
      for (std::size_t i = 0; i < swarm_.peers.size(); ++i) {
        const Peer& own = swarm_.peers[i];
        if (own.processors == processors) work += 2 * own.byte_cost * prediction.bytes_sent[i];
      }
      longest = std::max(longest, (work - idle * prediction.step_seconds) / swarm_.cores.at(processors));
    }
    return longest;
  }

  double parameters_of(std::size_t c, std::size_t stage) const {
    double parameters = 0;
    const Layers layers = candidate_.partitions[c].cut[stage];
    for (std::size_t l = layers.begin; l < layers.end; ++l) {
      parameters += static_cast<double>(job_.model[l].parameters);
    }
    return parameters;
  }

  // With versions that are stashed the parameters are copied before.
  double update_of(std::size_t c, std::size_t stage) const {
    const std::size_t peer = candidate_.clusters[c][stage];
    const bool copies =
        !synchronous_ && job_.keeping.versions == Versions::kStash && stage + 1 < candidate_.clusters[c].size();
    const double passes = copies ? 1 + kPassShare : 1;
    return swarm_.peers[peer].update * parameters_of(c, stage) * slowdown_[peer] * passes;
  }

  std::vector<ActionTimes> actions_of(std::size_t c) const {
    const Partition& partition = candidate_.partitions[c];
    const std::vector<Worker> workers = workers_of(swarm_, candidate_.clusters[c], candidate_.schedule.micro_batches);
    std::vector<ActionTimes> times;
    for (std::size_t s = 0; s < workers.size(); ++s) {
      ActionTimes& own =
          times.emplace_back(action_times(job_.model, workers[s], partition.cut[s], job_.keeping.versions));
      const double slowdown = slowdown_[candidate_.clusters[c][s]];
      own.forward *= slowdown;
      own.backward *= slowdown;
      own.update = synchronous_ ? 0 : update_of(c, s);
    }
    return times;
  }

  // In an asynchronous pipeline what is tied goes to and fro with every update. Where it shares a link, or a card, with
  // borders, they take turns, so that a border waits for as much as it is itself. Returns what the busiest link takes
  // for a micro-batch: gradients all have to go, but of values only the newest do.
  double add_ties(std::size_t c, std::vector<ActionTimes>& times) const {
    const auto& peers = candidate_.clusters[c];
    double busiest = 0;
    const auto add = [&](std::size_t from, std::size_t to, double bytes, double& border) {
      const Link link = swarm_.link(peers[from], peers[to]);
      const std::size_t next = to > from ? from + 1 : from - 1;
      const double uplink = swarm_.peers[peers[from]].uplink;
      const bool shares = next == to || uplink < link.bandwidth + swarm_.link(peers[from], peers[next]).bandwidth;
      const double tied = bytes / std::min(uplink, link.bandwidth);
      if (to == 0) busiest = std::max(busiest, tied + (shares ? border : 0));
      if (shares) border += std::min(border, tied);
    };
    for (std::size_t s = 1; s < peers.size(); ++s) {
      const double bytes = tied_bytes(c, s) / static_cast<double>(candidate_.schedule.group());
      if (bytes == 0) continue;
      add(0, s, bytes, times[0].send_forward);
      add(s, 0, bytes, times[s].send_backward);
    }
    return busiest;
  }

  Rhythm rhythm_of(std::size_t c) {
    const Partition& partition = candidate_.partitions[c];
    const std::size_t stages = partition.cut.size();
    std::vector<ActionTimes> times = actions_of(c);
    const double busiest_link = synchronous_ ? 0 : add_ties(c, times);
    const std::uint64_t micro_batches = candidate_.schedule.micro_batches;
    Rhythm rhythm{.last_begin = std::vector<double>(stages), .last_end = std::vector<double>(stages), .busy = {}};
    std::vector<ScheduleOptions> options(stages, candidate_.schedule);
    for (std::size_t s = 0; s < stages; ++s) {
      options[s].in_flight = partition.in_flight[s];
      const auto many = static_cast<double>(micro_batches);
      rhythm.busy.push_back(many * (times[s].forward + times[s].backward) +
                            static_cast<double>(candidate_.schedule.updates()) * update_of(c, s));
      rhythm.longest_update = std::max(rhythm.longest_update, update_of(c, s));
      count_borders(c, s);
    }
    const std::uint64_t steps = synchronous_ ? 1 : 4 + 16 * stages / micro_batches;
    std::vector<double> ends(steps);
    for (const PlannedAction& action : timeline(options, times, steps)) {
      const std::uint64_t step = action.micro_batch / micro_batches;
      ends[step] = std::max(ends[step], action.end);
      if (action.action != Action::kBackward || step + 1 < steps) continue;
      rhythm.last_begin[action.stage] = action.begin;
      rhythm.last_end[action.stage] = action.end;
    }
    double overhead = 0;
    for (const std::size_t peer : candidate_.clusters[c]) overhead = std::max(overhead, swarm_.peers[peer].overhead);
    const std::uint64_t half = steps / 2;
    rhythm.step = synchronous_ ? ends[0] : (ends[steps - 1] - ends[half - 1]) / static_cast<double>(steps - half);
    rhythm.step = std::max(rhythm.step, busiest_link * static_cast<double>(micro_batches));
    if (!synchronous_) rhythm.fill = std::max(0.0, ends[steps - 1] - static_cast<double>(steps) * rhythm.step);
    rhythm.step += overhead;
    return rhythm;
  }

  // Parameters that two stages of a cluster use: the first stage owns them, as models bring them with their first
  // layer.
  double tied_bytes(std::size_t c, std::size_t stage) const {
    const Layers layers = candidate_.partitions[c].cut[stage];
    double replicas = 0;
    for (std::size_t l = layers.begin; stage > 0 && l < layers.end; ++l) {
      replicas = std::max(replicas, static_cast<double>(job_.model[l].replicas));  // layers share them
    }
    return replicas * sizeof(float);
  }

  // What they take in a synchronous step: gradients go to the owner while the last backwards come down to it, and
  // values come back before the next step.
  double tie_time(std::size_t c) const {
    double longest = 0;
    const auto& peers = candidate_.clusters[c];
    for (std::size_t s = 1; s < peers.size(); ++s) {
      const double bytes = tied_bytes(c, s);
      if (bytes == 0) continue;
      const Link there = swarm_.link(peers[s], peers[0]), back = swarm_.link(peers[0], peers[s]);
      const double gathering = bytes / there.bandwidth + there.latency;
      const double meanwhile = rhythms_[c].last_end[0] - rhythms_[c].last_end[s];
      longest = std::max(longest, std::max(0.0, gathering - meanwhile) + bytes / back.bandwidth + back.latency);
    }
    return longest;
  }

  void count_borders(std::size_t c, std::size_t stage) {
    const Layers layers = candidate_.partitions[c].cut[stage];
    double bytes = 0;
    if (layers.end < job_.model.size()) bytes += job_.model[layers.end - 1].sent_forward();
    if (layers.begin > 0) bytes += job_.model[layers.begin - 1].sent_backward();
    border_bytes_[candidate_.clusters[c][stage]] += bytes * static_cast<double>(candidate_.schedule.micro_batches);
    const double tied = tied_bytes(c, stage) * static_cast<double>(candidate_.schedule.updates());
    border_bytes_[candidate_.clusters[c][stage]] += tied;
    border_bytes_[candidate_.clusters[c][0]] += tied;
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
        way.transfers.push_back(way.averaging->transfer(way.buckets.back(), rings_of_peer_));
        auto& ready = way.readiness.emplace_back();
        for (std::size_t c = 0; c < clusters_; ++c) ready.push_back(ready_at(c, segments_[w], b * bucket));
      }
    }
  }

  // When the gradients of a segment from the `from`-th value on are complete: backward goes from the last layer to the
  // first, and the micro-batch that completes them is the last one of the step.
  double ready_at(std::size_t c, const Segment& segment, std::size_t from) const {
    const std::size_t stage = segment.stages[c];
    const Rhythm& rhythm = rhythms_[c];
    const Layers own = candidate_.partitions[c].cut[stage];
    std::vector<Worker> workers = workers_of(swarm_, candidate_.clusters[c], candidate_.schedule.micro_batches);
    workers[stage].micro_batch_time.reset();  // what counts are shares
    std::size_t layer = segment.layers.begin;
    for (std::size_t values = 0; layer < segment.layers.end; ++layer) {
      values += job_.model[layer].parameters;
      if (values > from) break;
    }
    const double all = action_times(job_.model, workers[stage], own, job_.keeping.versions).backward;
    double share = 0;  // of the backward that is still to come
    if (all > 0 && layer > own.begin) {
      share = action_times(job_.model, workers[stage], {own.begin, layer}, job_.keeping.versions).backward / all;
    }
    return rhythm.last_end[stage] - share * (rhythm.last_end[stage] - rhythm.last_begin[stage]);
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
      most = std::max(most, std::max(paces_[peer].least, paces_[peer].asked * drawn));
    }
    return most;
  }

  double pull_time(std::size_t c) const { return kPassShare * rhythms_[c].longest_update; }

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

  // What follows the last backward of a synchronous step: the norm over the whole model, and the update.
  double after_backward(std::size_t c) const {
    if (!synchronous_) return 0;
    double norm = 0;
    const auto& peers = candidate_.clusters[c];
    if (job_.clips && peers.size() > 1) {
      for (std::size_t s = 0; s < peers.size(); ++s) {
        norm = std::max(norm, swarm_.link(peers[s], peers[(s + 1) % peers.size()]).latency);
      }
      norm *= 2 * static_cast<double>(peers.size() - 1);
    }
    return norm + tie_time(c) + rhythms_[c].longest_update;
  }

  void compute(std::size_t c, std::uint64_t step) {
    now_[c] += pulls(c, step) ? pull_time(c) : rhythms_[c].step * factor(c, step) + after_backward(c);
  }

  // Everybody waits for everybody. An asynchronous pipeline makes several updates in a step, each with a round.
  void all_reduce(std::uint64_t step) {
    std::vector<double> factors, begins = now_;
    for (std::size_t c = 0; c < clusters_; ++c) factors.push_back(factor(c, step));
    std::vector<double> ends(clusters_);
    const auto rounds = static_cast<double>(candidate_.schedule.updates());
    for (std::size_t c = 0; c < clusters_; ++c) ends[c] = begins[c] + rhythms_[c].step * factors[c];
    for (const Way& way : ways_) {
      std::vector<OnALine> buckets;
      double latency = 0;
      for (std::size_t b = 0; b < way.buckets.size(); ++b) {
        double ready = 0;
        for (std::size_t c = 0; c < clusters_; ++c) {
          const double after = synchronous_ ? way.readiness[b][c] : rhythms_[c].step;
          ready = std::max(ready, begins[c] + after * factors[c]);
        }
        const Transfer& transfer = way.transfers[b];
        buckets.push_back({ready, transfer.busy * rounds, transfer.alone * rounds - transfer.latency});
        latency = std::max(latency, transfer.latency);
      }
      const double last = last_end(buckets) + latency;
      for (double& end : ends) end = std::max(end, last);
    }
    const double waits = rounds * wait_for_processor();
    for (std::size_t c = 0; c < clusters_; ++c) now_[c] = ends[c] + waits + after_backward(c);
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
        const double own = rhythms_[c].step * factors[c] / static_cast<double>(updates) + after_backward(c);
        now_[c] = std::max(now_[c] + own, exchanged_[c] + after_backward(c));
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
      double last = 0;
      for (const Way& way : ways_) {
        const Transfer transfer = way.averaging->transfer(way.bytes / static_cast<double>(fragments), rings_of_peer_);
        last = std::max(last, std::max(begin, line_) + transfer.alone);
      }
      line_ = ends_[f] = last;
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
    prediction.bytes_sent = border_bytes_;
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
      for (std::size_t s = 0; s < candidate_.clusters[c].size(); ++s, ++peers) {
        prediction.memory[candidate_.clusters[c][s]] = candidate_.partitions[c].memory[s].total();
        busy += rhythms_[c].busy[s];
      }
    }
    prediction.compute_seconds = busy * (1 - pulled) / static_cast<double>(peers);
    prediction.exposed_share = std::max(0.0, 1 - prediction.compute_seconds / prediction.step_seconds);
    for (const Way& way : ways_) {
      const Transfer whole = way.averaging->transfer(way.bytes, rings_of_peer_);
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
  std::vector<double> rings_of_peer_, slowdown_, border_bytes_;
  std::vector<Rhythm> rhythms_;  // of each cluster
  std::optional<Topology> topology_;
  std::map<std::string, double> idle_cores_;  // by processors

  std::vector<double> now_;        // when each cluster has done what it has done
  std::vector<double> exchanged_;  // when its last exchange ended
  std::vector<double> ends_;       // of the last round of each fragment
  std::vector<std::uint64_t> begun_;
  double line_ = 0;                  // when the links have done all rounds so far
  double rounds_ = 0;                // averages of the whole model so far
  std::vector<double> mixed_bytes_;  // that each peer has sent in gossip

  // What a peer takes by the pace that it keeps, and what it has to compute, as shares of what it takes.
  struct Paced {
    double asked = 1, least = 0;
  };
  std::vector<Paced> paces_;
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
