#include "plan/swarm.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/suggest.h"

namespace rookery::plan {
namespace {

bool is_sound(double value, double least, double most) { return value >= least && value <= most; }  // and a number

[[noreturn]] void refuse(const Peer& peer, const char* what, const std::string& value, const char* allowed) {
  throw InputError("{}: its {} is {}, but can only be {}", peer.name.empty() ? "a peer" : peer.name, what, value,
                   allowed);
}

void check(const Peer& peer) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto number = [](double value) { return fmt::format("{:g}", value); };
  if (!is_sound(peer.speed, 1e-6, 1e6)) refuse(peer, "speed", number(peer.speed), "between 1e-6 and 1e6");
  if (!is_sound(peer.pace, 1e-6, 1e6)) refuse(peer, "pace", number(peer.pace), "between 1e-6 and 1e6");
  if (!is_sound(peer.jitter, 0, 10)) refuse(peer, "jitter", number(peer.jitter), "between 0 and 10");
  if (!is_sound(peer.update, 0, 1)) refuse(peer, "update", number(peer.update), "up to a second for a parameter");
  if (!is_sound(peer.latency, 0, 3600)) refuse(peer, "latency", number(peer.latency), "up to an hour");
  if (peer.step_time && !is_sound(*peer.step_time, 0, 1e6)) {
    refuse(peer, "step time", number(*peer.step_time), "up to a million seconds");
  }
  for (const double rate : {peer.uplink, peer.downlink, peer.within}) {
    if (!is_sound(rate, 1, kInfinity)) refuse(peer, "bandwidth", number(8 * rate), "8 bit/s and more");
  }
  if (peer.memory && *peer.memory < 0) refuse(peer, "memory", number(static_cast<double>(*peer.memory)), "positive");
}

}  // namespace

Link Swarm::link(std::size_t from, std::size_t to) const {
  if (const auto known = links.find({from, to}); known != links.end()) return known->second;
  if (are_together(from, to)) return {.bandwidth = std::min(peers[from].within, peers[to].within)};
  return {.bandwidth = std::min(peers[from].uplink, peers[to].downlink),
          .latency = peers[from].latency + peers[to].latency};
}

bool Swarm::are_together(std::size_t one, std::size_t other) const {
  const bool is_measured = links.contains({one, other});
  return !is_measured && !peers[one].host.empty() && peers[one].host == peers[other].host;
}

Link usual_link(const Swarm& swarm) {
  std::vector<double> bandwidths, latencies;
  for (const auto& [ends, link] : swarm.links) {
    bandwidths.push_back(link.bandwidth);
    if (link.latency > 0) latencies.push_back(link.latency);
  }
  const auto middle = [](std::vector<double>& values) {
    const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, half);
    return *half;
  };
  Link usual;
  if (!bandwidths.empty()) usual.bandwidth = middle(bandwidths);
  if (!latencies.empty()) usual.latency = middle(latencies);
  return usual;
}

void fill_in(Swarm& swarm, const Link& usual) {
  for (std::size_t from = 0; from < swarm.peers.size(); ++from) {
    for (std::size_t to = 0; to < swarm.peers.size(); ++to) {
      if (from == to) continue;
      Link& link = swarm.links.try_emplace({from, to}, usual).first->second;
      if (link.latency == 0) link.latency = usual.latency;
    }
  }
}

Card preset(std::string_view name) {
  constexpr double kMegabit = 1e6 / 8;
  static const std::map<std::string, Card, std::less<>> kPresets = {
      {"lan", {1000 * kMegabit, 1000 * kMegabit, 100e-6}},
      {"home-broadband", {20 * kMegabit, 100 * kMegabit, 8e-3}},
      {"campus", {500 * kMegabit, 500 * kMegabit, 1e-3}},
      {"transatlantic", {100 * kMegabit, 100 * kMegabit, 22e-3}},
      {"datacenter", {25'000 * kMegabit, 25'000 * kMegabit, 20e-6}}};
  const auto found = kPresets.find(name);
  if (found != kPresets.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [other, card] : kPresets) known.push_back(other);
  throw InputError("there is no network '{}'{}", name, did_you_mean(std::string(name), known));
}

void check(const Swarm& swarm) {
  if (swarm.peers.empty()) throw InputError("a swarm needs at least one peer, and there is none");
  for (const Peer& peer : swarm.peers) check(peer);
  for (const auto& [ends, link] : swarm.links) {
    ROOKERY_CHECK(ends.first < swarm.peers.size() && ends.second < swarm.peers.size());
    if (link.bandwidth >= 1 && is_sound(link.latency, 0, 3600)) continue;
    const std::string &from = swarm.peers[ends.first].name, &to = swarm.peers[ends.second].name;
    if (!(link.bandwidth >= 1)) throw InputError("nothing gets from {} to {}: leave one of them out", from, to);
    throw InputError("the latency from {} to {} is {:g} s, but can only be up to an hour", from, to, link.latency);
  }
}

}  // namespace rookery::plan
