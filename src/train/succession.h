#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/loop_thread.h"
#include "base/signal.h"
#include "collective/donation.h"
#include "net/link.h"
#include "train/buddies.h"
#include "train/wiring.h"
#include "wire/swarm_message.h"

namespace rookery::train {

// Somebody of another cluster who is to get what this peer has: it is new, or somebody of its cluster is.
struct Heir {
  std::size_t rank = 0;
  std::size_t cluster = 0, stage = 0;
  std::uint32_t since = 0;  // generation
  std::uint64_t from = 0;   // after so many steps exactly, if copies are equal; else 0
};

// What a cluster that is to be whole again begins with.
struct Inheritance {
  std::uint32_t since = 0;  // generation
  std::uint64_t from = 0;   // after so many steps exactly; 0: what others have now
  bool rewinds = false;     // from copies of its own stages
};

// How a peer takes a place that was somebody else's, and how others come to have what belongs to theirs: the network's
// side of it. Clusters hand on to each other ring by ring; a lone cluster keeps copies of its stages (buddies.h).
//
// Confined to the network's executor.
class Succession {
 public:
  // What it looks at, which outlives it.
  struct Surroundings {
    Clock& network;
    LoopThread& aside;       // for what takes long
    const wire::Plan& plan;  // the newest
    const Clusters& clusters;
    std::size_t rank = 0;
    std::function<net::Link*(std::size_t rank)> link_to;
    std::function<void(const wire::SwarmMessage&)> report;
  };

  // `may_change`: clusters can go on when they have lost somebody.
  Succession(Surroundings surroundings, bool may_change);

  // The stages of this cluster, which is the only one, have copies of each other. `most_values`: in one of them.
  // `is_new`: it has nothing yet.
  void keep_copies(std::size_t most_values, bool is_new);
  void keep(std::uint64_t step, std::uint64_t every, Snapshot snapshot);
  void covered(std::uint64_t step);

  bool is_whole(std::size_t cluster) const;

  // The plan has changed from this one. Returns those who are to get from this peer what it has.
  std::vector<Heir> changed(const wire::Plan& before);

  // Its own cluster has lost somebody: copies are kept no more until it is whole.
  void pause();

  // Until the coordinator says that a mate is lost, or it is clear that none is: then whatever has failed is to blame.
  // `since`: the generation in which the cluster was whole, if it was to be; else 0.
  Task<bool> is_broken(std::uint32_t since);

  // Until others are to hand on what belongs to its place, in another generation than `last`; nothing if the run ends
  // before. The coordinator learns that this peer has stopped.
  Task<std::optional<Inheritance>> wait_for_place(std::uint32_t last);

  // Where what is handed on of a segment is to be: as many values as it has, which are what this peer has of it so far.
  // Nobody else looks at them meanwhile.
  struct Estate {
    std::size_t segment = 0;
    std::span<float> values{};
  };
  using Estates = std::vector<Estate>;  // of all its rings

  // Gets them from all who are whole; whoever is faster gives more, and what is right already stays. Throws LinkError
  // if it cannot be had; another call goes on from there.
  Task<> inherit(Estates estates, std::uint32_t since);

  // The same from copies of its own cluster.
  Task<> go_back(Estates estates, Inheritance inheritance);

  // This peer has what it needs, and the coordinator learns that. Until all stages of the cluster have; false if that
  // is not to be.
  Task<bool> take_place(std::uint32_t since);

  // Gives an heir what it asks for of a segment, or lets it know that there is nothing to wait for.
  void give(const Heir& heir, std::size_t segment, std::shared_ptr<const std::vector<float>> values);
  void disappoint(const Heir& heir, std::size_t segment);

  // The coordinator cannot be heard, or can again: then it is told once more what it may not know.
  void set_away() { is_away_ = true; }
  void returned();
  bool is_away() const { return is_away_; }

  // Nobody waits any more. `abandoned`: because the coordinator is lost.
  void stop(bool abandoned);

  // Until all has been given.
  Task<> end();

 private:
  const wire::PlannedPeer& own() const { return s_.plan.peers.at(s_.rank); }
  const std::vector<std::size_t>& mates() const { return s_.clusters.ranks[own().cluster]; }
  void begin_copies();
  void give_copy(const wire::PlannedPeer& to, std::size_t rank);
  void donate(std::size_t rank, std::uint32_t since, net::ChannelId channel,
              std::shared_ptr<const std::vector<float>> values);
  void decline(net::Link& link, net::ChannelId channel) const;
  void spawn_donation(std::size_t rank, std::uint32_t since, net::ChannelId channel,
                      std::shared_ptr<const collective::Donation> donation);

  Surroundings s_;
  bool may_change_;
  std::unique_ptr<Buddies> buddies_;  // where there is only one cluster
  std::unique_ptr<TaskGroup> giving_;
  bool is_away_ = false;  // the coordinator
  bool is_stopped_ = false, is_abandoned_ = false;
  std::uint32_t returns_ = 0;  // how often the coordinator was there again
  Signal changed_;
};

}  // namespace rookery::train
