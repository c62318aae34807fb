#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "net/link.h"
#include "observe/metrics.h"
#include "pipeline/link_borders.h"
#include "plan/segments.h"
#include "sync/changing_rounds.h"
#include "sync/faulty_rounds.h"
#include "sync/link_rounds.h"
#include "train/member.h"
#include "wire/swarm_message.h"

namespace rookery::train {

// A plan as clusters of stages, and the segments that follow from it.
struct Clusters {
  std::vector<std::vector<std::size_t>> ranks;  // of each cluster's stages
  std::vector<plan::Cut> cuts;                  // of each cluster
  std::vector<plan::Segment> segments;

  // Throws InputError if the plan is not one for a model with so many layers.
  Clusters(const wire::Plan& plan, std::size_t layers);

  std::vector<std::size_t> holders(const plan::Segment& segment) const;  // ranks, by cluster
  bool have_stages() const;  // some of them: not every peer holds a whole model
};

// Where a cluster's copy of a segment is among the others; its layers and values are left out.
Place place_in(const wire::Plan& plan, const Clusters& clusters, const plan::Segment& segment, std::size_t cluster);

// Everything that a peer has to do with others by the plan: rounds of its segments, borders to its neighbours, ties.
// Bytes move on the network's executor, where this is made and destroyed; the member lives on another one, its home.
class Wiring {
 public:
  // `link_to`: the link to another peer, by rank. Links outlive this, and so do plan, its clusters and compute.
  using LinkTo = std::function<net::Link*(std::size_t rank)>;
  Wiring(Clock& network, Executor home, const wire::Plan& plan, const Clusters& clusters, std::size_t rank,
         LinkTo link_to, Compute& compute);

  // Peers come and go: clusters that are not whole take no part in rounds. Before connections().
  using IsWhole = std::function<bool(std::size_t cluster)>;
  void let_change(IsWhole is_whole) { is_whole_ = std::move(is_whole); }

  // Whether changes cannot be heard of for now: rounds that have lost somebody wait for as long. Before connections().
  void wait_while(std::function<bool()> is_in_suspense) { is_in_suspense_ = std::move(is_in_suspense); }

  // Whoever is told which peers bring to rounds what cannot be right, by rank, on the network's executor. Before
  // connections().
  void tell_suspects_to(sync::Suspect suspect) { suspect_ = std::move(suspect); }

  // This peer does something wrong in rounds of training. Before connections().
  void set_fault(sync::Fault fault) { fault_ = fault; }

  // A cluster is whole, or not whole any more; its peers have another `since` in the plan.
  void changed(std::size_t cluster);

  std::uint64_t rounds_repeated() const;  // since somebody was lost

  // The connections among the stages of a cluster in which somebody is new. Those before are gone then: requires that
  // the member does not use them any more. `generation`: the same for all stages, and not that of those before. Throws
  // LinkError if there is no link to one of them.
  ClusterConnections cluster_connections(std::uint32_t generation);

  // Sends and rounds are watched from now on. Before connections().
  void watch(BeginSpan sends, BeginSpan rounds) { watch_sends_ = std::move(sends), watch_rounds_ = std::move(rounds); }

  // For a member, which goes before this does. Once.
  Connections connections();

  plan::StagePlace stage() const { return stage_; }
  std::size_t clusters() const { return clusters_.ranks.size(); }
  plan::ScheduleOptions schedule() const { return schedule_; }

  // Ends everything that is under way, on all peers, and all that would follow; or only what is within the cluster.
  void cancel(const net::LinkError& reason);
  void cancel_cluster(const net::LinkError& reason);

  // The member has gone. Where peers come and go, others may still ask how rounds have ended.
  void leave_cluster();

 private:
  std::size_t together(const std::vector<std::size_t>& ranks) const;
  std::vector<net::Link*> links_to(const std::vector<std::size_t>& ranks, std::size_t own, std::size_t together,
                                   bool mixes) const;
  std::unique_ptr<sync::LinkRounds> rounds(const std::vector<std::size_t>& ranks, std::size_t own,
                                           sync::LinkRoundsOptions options);
  pipeline::Borders& borders(std::optional<std::size_t> previous, std::optional<std::size_t> next,
                             pipeline::LinkBordersOptions options);
  Ring ring(std::size_t segment);
  sync::Rounds* changing_rounds(std::size_t segment, sync::ChangingRoundsOptions options);
  sync::Rounds* with_fault(sync::Rounds* rounds);
  std::vector<Tie> ties();

  Clock& network_;
  Executor home_;
  const wire::Plan& plan_;
  std::size_t rank_;
  LinkTo link_to_;
  Compute& compute_;
  const Clusters& clusters_;
  std::size_t cluster_;
  plan::StagePlace stage_;
  plan::ScheduleOptions schedule_;
  BeginSpan watch_sends_, watch_rounds_;
  IsWhole is_whole_;  // empty: peers stay
  sync::Suspect suspect_;
  std::function<bool()> is_in_suspense_;
  sync::Fault fault_ = sync::Fault::kNone;
  std::vector<std::unique_ptr<sync::LinkRounds>> rounds_;
  std::vector<std::unique_ptr<sync::ChangingRounds>> changing_;
  std::vector<std::unique_ptr<sync::FaultyRounds>> faulty_;
  std::uint32_t cluster_generation_ = 0;
  std::unique_ptr<sync::LinkRounds> cluster_rounds_;
  std::vector<std::unique_ptr<pipeline::LinkBorders>> borders_;
};

// What a link has carried for training: evaluations, checkpoints and what places are taken over with apart.
net::Traffic training_traffic(const net::Link& link);

// How the stages of all clusters go through a step: with as many updates everywhere, also where a cluster has a single
// stage. Throws InputError if there is no such schedule, or a step cannot be cut into such updates.
plan::ScheduleOptions schedule_of(const config::Settings& settings, bool pipelines, std::size_t in_flight);

// The same in words, with what a plan has decided.
observe::Arrangement arrangement_of(const config::Settings& settings, std::size_t clusters, bool pipelines);

}  // namespace rookery::train
