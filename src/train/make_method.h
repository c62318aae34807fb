#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.h"
#include "model/model.h"
#include "plan/topology.h"
#include "sync/local_rounds.h"
#include "sync/method.h"
#include "wire/swarm_message.h"

namespace rookery::train {

// What a method has to know about the swarm it works in.
struct Place {
  std::size_t cluster = 0;                   // of this copy
  std::vector<double> weights{1.0};          // of all clusters: samples in a step
  std::vector<std::size_t> hosts{};          // of all clusters; empty: each has its own
  std::vector<std::size_t> layer_begins{0};  // where each layer begins in the flat vector
  std::size_t values = 0;                    // in the flat vector
  double scale = 1;                          // how many values each of them stands for
  bool changing = false;                     // peers come and go

  float share() const;  // of this cluster in the mean
};

// Of a copy that has done so many steps of a local method: up to which one the others know what it has learnt, in all
// of its layers. Rounds that are under way count.
std::int64_t known_steps(const config::Sync& sync, std::int64_t steps);

// Throws InputError, one sentence that names the key, if no swarm can have what [sync] asks for with a model of so many
// layers.
void check_sync(const config::Settings& settings, std::size_t layers);

// Who mixes with whom in gossip. Throws InputError if these clusters cannot have that topology.
plan::Topology topology_of(const config::Sync& sync, const Place& place);

// Whether copies train alone for so many steps.
bool has_intervals(const config::Sync& sync);

// Steps between rounds of local methods; where neither settings nor a plan say it, as many as is usual.
std::int64_t interval_of(const config::Sync& sync);

// Whether those who are left can go on with the method when peers are lost.
bool can_change(const config::Settings& settings);

// The same for these clusters.
void check_method(const config::Settings& settings, const Place& place);

// How many slots the method needs of its rounds.
std::size_t method_slots(const config::Settings& settings, const Place& place);

// The method that [sync] describes. `holds_up`: whether training may wait for rounds of local methods that have no
// delay of their own. Requires: check_sync() and check_method() did not throw
std::unique_ptr<sync::Method> make_method(const config::Settings& settings, const Place& place, sync::Rounds& rounds,
                                          bool holds_up = true);

// The layers dealt out in turn, so that each fragment has a bit of everything. Requires: fragments > 0
std::vector<sync::Fragment> interleaved_fragments(const Place& place, std::size_t fragments);

}  // namespace rookery::train
