#include "train/moving.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "train/arrange.h"
#include "train/make_method.h"
#include "train/wiring.h"

namespace rookery::train {
namespace {

constexpr double kHysteresis = 2;      // that moving has to bring, over what it costs
constexpr double kLeastBetter = 1.15;  // than what there is: predictions are off by some percent

// Those peers, with links as they were measured between any two of them, or as links usually are here.
plan::Swarm swarm_among(const Prospect& prospect, std::vector<swarm::Means> means) {
  for (swarm::Means& own : means) own.links.clear();  // they are by ranks of another survey
  plan::Swarm swarm = swarm_of(means, prospect.local);
  std::map<std::string, std::size_t> before;
  for (std::size_t i = 0; i < prospect.measured.peers.size(); ++i) before[prospect.measured.peers[i].name] = i;
  for (std::size_t from = 0; from < swarm.peers.size(); ++from) {
    for (std::size_t to = 0; to < swarm.peers.size(); ++to) {
      const auto a = before.find(swarm.peers[from].name), b = before.find(swarm.peers[to].name);
      if (from == to || a == before.end() || b == before.end()) continue;
      const auto known = prospect.measured.links.find({a->second, b->second});
      if (known != prospect.measured.links.end()) swarm.links[{from, to}] = known->second;
    }
  }
  plan::fill_in(swarm, plan::usual_link(prospect.measured));
  return swarm;
}

// Of the best way that the settings leave open; 0 if there is none.
double value_of(const Prospect& prospect, const config::Settings& settings, const plan::Swarm& swarm) {
  try {
    const plan::Job job = job_of(prospect.blueprint, layer_sizes(prospect.blueprint));
    return options_for(prospect.blueprint, settings, job, swarm).front().value();
  } catch (const InputError& error) {
    spdlog::debug("another plan: {}", error.what());
    return 0;
  }
}

// Of the clusters that are whole, with the peers that they have.
double value_now(const Prospect& prospect) {
  std::map<std::string, const swarm::Means*> by_name;
  for (const swarm::Means& means : prospect.present) by_name[means.name] = &means;
  std::vector<swarm::Means> means;
  config::Clusters clusters{.count = 0, .sizes = {}};
  const Clusters all(prospect.plan, prospect.blueprint.model->size());
  for (const std::vector<std::size_t>& ranks : all.ranks) {
    const auto is_here = [&](std::size_t rank) {
      const wire::PlannedPeer& peer = prospect.plan.peers[rank];
      return peer.here && by_name.contains(peer.contact.name);
    };
    if (!std::ranges::all_of(ranks, is_here)) continue;
    for (const std::size_t rank : ranks) means.push_back(*by_name[prospect.plan.peers[rank].contact.name]);
    clusters.sizes.push_back(static_cast<std::int64_t>(ranks.size()));
    ++clusters.count;
  }
  if (clusters.count == 0) return 0;
  config::Settings settings = prospect.decided;
  settings.sync.topology = prospect.blueprint.settings.sync.topology;  // what was chosen was for others, too
  settings.swarm.peers = static_cast<std::int64_t>(means.size());
  settings.swarm.clusters = clusters;
  return value_of(prospect, settings, swarm_among(prospect, means));
}

}  // namespace

bool can_move(const config::Settings& settings, const config::Settings& decided) {
  const bool pulls = decided.sync.method == "palsgd" && decided.sync.pull == "random";
  return settings.swarm.replan && decided.sync.method != "none" && !settings.swarm.clusters &&
         !settings.pipeline.stages && can_change(decided) && !pulls;
}

double cost_of_moving(const plan::Swarm& swarm, double parameters) {
  constexpr double kPause = 8;                 // to end, join again and survey
  constexpr double kBytesOfParameter = 5 * 4;  // with moments, anchor and outer momentum
  constexpr double kWays = 2;                  // to the coordinator, and from there
  return kPause + kWays * kBytesOfParameter * parameters / plan::usual_link(swarm).bandwidth;
}

bool is_worth_moving(const Prospect& prospect) {
  const auto has_measured = [&](const swarm::Means& means) {
    return means.ready.layers.size() == prospect.blueprint.model->size();
  };
  if (!can_move(prospect.blueprint.settings, prospect.decided)) return false;
  if (!std::ranges::all_of(prospect.present, has_measured)) return false;
  const double now = value_now(prospect);
  if (now <= 0) return false;  // nobody could save what there is
  std::vector<swarm::Means> present = prospect.present;
  std::erase_if(present, [](const swarm::Means& means) { return means.stands_in; });
  config::Settings settings = prospect.blueprint.settings;
  settings.swarm.peers = static_cast<std::int64_t>(present.size());
  settings.sync.method = prospect.decided.sync.method;  // what is saved is of that one
  const plan::Swarm swarm = swarm_among(prospect, present);
  const double then = value_of(prospect, settings, swarm);
  const double cost = cost_of_moving(swarm, static_cast<double>(prospect.blueprint.model->parameter_count()));
  const double saved = then > 0 ? prospect.seconds_left * (1 - now / then) : 0;
  spdlog::info(
      "another plan for {} peers would be {:.2f} times as good, and save {:.0f} s of {:.0f}; moving takes {:.0f} s",
      present.size(), then / now, saved, prospect.seconds_left, cost);
  return saved > kHysteresis * cost && then > kLeastBetter * now;
}

}  // namespace rookery::train
