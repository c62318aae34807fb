#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/signal.h"
#include "base/task.h"

namespace rookery::simulate {

// Who is there in a swarm whose peers come and go, and how the stages of a cluster that has lost one begin again: when
// all places are taken, they meet as often as they have to, and then the cluster is whole. If somebody is lost on the
// way, or what they need cannot be had, that attempt is over, and there is another one.
//
// Confined to one executor.
class Attendance {
 public:
  // Ranks of each cluster's stages. All are there.
  explicit Attendance(std::vector<std::vector<std::size_t>> clusters);

  bool is_whole(std::size_t cluster) const { return clusters_[cluster]->is_whole; }

  void leave(std::size_t rank);
  void come(std::size_t rank);

  // Ranks of a cluster's places that are taken.
  std::vector<std::size_t> present(std::size_t cluster) const;
  bool is_complete(std::size_t cluster) const;

  struct Attempt {
    std::uint64_t number = 0;
    std::optional<std::size_t> donor{};  // a cluster that is whole, if there is one
  };

  // Waits until all places of a cluster are taken. Nothing if nobody is waited for any more.
  Task<std::optional<Attempt>> gather(std::size_t cluster);

  // Waits until all stages of the cluster have come to this point; `then` is called once, by the last of them. False if
  // the attempt is over.
  Task<bool> meet(std::size_t cluster, std::uint64_t attempt, std::function<void()> then);

  void make_whole(std::size_t cluster) { clusters_[cluster]->is_whole = true; }

  // This attempt has failed, unless it was over already.
  void give_up(std::size_t cluster, std::uint64_t attempt);

  // Nobody is waited for any more.
  void close();

 private:
  struct Cluster {
    std::vector<std::size_t> ranks;
    std::vector<bool> there;
    bool is_whole = true;
    std::uint64_t attempt = 0;
    std::size_t donors = 0;  // that were tried
    std::size_t met = 0;     // how often stages have come to a point, in this attempt
    Signal changed;
  };

  std::optional<std::size_t> donor_for(std::size_t cluster) const;
  static void begin_attempt(Cluster& cluster);

  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // by rank: cluster and stage
  bool closed_ = false;
};

}  // namespace rookery::simulate
