#include "plan/partition.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rookery::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double bytes_forward(const ModelProfile& model, Layers layers) {
  return layers.end < model.size() ? model[layers.end - 1].sent_forward() : 0;
}

double bytes_backward(const ModelProfile& model, Layers layers) {
  return layers.begin > 0 ? model[layers.begin - 1].sent_backward() : 0;
}

// Everything that decides what a stage costs.
class Costs {
 public:
  Costs(const ModelProfile& model, std::span<const Worker> workers, ScheduleOptions options, Keeping keeping)
      : model_(model), workers_(workers), options_(options), keeping_(keeping), in_flight_(workers.size(), 0) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
      options_.in_flight = 0;
      in_flight_[i] = plan::in_flight(options_, place(i));
      auto& until = until_.emplace_back(1, 0.0);
      for (std::size_t layer = 0; layer < model.size(); ++layer) {
        const ActionTimes own = action_times(model, workers[i], {layer, layer + 1}, keeping.versions);
        until.push_back(until.back() + own.forward + own.backward);
      }
    }
  }

  std::size_t layers() const { return model_.size(); }
  std::size_t stages() const { return workers_.size(); }
  StagePlace place(std::size_t stage) const { return {stage, workers_.size()}; }
  const std::vector<std::size_t>& in_flight() const { return in_flight_; }
  void set_in_flight(std::size_t stage, std::size_t limit) { in_flight_[stage] = limit; }
  void limit_in_flight(std::size_t limit) {
    for (std::size_t& own : in_flight_) own = std::min(own, limit);
  }

  double compute(std::size_t stage, Layers layers) const {
    if (workers_[stage].micro_batch_time) return *workers_[stage].micro_batch_time;
    return until_[stage][layers.end] - until_[stage][layers.begin];
  }

  // Activations to the next stage and gradients to the previous one share the uplink.
  double time(std::size_t stage, Layers layers) const {
    const Worker& worker = workers_[stage];
    const double forward = bytes_forward(model_, layers), backward = bytes_backward(model_, layers);
    return std::max({compute(stage, layers), (forward + backward) / worker.uplink, forward / worker.to_next.bandwidth,
                     backward / worker.to_previous.bandwidth});
  }

  ActionTimes actions(std::size_t stage, Layers layers) const {
    return action_times(model_, workers_[stage], layers, keeping_.versions);
  }

  StageMemory memory(std::size_t stage, Layers layers) const {
    return stage_memory(model_, layers, options_of(stage), place(stage), keeping_);
  }

  bool fits(std::size_t stage, Layers layers, double factor) const {
    if (!workers_[stage].memory) return true;
    const Bytes allowed = std::max<Bytes>(1, *workers_[stage].memory);
    return static_cast<double>(memory(stage, layers).total()) <= factor * static_cast<double>(allowed);
  }

  ScheduleOptions options_of(std::size_t stage) const {
    ScheduleOptions options = options_;
    options.in_flight = in_flight_[stage];
    return options;
  }
  const ScheduleOptions& options() const { return options_; }
  const Keeping& keeping() const { return keeping_; }

 private:
  const ModelProfile& model_;
  std::span<const Worker> workers_;
  ScheduleOptions options_;
  Keeping keeping_;
  std::vector<std::size_t> in_flight_;
  std::vector<std::vector<double>> until_;  // of each stage: what all layers before this one would take it
};

// The cut with the least sum, or the least maximum, of `cost(stage, layers)`; nothing if all cost infinitely much.
template <typename Cost, typename Join>
std::optional<Cut> cheapest(std::size_t stages, std::size_t layers, Cost cost, Join join) {
  // best[s][e]: of the first s stages, which hold the first e layers.
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<std::size_t>> begins(stages + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = 0;
  for (std::size_t s = 1; s <= stages; ++s) {
    for (std::size_t e = s; e + (stages - s) <= layers; ++e) {
      for (std::size_t b = s - 1; b < e; ++b) {
        if (best[s - 1][b] == kNever) continue;
        const double total = join(best[s - 1][b], cost(s - 1, Layers{b, e}));
        if (total < best[s][e]) {
          best[s][e] = total;
          begins[s][e] = b;
        }
      }
    }
  }
  if (best[stages][layers] == kNever) return std::nullopt;
  Cut cut(stages);
  for (std::size_t s = stages, e = layers; s > 0; --s) {
    cut[s - 1] = {begins[s][e], e};
    e = begins[s][e];
  }
  return cut;
}

// The fastest cut; of those the one whose largest stage takes least memory, and of those the most even one. If
// everybody had `factor` times its memory.
std::optional<Cut> best_cut(const Costs& costs, double factor) {
  constexpr double kSame = 1 + 1e-9;
  const auto largest = [](double a, double b) { return std::max(a, b); };
  const auto largest_of = [&](const Cut& cut, const auto& cost) {
    double most = 0;
    for (std::size_t i = 0; i < cut.size(); ++i) most = std::max(most, cost(i, cut[i]));
    return most;
  };
  const auto time = [&](std::size_t stage, Layers layers) {
    return costs.fits(stage, layers, factor) ? costs.time(stage, layers) : kNever;
  };
  const auto quickest = cheapest(costs.stages(), costs.layers(), time, largest);
  if (!quickest) return std::nullopt;
  const double slowest = largest_of(*quickest, time);
  const auto memory = [&](std::size_t stage, Layers layers) {
    const bool is_fast = time(stage, layers) <= slowest * kSame;
    return is_fast ? static_cast<double>(costs.memory(stage, layers).total()) : kNever;
  };
  const double most = largest_of(*cheapest(costs.stages(), costs.layers(), memory, largest), memory);
  const auto even = [&](std::size_t stage, Layers layers) {
    return memory(stage, layers) <= most * kSame ? std::pow(time(stage, layers), 2) : kNever;
  };
  return cheapest(costs.stages(), costs.layers(), even, std::plus<>());
}

// What it would take, for whoever has too little.
std::string remedy(const Costs& costs, const ModelProfile& model, std::span<const Worker> workers) {
  const auto would_fit = [&](const Keeping& keeping) {
    return best_cut(Costs(model, workers, costs.options(), keeping), 1).has_value();
  };
  for (const Versions versions : {Versions::kLatest, Versions::kRecompute}) {
    Keeping keeping = costs.keeping();
    if (keeping.versions == versions) continue;
    keeping.versions = versions;
    if (would_fit(keeping)) return fmt::format("pipeline.weights = \"{}\" would fit", name_of(versions));
  }
  std::vector<Worker> more(workers.begin(), workers.end());
  const Worker largest = *std::ranges::max_element(more, {}, [](const Worker& w) { return w.memory.value_or(0); });
  while (largest.memory && more.size() < std::min<std::size_t>(model.size(), 4 * workers.size())) {
    more.push_back(largest);
    if (best_cut(Costs(model, more, costs.options(), costs.keeping()), 1)) {
      return fmt::format("{} peers with {} each would do", more.size(), format_bytes(*largest.memory));
    }
  }
  return "a smaller model or smaller micro-batches (train.micro_batches) would do";
}

[[noreturn]] void refuse(const Costs& costs, const ModelProfile& model, std::span<const Worker> workers) {
  double low = 1, high = 2;
  constexpr double kBeyondReason = 1e18;
  while (!best_cut(costs, high) && high < kBeyondReason) high *= 2;
  if (high >= kBeyondReason) throw InputError("there is no cut of this model for these peers");
  while (high / low > 1.005) {
    const double middle = std::sqrt(low * high);
    (best_cut(costs, middle) ? high : low) = middle;
  }
  const Cut cut = *best_cut(costs, high);
  std::size_t tightest = 0;
  double most = 0;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    if (!workers[i].memory) continue;
    const double share = static_cast<double>(costs.memory(i, cut[i]).total()) / static_cast<double>(*workers[i].memory);
    if (share > most) most = share, tightest = i;
  }
  throw InputError("the model does not fit: even with the best cut stage {} would take {}, and its peer may use {}; {}",
                   tightest, format_bytes(costs.memory(tightest, cut[tightest]).total()),
                   format_bytes(*workers[tightest].memory), remedy(costs, model, workers));
}

double slowest_of(const Costs& costs, const Cut& cut) {
  double slowest = 0;
  for (std::size_t i = 0; i < cut.size(); ++i) slowest = std::max(slowest, costs.time(i, cut[i]));
  return slowest;
}

// Raises a stage's limit, as far as there is memory.
void raise(Costs& costs, const Cut& cut, std::size_t stage, std::size_t wanted) {
  constexpr std::size_t kMost = 256;  // beyond which gradients would be of no use
  for (std::size_t limit = costs.in_flight()[stage] + 1; limit <= std::min(wanted, kMost); ++limit) {
    costs.set_in_flight(stage, limit);
    if (costs.fits(stage, cut[stage], 1)) continue;
    costs.set_in_flight(stage, limit - 1);
    return;
  }
}

// The share of the time that the slowest stage computes once the pipeline is full, in a rehearsal in which actions do
// not always take the same, as they never do.
double busy_share(const Costs& costs, const Cut& cut) {
  constexpr std::uint64_t kRounds = 16;
  constexpr double kVariation = 0.15;
  std::vector<ScheduleOptions> options;
  std::vector<ActionTimes> times;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    options.push_back(costs.options_of(i));
    times.push_back(costs.actions(i, cut[i]));
  }
  const std::uint64_t needed = kRounds * cut.size();
  const std::uint64_t steps = (needed + options[0].micro_batches - 1) / options[0].micro_batches;
  const auto actions = timeline(options, times, steps, kVariation);
  const double end = std::ranges::max(actions, {}, &PlannedAction::end).end;
  std::vector<double> worked(cut.size());
  for (const PlannedAction& action : actions) {
    worked[action.stage] += std::max(0.0, std::min(action.end, 0.9 * end) - std::max(action.begin, 0.1 * end));
  }
  return std::ranges::max(worked) / (0.8 * end);
}

// Of an asynchronous pipeline: as many on their way as a round trip takes, where there is memory for them. Where
// actions get into each other's way, and cannot make up for what is late, a few more, as long as the slowest stage
// gains more by it than staler gradients cost.
void fill(Costs& costs, const Cut& cut) {
  constexpr double kNegligible = 0.1, kWorthIt = 1.04;
  constexpr int kMore = 3;
  const double slowest = slowest_of(costs, cut);
  if (!(slowest > 0)) return;
  double round_trip = 0;
  for (std::size_t i = cut.size(); i-- > 0;) {
    round_trip += costs.compute(i, cut[i]);
    if (i + 1 < cut.size()) {
      const ActionTimes there = costs.actions(i, cut[i]), back = costs.actions(i + 1, cut[i + 1]);
      round_trip += there.send_forward + there.latency_forward + back.send_backward + back.latency_backward;
    }
    raise(costs, cut, i, static_cast<std::size_t>(std::ceil(round_trip / slowest - kNegligible)));
  }
  double share = busy_share(costs, cut);
  for (int more = 0; more < kMore && kWorthIt * share < 1; ++more) {
    Costs raised = costs;
    for (std::size_t i = 0; i + 1 < cut.size(); ++i) raise(raised, cut, i, raised.in_flight()[i] + 1);
    const double raised_share = busy_share(raised, cut);
    if (raised_share < kWorthIt * share) return;
    for (std::size_t i = 0; i < cut.size(); ++i) costs.set_in_flight(i, raised.in_flight()[i]);
    share = raised_share;
  }
}

Partition described(Costs costs, Cut cut) {
  if (costs.options().schedule == Schedule::kAsync) fill(costs, cut);
  Partition result{.cut = {}, .in_flight = costs.in_flight(), .memory = {}, .slowest = slowest_of(costs, cut)};
  for (std::size_t i = 0; i < cut.size(); ++i) result.memory.push_back(costs.memory(i, cut[i]));
  result.cut = std::move(cut);
  return result;
}

}  // namespace

std::vector<Worker> workers_of(const Swarm& swarm, std::span<const std::size_t> peers, std::uint64_t micro_batches) {
  std::vector<Worker> workers;
  for (std::size_t stage = 0; stage < peers.size(); ++stage) {
    const Peer& peer = swarm.peers[peers[stage]];
    Worker& worker = workers.emplace_back();
    worker.speed = (peer.layers ? 1 : peer.speed) * std::min(1.0, peer.pace);
    worker.layers = peer.layers;
    worker.memory = peer.memory;
    worker.uplink = peer.uplink;
    if (stage + 1 < peers.size()) worker.to_next = swarm.link(peers[stage], peers[stage + 1]);
    if (stage > 0) worker.to_previous = swarm.link(peers[stage], peers[stage - 1]);
    if (peer.step_time) {
      worker.micro_batch_time = *peer.step_time / std::min(1.0, peer.pace) / static_cast<double>(micro_batches);
    }
  }
  return workers;
}

ActionTimes action_times(const ModelProfile& model, const Worker& worker, Layers layers, Versions versions) {
  ActionTimes times{.forward = 0, .backward = 0};
  for (std::size_t i = layers.begin; i < layers.end; ++i) {
    const LayerTimes own = worker.layers ? (*worker.layers)[i] : LayerTimes{model[i].forward, model[i].backward};
    times.forward += own.forward / worker.speed;
    const double again = versions == Versions::kRecompute ? own.forward : 0;
    times.backward += (own.backward + again) / worker.speed;
  }
  if (const double all = times.forward + times.backward; worker.micro_batch_time && all > 0) {
    times.forward *= *worker.micro_batch_time / all;
    times.backward *= *worker.micro_batch_time / all;
  }
  times.send_forward = bytes_forward(model, layers) / std::min(worker.uplink, worker.to_next.bandwidth);
  times.send_backward = bytes_backward(model, layers) / std::min(worker.uplink, worker.to_previous.bandwidth);
  times.latency_forward = worker.to_next.latency;
  times.latency_backward = worker.to_previous.latency;
  times.one_card = worker.uplink < worker.to_next.bandwidth + worker.to_previous.bandwidth;
  return times;
}

Partition partition(const ModelProfile& model, std::span<const Worker> workers, const ScheduleOptions& options,
                    const Keeping& keeping) {
  ROOKERY_CHECK(!workers.empty());
  if (workers.size() > model.size()) {
    throw InputError("{} stages are more than the model has layers ({})", workers.size(), model.size());
  }
  Costs costs(model, workers, options, keeping);
  auto cut = best_cut(costs, 1);
  // An asynchronous pipeline with fewer micro-batches on their way is slower, but it is one.
  const bool can_hold_back = options.schedule == Schedule::kAsync;
  for (std::size_t limit = workers.size() - 1; !cut && can_hold_back && limit > 0; --limit) {
    costs.limit_in_flight(limit);
    cut = best_cut(costs, 1);
  }
  if (!cut) refuse(costs, model, workers);
  return described(std::move(costs), std::move(*cut));
}

Partition partition(const ModelProfile& model, std::span<const Worker> workers, const ScheduleOptions& options,
                    const Keeping& keeping, const Cut& cut) {
  ROOKERY_CHECK(cut.size() == workers.size());
  const Costs costs(model, workers, options, keeping);
  for (std::size_t i = 0; i < cut.size(); ++i) {
    if (costs.fits(i, cut[i], 1)) continue;
    throw InputError("stage {} (layers {} to {}) takes {}, but its peer may use {}", i, cut[i].begin, cut[i].end - 1,
                     format_bytes(costs.memory(i, cut[i]).total()), format_bytes(*workers[i].memory));
  }
  return described(costs, cut);
}

double fastest(const ModelProfile& model, std::span<const Worker> workers, const ScheduleOptions& options,
               const Keeping& keeping) {
  if (workers.size() > model.size()) return kNever;
  Costs costs(model, workers, options, keeping);
  const auto time = [&](std::size_t stage, Layers layers) {
    return costs.fits(stage, layers, 1) ? costs.time(stage, layers) : kNever;
  };
  const auto quickest = [&] {
    return cheapest(costs.stages(), costs.layers(), time, [](double a, double b) { return std::max(a, b); });
  };
  auto cut = quickest();
  for (std::size_t limit = workers.size() - 1; !cut && options.schedule == Schedule::kAsync && limit > 0; --limit) {
    costs.limit_in_flight(limit);
    cut = quickest();
  }
  return cut ? slowest_of(costs, *cut) : kNever;
}

}  // namespace rookery::plan
