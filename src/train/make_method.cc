#include "train/make_method.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "plan/runtime.h"
#include "sync/all_reduce.h"
#include "sync/diloco.h"
#include "sync/gossip.h"
#include "sync/local_sgd.h"
#include "sync/palsgd.h"
#include "train/learner.h"

namespace rookery::train {
namespace {

// Where each value stands for several, it is they that count.
std::size_t bucket_of(const Place& place) {
  const auto values = static_cast<double>(place.values) * place.scale;
  return std::max<std::size_t>(
      1,
      static_cast<std::size_t>(static_cast<double>(plan::bucket_of(static_cast<std::size_t>(values))) / place.scale));
}

// Trains alone: no two copies ever meet.
class None final : public sync::Method {};

std::string method_name(const config::Sync& sync) { return sync.method == "auto" ? "allreduce" : sync.method; }

// A segment may have fewer layers than the model has fragments.
std::size_t fragments_of(const config::Sync& sync, const Place& place) {
  return std::min(static_cast<std::size_t>(sync.fragments), place.layer_begins.size());
}

sync::LocalOptions local_options(const config::Sync& sync, const Place& place, bool holds_up) {
  sync::LocalOptions local{.interval = static_cast<std::uint64_t>(interval_of(sync)),
                           .delay = static_cast<std::uint64_t>(sync.delay),
                           .merge = sync.merge,
                           .lossy = sync.codec != "none",
                           .holds_up = holds_up || sync.delay > 0,
                           .changing = place.changing,
                           .robust = sync.robust != "off"};
  if (const std::size_t fragments = fragments_of(sync, place); fragments > 1) {
    local.fragments = interleaved_fragments(place, fragments);
  }
  return local;
}

sync::OuterOptions outer_options(const config::Sync& sync, const Place& place) {
  return {.lr = sync.outer_lr,
          .momentum = sync.outer_momentum,
          .warmup = static_cast<std::uint64_t>(sync.warmup_steps),
          .bucket = bucket_of(place)};
}

sync::PullOptions pull_options(const config::Settings& settings) {
  const config::Sync& sync = settings.sync;
  return {.mode = sync.pull == "every-step" ? sync::PullMode::kEveryStep : sync::PullMode::kRandom,
          .probability = sync.pull_probability,
          .strength = sync.pull_strength,
          .lr = settings.train.optimizer == "sgd" ? settings.train.lr : sync.pull_lr,
          .seed = static_cast<std::uint64_t>(settings.train.seed)};
}

void check_robust(const config::Sync& sync) {
  if (sync.robust == "off") return;
  const std::string method = method_name(sync);
  if (method == "gossip" || method == "none") {
    throw InputError("sync.robust is for allreduce, local-sgd, diloco and palsgd, but sync.method is \"{}\"", method);
  }
  if (method == "local-sgd" && sync.robust == "clip") {
    throw InputError("local-sgd averages parameters, whose norms say nothing; choose sync.robust = \"trimmed-mean\"");
  }
  if (sync.codec != "none" || sync.average_moments) {
    throw InputError("sync.robust needs sync.codec = \"none\", and no sync.average_moments");
  }
}

}  // namespace

float Place::share() const {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  return static_cast<float>(weights.at(cluster) / all);
}

bool has_intervals(const config::Sync& sync) { return plan::is_local(plan::parse_method(method_name(sync))); }

std::int64_t known_steps(const config::Sync& sync, std::int64_t steps) {
  const std::int64_t first = method_name(sync) == "local-sgd" ? 0 : sync.warmup_steps;
  if (steps <= first) return steps;
  const std::int64_t done = steps - first, interval = interval_of(sync);
  std::int64_t known = done;
  for (std::int64_t fragment = 1; fragment <= sync.fragments; ++fragment) {
    const std::int64_t offset = fragment * interval / sync.fragments;
    known = std::min(known, done < offset ? 0 : done - (done - offset) % interval);
  }
  return first + known;
}

std::int64_t interval_of(const config::Sync& sync) {
  constexpr std::int64_t kUsual = 50;
  return sync.interval.value_or(std::max({kUsual, sync.delay + 1, sync.fragments}));
}

plan::Topology topology_of(const config::Sync& sync, const Place& place) {
  std::vector<plan::Member> members;
  for (std::size_t i = 0; i < place.weights.size(); ++i) {
    members.push_back({.weight = place.weights[i], .host = place.hosts.empty() ? i : place.hosts[i]});
  }
  constexpr std::size_t kRotations = 8;  // enough that nobody depends on one other alone
  const std::string name = sync.topology == "bandwidth-aware" ? "auto" : sync.topology;  // until there is a plan
  return {plan::topology_for(name, members.size()), members, place.changing ? std::min(kRotations, members.size()) : 1};
}

void check_sync(const config::Settings& settings, std::size_t layers) {
  const config::Sync& sync = settings.sync;
  const std::string method = method_name(sync);
  if (has_intervals(sync)) {
    const std::int64_t interval = interval_of(sync);
    if (sync.delay >= interval) {
      throw InputError("sync.delay ({}) must be below sync.interval ({})", sync.delay, interval);
    }
    const auto most = std::min<std::int64_t>(interval, static_cast<std::int64_t>(layers));
    if (sync.fragments > most) {
      throw InputError("sync.fragments is {}, but there can be at most {}: one a layer, and one a step of an interval",
                       sync.fragments, most);
    }
  }
  if (sync.average_moments && (!has_intervals(sync) || sync.codec != "none")) {
    throw InputError("sync.average_moments is for local-sgd, diloco and palsgd, with sync.codec = \"none\"");
  }
  check_robust(sync);
}

bool can_change(const config::Settings& settings) {
  const std::string method = method_name(settings.sync);
  if (method == "none") return true;
  if (method == "gossip") return settings.sync.codec == "none";
  // Parameters travel where peers come and go (see LocalRounds), for which that is too coarse; gradients always do.
  const bool is_too_coarse = settings.sync.codec == "int8" && method != "allreduce";
  return !is_too_coarse && !settings.sync.average_moments;
}

void check_method(const config::Settings& settings, const Place& place) {
  if (place.changing && !can_change(settings)) {
    throw InputError(
        "peers that come and go are not for sync.average_moments, sync.codec \"int8\" without allreduce, or gossip "
        "with "
        "any sync.codec");
  }
  if (method_name(settings.sync) == "gossip") topology_of(settings.sync, place);  // throws if they cannot have it
}

std::size_t method_slots(const config::Settings& settings, const Place& place) {
  const std::string method = method_name(settings.sync);
  const std::size_t buckets = sync::AllReduce::buckets(place.values, bucket_of(place));
  if (method == "allreduce") return buckets;
  if (method == "gossip") return place.changing ? 1 : 0;
  if (!has_intervals(settings.sync)) return 0;
  const std::size_t fragments = fragments_of(settings.sync, place);
  const bool warms_up = method != "local-sgd" && settings.sync.warmup_steps > 0;
  return warms_up ? std::max(fragments, buckets) : fragments;
}

std::unique_ptr<sync::Method> make_method(const config::Settings& settings, const Place& place, sync::Rounds& rounds,
                                          bool holds_up) {
  const config::Sync& sync = settings.sync;
  const std::string method = method_name(sync);
  const float share = place.share();
  if (method == "allreduce")
    return std::make_unique<sync::AllReduce>(rounds, share, bucket_of(place), sync.codec != "none");
  if (method == "gossip") {
    const bool waits = sync.mode == "atc";
    const sync::GossipOptions options{
        .mode = waits ? sync::GossipMode::kAdaptThenCombine : sync::GossipMode::kCombineWhileComputing,
        .consensus = sync.consensus,
        .changing = place.changing};
    return std::make_unique<sync::Gossip>(rounds, topology_of(sync, place), options);
  }
  if (method == "local-sgd")
    return std::make_unique<sync::LocalSgd>(rounds, share, local_options(sync, place, holds_up));
  if (method == "diloco") {
    return std::make_unique<sync::Diloco>(rounds, share, local_options(sync, place, holds_up),
                                          outer_options(sync, place));
  }
  if (method == "palsgd") {
    return std::make_unique<sync::Palsgd>(rounds, share, place.cluster, local_options(sync, place, holds_up),
                                          outer_options(sync, place), pull_options(settings));
  }
  ROOKERY_CHECK(method == "none", "method = {}", method);
  return std::make_unique<None>();
}

std::vector<sync::Fragment> interleaved_fragments(const Place& place, std::size_t fragments) {
  std::vector<sync::Fragment> result(fragments);
  const auto& begins = place.layer_begins;
  for (std::size_t layer = 0; layer < begins.size(); ++layer) {
    const std::size_t end = layer + 1 < begins.size() ? begins[layer + 1] : place.values;
    if (begins[layer] < end) result[layer % fragments].push_back({begins[layer], end});
  }
  return result;
}

}  // namespace rookery::train
