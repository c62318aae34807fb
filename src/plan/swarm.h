#pragma once

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "plan/profile.h"

namespace rookery::plan {

// One direction between two peers.
struct Link {
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes/s
  double latency = 0;                                          // seconds, one way

  bool operator==(const Link&) const = default;
};

// A peer, as it was measured, or as somebody describes it.
struct Peer {
  std::string name{};
  std::string host{};                                       // equal on peers of one computer; empty: it has its own
  std::string processors{};                                 // equal on peers that share them; empty: it has its own
  double speed = 1;                                         // how much faster than the model's profile
  std::shared_ptr<const std::vector<LayerTimes>> layers{};  // measured here, of all layers; then `speed` does not count
  double pace = 1;                                          // the share of its speed that it keeps
  std::optional<double> step_time{};                        // it pretends to take this long for a step, over its pace
  double jitter = 0;                                        // standard deviation of a step's time, as a share of it
  double update = 0;                                        // seconds that an update takes for a parameter
  double byte_cost = 0;                                     // processor seconds for a byte that it sends or receives
  // How much longer it takes while all others compute, too; left out: as much as is usual with so many.
  std::optional<double> crowding{};
  double hop = 0;                 // seconds that something small takes from one thread to another
  std::optional<Bytes> memory{};  // for the layers that it is to hold
  double uplink = std::numeric_limits<double>::infinity();    // bytes/s of its computer's card, to all others together
  double downlink = std::numeric_limits<double>::infinity();  // from all others
  double latency = 0;                                         // seconds from here to the middle of the network
  double within = 8e9;                                        // bytes/s to others of its computer
};

// Peers, and what is known of the links between them.
struct Swarm {
  std::vector<Peer> peers{};
  std::map<std::pair<std::size_t, std::size_t>, Link> links{};  // from, to; of those that were measured
  std::map<std::string, double> cores{};                        // how many processors are shared, by their name

  // As measured; else as fast as both network cards allow, and through the middle of the network, or within a computer.
  Link link(std::size_t from, std::size_t to) const;

  // Peers of one computer share its network card, and reach each other without it, unless their link was measured.
  bool are_together(std::size_t one, std::size_t other) const;
};

// What links usually are here: the middle one of the bandwidths that were measured, and of the latencies (0: not
// measured). Without any, as fast as can be.
Link usual_link(const Swarm& swarm);

// From now on there is a link between any two peers: what was not measured of it is as `usual`.
void fill_in(Swarm& swarm, const Link& usual);

// How a computer is usually connected: bytes/s out and in, and seconds to the middle of the network. By name: lan,
// home-broadband, campus, transatlantic, datacenter. Throws InputError on another one.
struct Card {
  double uplink = 0, downlink = 0, latency = 0;
};
Card preset(std::string_view name);

// Throws InputError, one sentence, if there is nobody, or figures are negative, not finite or beyond reason.
void check(const Swarm& swarm);

}  // namespace rookery::plan
