#include "plan/planner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/parallel.h"
#include "base/random.h"

namespace rookery::plan {
namespace {

// How much better than what is plain (all-reduce, peers in their order) something else has to be to be chosen: by more
// than predictions are wrong by.
constexpr double kClearly = 1.05;

constexpr std::size_t kFormable = 1000;    // peers, for whom clusters of which only the number is given are formed
constexpr std::size_t kNumbersShown = 12;  // of clusters

// Numbers of clusters with which other settings of a method are tried: the best with usual ones.
constexpr std::ptrdiff_t kVariedOfEach = 3;

constexpr std::size_t kSmallSwarm = 64;  // peers, of whom the order can be thought about
constexpr std::uint64_t kSeed = 0x6f726465;

// Numbers of clusters that are worth a try: all for a small swarm, else those with so many peers each.
std::vector<std::size_t> cluster_counts(std::size_t peers, std::size_t layers) {
  constexpr std::size_t kSmall = 12;
  std::set<std::size_t, std::greater<>> counts;
  for (std::size_t size = 1; size <= std::min(peers, layers); size += std::max<std::size_t>(1, size / 4)) {
    counts.insert((peers + size - 1) / size);
  }
  for (std::size_t count = 1; peers <= kSmall && count <= peers; ++count) counts.insert(count);
  return {counts.begin(), counts.end()};
}

bool is_in_order(const Formation& formation) {
  std::size_t next = 0;
  return std::ranges::all_of(formation, [&](const std::vector<std::size_t>& peers) {
    return std::ranges::all_of(peers, [&](std::size_t peer) { return peer == next++; });
  });
}

class Planner {
 public:
  Planner(const Job& job, const Swarm& swarm, const Wishes& wishes) : job_(job), swarm_(swarm), wishes_(wishes) {}

  std::vector<Option> decide() {
    check(swarm_);
    try {
      if (!wishes_.sizes) {
        add_all();
      } else if (may_form()) {
        add_with_as_many(wishes_.sizes->size());
      } else {
        add_with(*wishes_.sizes);
      }
      if (options_.empty()) refuse();
    } catch (const InputError& error) {
      blame_the_smallest(error.what());
    }
    sort_options();
    if (wishes_.variants) {
      keep_best_of_each(kVariedOfEach);
      vary();
    }
    keep_best_of_each(1);
    if ((!wishes_.sizes || may_form()) && swarm_.peers.size() <= kSmallSwarm) refine();
    return std::move(options_);
  }

 private:
  bool may_form() const {
    return wishes_.may_form && !wishes_.cut && wishes_.sizes->size() < swarm_.peers.size() &&
           swarm_.peers.size() <= kFormable;
  }

  void sort_options() {
    std::ranges::stable_sort(options_, std::greater<>(),
                             [this](const Option& option) { return option.value() * bonus(option); });
  }

  // Each method with the best of its settings. They have nothing to do with each other, and all cores work.
  void vary() {
    for_all(options_.size(), [&](std::size_t i) {
      if (options_[i].candidate.clusters.size() > 1) options_[i] = best_variant(options_[i]);
    });
    sort_options();
  }

  Option best_variant(const Option& option) const {
    Option best = option;
    for (const MethodOptions& method : wishes_.variants(option.candidate)) {
      Option other{.candidate = option.candidate, .prediction = {}};
      other.candidate.method = method;
      try {
        appraise(other);
        if (other.value() > best.value()) best = std::move(other);
      } catch (const InputError&) {
        // Not for these clusters.
      }
    }
    return best;
  }

  // The best few, with stages in other orders: two peers of a cluster change places for as long as a rehearsal says
  // that it helps.
  void refine() {
    constexpr std::size_t kBest = 2, kTries = 60;
    Random random({kSeed});
    for (std::size_t i = 0; i < std::min(kBest, options_.size()); ++i) {
      if (wishes_.sizes && is_in_order(options_[i].candidate.clusters)) continue;
      for (std::size_t tries = 0; tries < kTries; ++tries) {
        const Candidate& best = options_[i].candidate;
        Formation other = best.clusters;
        auto& cluster = other[random.below(other.size())];
        const std::size_t one = random.below(cluster.size()), two = random.below(cluster.size());
        if (one == two) continue;
        std::swap(cluster[one], cluster[two]);
        try {
          Option option = option_of(other, best.schedule, best.method);
          if (option.value() > options_[i].value()) options_[i] = std::move(option);
        } catch (const InputError&) {
          // Does not fit.
        }
      }
    }
    sort_options();
  }

  double bonus(const Option& option) const {
    const bool as_named = wishes_.sizes && is_in_order(option.candidate.clusters);
    return preference(option.candidate) * (as_named ? kClearly : 1);
  }

  Keeping keeping(const MethodOptions& method, std::size_t clusters, Schedule schedule) const {
    return wishes_.keeping ? wishes_.keeping(method, clusters, schedule) : job_.keeping;
  }

  std::vector<MethodOptions> methods(std::size_t clusters) const {
    if (clusters > 1) return wishes_.methods;
    return {wishes_.methods.front()};  // nobody to agree with
  }

  // As the user says: peers in their order.
  void add_with(const std::vector<std::size_t>& sizes) {
    const bool pipelines = std::ranges::any_of(sizes, [](std::size_t size) { return size > 1; });
    Formation formation;
    std::size_t next = 0;
    for (const std::size_t size : sizes) {
      formation.emplace_back(size);
      std::iota(formation.back().begin(), formation.back().end(), next);
      next += size;
    }
    std::exception_ptr failure;
    for (const ScheduleOptions& schedule : wishes_.schedules) {
      for (const MethodOptions& method : methods(sizes.size())) {
        try {
          add(formation, pipelines ? schedule : wishes_.schedules.front(), method);
        } catch (const InputError&) {
          failure = std::current_exception();
        }
      }
      if (!pipelines) break;
    }
    if (options_.empty() && failure) std::rethrow_exception(failure);
  }

  // As the user says, or others that are as many.
  void add_with_as_many(std::size_t clusters) {
    std::exception_ptr failure;
    try {
      add_with(*wishes_.sizes);
    } catch (const InputError&) {
      failure = std::current_exception();
    }
    for (const ScheduleOptions& schedule : wishes_.schedules) add(schedule, clusters);
    if (options_.empty() && failure) std::rethrow_exception(failure);
  }

  // Every schedule with every number of clusters: those have nothing to do with each other, and all cores work.
  void add_all() {
    std::vector<std::pair<ScheduleOptions, std::size_t>> choices;
    for (const ScheduleOptions& schedule : wishes_.schedules) {
      for (const std::size_t clusters : cluster_counts(swarm_.peers.size(), job_.model.size())) {
        choices.emplace_back(schedule, clusters);
      }
    }
    std::vector<std::vector<Option>> found(choices.size());
    for_all(choices.size(), [&](std::size_t i) {
      Planner planner(job_, swarm_, wishes_);
      planner.add(choices[i].first, choices[i].second);
      found[i] = std::move(planner.options_);
    });
    for (std::vector<Option>& some : found) std::ranges::move(some, std::back_inserter(options_));
  }

  void add(const ScheduleOptions& schedule, std::size_t clusters) {
    if (clusters == swarm_.peers.size() && schedule.schedule != wishes_.schedules.front().schedule) return;
    std::vector<Formation> formations;
    std::optional<std::size_t> kept;
    for (const MethodOptions& method : methods(clusters)) {
      const Keeping own = keeping(method, clusters, schedule.schedule);
      if (own.method_values != kept) {
        formations = formations_for({.job = job_, .swarm = swarm_, .schedule = schedule, .keeping = own}, clusters);
        kept = own.method_values;
      }
      for (const Formation& ordered : formations) {
        try {
          add(ordered, schedule, method);
        } catch (const InputError&) {
          // Does not fit after all.
        }
      }
    }
  }

  // So many clusters in some ways, of which a rehearsal finds the best. What it says of a pipeline depends on who comes
  // first, in more ways than its slowest stage. So a small swarm tries some orders: as they were formed, as they are
  // named, and those with most memory first, who can have most on its way.
  std::vector<Formation> formations_for(const Forming& forming, std::size_t clusters) const {
    std::vector<Formation> found;
    const auto add = [&](Formation formation) {
      if (!formation.empty() && std::ranges::find(found, formation) == found.end()) {
        found.push_back(std::move(formation));
      }
    };
    add(form(forming, clusters));
    const std::size_t peers = swarm_.peers.size();
    if (peers > kSmallSwarm || clusters == peers) return found;
    if (clusters > 1) add(deal_evenly(forming, clusters));
    for (std::size_t i = 0, formed = found.size(); i < formed; ++i) {
      Formation by_name = found[i];
      for (auto& cluster : by_name) std::ranges::sort(cluster);
      Formation by_memory = by_name;
      for (auto& cluster : by_memory) {
        std::ranges::stable_sort(cluster, std::greater<>(), [&](std::size_t peer) { return memory_of(peer); });
      }
      add(std::move(by_name));
      add(std::move(by_memory));
    }
    return found;
  }

  Bytes memory_of(std::size_t peer) const {
    return swarm_.peers[peer].memory.value_or(std::numeric_limits<Bytes>::max());
  }

  void add(const Formation& formation, const ScheduleOptions& schedule, const MethodOptions& method) {
    options_.push_back(option_of(formation, schedule, method));
  }

  // Throws InputError if the model does not fit.
  Option option_of(const Formation& formation, const ScheduleOptions& schedule, const MethodOptions& method) {
    Candidate candidate{.schedule = schedule, .method = method};
    const Keeping own = keeping(method, formation.size(), schedule.schedule);
    const std::vector<Partition>& partitions = partitions_of(formation, schedule, own);
    std::vector<Cut> cuts;
    for (const Partition& partition : partitions) cuts.push_back(partition.cut);
    for (const std::size_t c : order_of(formation, cuts)) {
      candidate.clusters.push_back(formation[c]);
      candidate.partitions.push_back(partitions[c]);
    }
    Option option{.candidate = std::move(candidate), .prediction = {}};
    appraise(option);
    return option;
  }

  // Throws InputError if these clusters cannot have the method.
  void appraise(Option& option) const {
    const Candidate& candidate = option.candidate;
    Job job = job_;
    job.keeping = keeping(candidate.method, candidate.clusters.size(), candidate.schedule.schedule);
    option.prediction = predict(job, swarm_, candidate);
    option.worth = plan::worth(candidate, job_.goal);
  }

  // The same for all methods that keep as much.
  const std::vector<Partition>& partitions_of(const Formation& formation, const ScheduleOptions& schedule,
                                              const Keeping& own) {
    const auto of = std::tuple(formation, schedule.schedule, own);
    if (partitioned_ == of) return partitions_;
    partitioned_.reset();
    partitions_.clear();
    for (const auto& peers : formation) {
      const std::vector<Worker> workers = workers_of(swarm_, peers, schedule.micro_batches);
      partitions_.push_back(wishes_.cut && wishes_.cut->size() == peers.size()
                                ? partition(job_.model, workers, schedule, own, *wishes_.cut)
                                : partition(job_.model, workers, schedule, own));
    }
    partitioned_ = of;
    return partitions_;
  }

  // The same for all methods that have the same cuts, which takes long for many clusters.
  const std::vector<std::size_t>& order_of(const Formation& formation, const std::vector<Cut>& cuts) {
    if (ordered_ == std::pair(formation, cuts)) return order_;
    ordered_ = {formation, cuts};
    order_.resize(formation.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const bool as_named = wishes_.sizes && (!may_form() || is_in_order(formation));
    if (!as_named) order_ = ring_order(swarm_, formation, cuts, job_.model.size());
    return order_;
  }

  // The best of each schedule and method, with so many numbers of clusters, and of each number of clusters; they are in
  // order.
  void keep_best_of_each(std::ptrdiff_t count) {
    std::vector<Option> best;
    std::set<std::size_t> numbers;
    for (Option& option : options_) {
      const std::size_t clusters = option.candidate.clusters.size();
      const auto same = [&](const Option& other) {
        return other.candidate.method.method == option.candidate.method.method &&
               other.candidate.schedule.schedule == option.candidate.schedule.schedule;
      };
      const auto has_as_many = [&](const Option& other) {
        return same(other) && other.candidate.clusters.size() == clusters;
      };
      if (std::ranges::any_of(best, has_as_many)) continue;
      const bool is_new = numbers.size() < kNumbersShown && !numbers.contains(clusters);
      if (!is_new && std::ranges::count_if(best, same) >= count) continue;
      numbers.insert(clusters);
      best.push_back(std::move(option));
    }
    options_ = std::move(best);
  }

  // All peers in one pipeline, or as many as there are layers: that says what is missing.
  [[noreturn]] void refuse() const {
    std::vector<std::size_t> all(swarm_.peers.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::ranges::stable_sort(all, std::greater<>(), [&](std::size_t peer) { return memory_of(peer); });
    all.resize(std::min(all.size(), job_.model.size()));
    const ScheduleOptions& schedule = wishes_.schedules.front();
    partition(job_.model, workers_of(swarm_, all, schedule.micro_batches), schedule,
              keeping(wishes_.methods.front(), 1, schedule.schedule));
    throw InputError(
        "these {} peers cannot make clusters in which the model fits; say in swarm.clusters how they should",
        swarm_.peers.size());
  }

  // What is missing, and who cannot hold even the smallest layer, whichever stage it is.
  [[noreturn]] void blame_the_smallest(const std::string& missing) const {
    constexpr std::size_t kMostNamed = 8;
    const Bytes least = least_of_a_stage();
    Swarm others{.cores = swarm_.cores};
    std::vector<std::string> small;
    std::vector<std::optional<std::size_t>> places;  // among the others
    for (std::size_t peer = 0; peer < swarm_.peers.size(); ++peer) {
      const bool is_small = memory_of(peer) < least;
      places.push_back(is_small ? std::nullopt : std::optional(others.peers.size()));
      if (!is_small) others.peers.push_back(swarm_.peers[peer]);
      const std::string& name = swarm_.peers[peer].name;
      if (is_small) small.push_back(name.empty() ? fmt::format("peer {}", peer) : name);
    }
    if (small.empty() || others.peers.empty()) throw InputError(missing);
    for (const auto& [ends, link] : swarm_.links) {
      const auto from = places[ends.first], to = places[ends.second];
      if (from && to) others.links[{*from, *to}] = link;
    }
    const char* them = small.size() > 1 ? "them" : "it";
    if (small.size() > kMostNamed) {
      const std::size_t more = small.size() - kMostNamed;
      small.resize(kMostNamed);
      small.push_back(fmt::format("and {} more", more));
    }
    throw InputError("{}; {} cannot hold even the smallest layer ({}){}", missing, fmt::join(small, ", "),
                     format_bytes(least), can_do(others) ? fmt::format("; the others can train without {}", them) : "");
  }

  Bytes least_of_a_stage() const {
    Bytes least = std::numeric_limits<Bytes>::max();
    for (const ScheduleOptions& schedule : wishes_.schedules) {
      const Keeping own = keeping(wishes_.methods.front(), 1, schedule.schedule);
      for (std::size_t i = 0; i < job_.model.size(); ++i) {
        const StagePlace last{job_.model.size() - 1, job_.model.size()};  // where least is on its way
        least = std::min(least, stage_memory(job_.model, {i, i + 1}, schedule, last, own).total());
      }
    }
    return least;
  }

  bool can_do(const Swarm& swarm) const {
    Wishes wishes = wishes_;
    wishes.sizes.reset();  // they are of all
    wishes.cut.reset();
    try {
      return !Planner(job_, swarm, wishes).decide().empty();
    } catch (const InputError&) {
      return false;
    }
  }

  const Job& job_;
  const Swarm& swarm_;
  const Wishes& wishes_;
  std::vector<Option> options_;
  std::optional<std::tuple<Formation, Schedule, Keeping>> partitioned_;  // what was cut last,
  std::vector<Partition> partitions_;                                    // and how
  std::pair<Formation, std::vector<Cut>> ordered_;                       // what was put in order last,
  std::vector<std::size_t> order_;                                       // and the order
};

// How many more samples a loss takes than with all-reduce, as a share. docs/runtime-model.md says where that is from.
double cost_of(const MethodOptions& method, std::size_t clusters) {
  const double doublings = std::log2(static_cast<double>(clusters));
  const double interval = std::log2(static_cast<double>(method.interval));
  switch (method.method) {
    case Method::kNone:
    case Method::kAllReduce:
      return 0;
    case Method::kGossip:
      return 0.16 * doublings;
    case Method::kLocalSgd:
      return (0.15 + 0.02 * interval) * doublings;
    case Method::kDiloco:
    case Method::kPalsgd: {
      const double beyond = std::pow(std::max(0.0, interval - 3), 1.5) / 8;  // eight steps
      const double long_interval = 0.13 * doublings - 0.28 + (0.2 + 0.15 * doublings) * beyond;
      return std::max(0.005 * interval * doublings, long_interval);
    }
  }
  return 0;
}

}  // namespace

double worth(const Candidate& candidate, Goal goal) {
  if (goal == Goal::kSamples) return 1;
  constexpr double kCritical = 1.4;  // batches
  constexpr double kStale = 0.4, kTooStale = 1.3;
  const auto clusters = static_cast<double>(candidate.clusters.size());
  const auto updates = static_cast<double>(candidate.schedule.updates());
  std::uint64_t staleness = 0;
  for (const Partition& partition : candidate.partitions) {
    for (std::size_t s = 0; s < partition.cut.size(); ++s) {
      ScheduleOptions own = candidate.schedule;
      own.in_flight = partition.in_flight[s];
      staleness = std::max(staleness, staleness_bound(own, {s, partition.cut.size()}));
    }
  }
  const double late = static_cast<double>(staleness) / updates;  // steps
  const double cost =
      1 + cost_of(candidate.method, candidate.clusters.size()) + kStale * late + kTooStale * std::pow(late, 6);
  return (kCritical + 1) / (kCritical + clusters / updates) / cost;
}

double preference(const Candidate& candidate) {
  const bool plain = candidate.method.method == Method::kAllReduce && is_synchronous(candidate.schedule.schedule);
  return plain ? kClearly : 1;
}

std::vector<Option> decide(const Job& job, const Swarm& swarm, const Wishes& wishes) {
  return Planner(job, swarm, wishes).decide();
}

std::string why_not(const Option& option, const Option& best) {
  const Prediction &own = option.prediction, &chosen = best.prediction;
  const double slower = best.value() / option.value() - 1;
  const double speed = chosen.samples_per_second / own.samples_per_second;
  if (option.value() > best.value()) return fmt::format("only {:.0f}% better", -100 * slower);
  if (slower < 0.005) return "no better";
  const std::string by = fmt::format("{:.0f}% slower: ", 100 * slower);
  if (best.worth / option.worth > speed) {
    return by + fmt::format("a sample is worth {:.2f}, not {:.2f}", option.worth, best.worth);
  }
  if (own.exposed_share > chosen.exposed_share + 0.02) {
    return by + fmt::format("peers wait for {:.0f}% of the time, not {:.0f}%", 100 * own.exposed_share,
                            100 * chosen.exposed_share);
  }
  return by + fmt::format("{:.1f} samples/s, not {:.1f}", own.samples_per_second, chosen.samples_per_second);
}

}  // namespace rookery::plan
