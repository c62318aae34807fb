#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/virtual_world.h"
#include "config/description.h"
#include "plan/planner.h"
#include "simulate/attendance.h"
#include "simulate/cables.h"
#include "train/blueprint.h"
#include "train/chaos.h"
#include "train/run_directory.h"
#include "train/swarm_record.h"
#include "train/wiring.h"

namespace rookery::simulate {

// What a simulation was like.
struct Outcome {
  observe::Summary summary;           // of the run, in virtual time
  double virtual_seconds = 0;         // that passed
  std::uint64_t events = 0;           // that happened
  std::uint64_t trace = 0;            // a digest of when: equal for equal simulations
  std::uint64_t lost = 0;             // peers
  std::uint64_t rounds_repeated = 0;  // of all peers
  double utilisation = 0;             // share of the time in which peers computed what was used, of all places
  bool interrupted = false;
};

// A swarm in the virtual world: the members, schedules, methods, collectives and links of a real one, on computers that
// are described, in time that passes only when nothing is left to do. What is modelled is what a computer does: it
// takes its time, and does the arithmetic only if the scenario says so. The simulation is the coordinator: nobody has
// to be admitted, and links are not surveyed, but as they are described.
//
// If peers come and go, one that is lost takes its cluster out of all rounds until another has come in its place; then
// its stages begin again with what a cluster that is whole hands on to them, after as many steps as that has done.
//
// Deterministic: the same scenario with the same profile of its layers gives the same run, to the byte. Lives on the
// calling thread.
class Simulation {
 public:
  // Makes the plan, and prepares the directory: an earlier run is moved aside. `profiles`: where what layers take is
  // kept. Throws InputError, one sentence, if there is no such swarm, or no plan for it; then nothing is written.
  Simulation(const config::Scenario& scenario, train::RunDirectory directory, const std::filesystem::path& profiles);
  ~Simulation();

  const train::Blueprint& blueprint() const { return blueprint_; }
  const plan::Option& plan() const { return chosen_; }
  const std::optional<std::filesystem::path>& moved_aside() const { return moved_aside_; }
  void add_sink(std::unique_ptr<observe::Sink> sink) { record_->add_sink(std::move(sink)); }

  // Until all steps are done, the scenario's time has passed or its loss is reached, or `stop` was set. `watch` is
  // called now and then.
  Outcome run(const std::atomic<bool>& stop, const std::function<void()>& watch = {});

 private:
  struct Peer;

  plan::Option formed_otherwise(const plan::Option& planned) const;
  bool changes() const { return options_.stay.count() > 0 || chaos_; }
  bool replaces() const { return changes() && (chaos_ ? chaos_->rejoin : options_.absence).count() > 0; }
  void set_up(std::size_t rank);
  void check() const;
  Task<> live(std::shared_ptr<Peer> peer);
  Task<> train(Peer& peer);
  Task<bool> take_steps(Peer& peer);
  Task<bool> take_steps_until(Peer& peer, std::int64_t until);
  Task<double> evaluate(Peer& peer);
  pipeline::Admission may_begin(std::uint64_t step);
  void stepped(Peer& peer, wire::StepReport report);
  void end_now();

  // Where peers come and go.
  void expect_loss(std::size_t rank);
  void expect_blow();
  void strike(const train::Blow& blow);
  void lose(std::size_t rank, Duration absence);
  bool is_last_whole(std::size_t cluster) const;
  void replace(std::size_t rank);
  void announce(std::size_t cluster);
  Task<bool> begin_again(Peer& peer);
  std::int64_t steps_of(std::size_t cluster) const;
  Task<> take_over(Peer& peer, std::size_t donor);

  config::Simulate options_;
  train::Blueprint blueprint_;
  plan::Swarm swarm_;
  plan::Job job_;
  wire::Plan plan_;
  plan::Option chosen_;
  std::optional<train::Clusters> clusters_;
  train::RunDirectory directory_;
  std::optional<std::filesystem::path> moved_aside_;

  VirtualWorld world_;
  std::unique_ptr<train::SwarmRecord> record_;
  std::unique_ptr<Cables> cables_;
  std::unique_ptr<TaskGroup> lives_;
  std::vector<std::shared_ptr<Peer>> peers_;  // by rank; nullptr where nobody is
  std::uint64_t begun_ = 0;                   // the last step that anybody has begun
  std::optional<std::uint64_t> end_;          // after which everybody is to end
  Time last_step_{};                          // when anybody has got on, or everybody was told so
  bool abandoned_ = false;

  // Where peers come and go.
  std::unique_ptr<Attendance> attendance_;
  std::vector<std::unique_ptr<Alarm>> losses_, arrivals_;  // by rank
  std::vector<std::uint64_t> successors_;                  // by rank: how many there have been
  std::vector<std::string> first_names_;
  std::optional<train::ChaosOptions> chaos_;  // instead of times to stay
  std::optional<train::ChaosSchedule> blows_;
  std::unique_ptr<Alarm> next_blow_;
  struct Start {
    std::int64_t step = 0;         // after which the cluster begins again
    std::uint32_t generation = 0;  // of what its stages have to do with each other
  };
  std::map<std::size_t, Start> starts_;  // by cluster
  std::uint64_t lost_ = 0, repeated_ = 0;
  std::int64_t failed_of_lost_ = 0;  // rounds of those who are gone
  double computed_ = 0;              // seconds, of all peers
  std::uint32_t handovers_ = 0;
};

}  // namespace rookery::simulate
