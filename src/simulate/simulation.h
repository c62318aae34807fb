#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/virtual_world.h"
#include "config/description.h"
#include "plan/planner.h"
#include "simulate/cables.h"
#include "train/blueprint.h"
#include "train/run_directory.h"
#include "train/swarm_record.h"
#include "train/wiring.h"

namespace rookery::simulate {

// What a simulation was like.
struct Outcome {
  observe::Summary summary;    // of the run, in virtual time
  double virtual_seconds = 0;  // that passed
  std::uint64_t events = 0;    // that happened
  std::uint64_t trace = 0;     // a digest of when: equal for equal simulations
  bool interrupted = false;
};

// A swarm in the virtual world: the members, schedules, methods, collectives and links of a real one, on computers that
// are described, in time that passes only when nothing is left to do. What is modelled is what a computer does: it
// takes its time, and does the arithmetic only if the scenario says so. Who is in the swarm is known from the
// beginning: nobody has to be admitted, and links are not surveyed, but as they are described.
//
// Deterministic: the same scenario on the same computer gives the same run, to the byte. Lives on the calling thread.
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

  // Until all steps are done, the scenario's time has passed or its loss is reached, or `stop` was set. `watch` is called now and then.
  Outcome run(const std::atomic<bool>& stop, const std::function<void()>& watch = {});

 private:
  struct Peer;

  plan::Option formed_otherwise(const plan::Option& planned) const;
  void set_up(std::size_t rank);
  void check() const;
  Task<> live(std::size_t rank);
  Task<> train(Peer& peer);
  Task<> take_steps(Peer& peer);
  Task<double> evaluate(Peer& peer);
  pipeline::Admission may_begin(std::uint64_t step);
  void stepped(Peer& peer, wire::StepReport report);
  void end_now();

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
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::uint64_t begun_ = 0;                   // the last step that anybody has begun
  std::optional<std::uint64_t> end_;          // after which everybody is to end
};

}  // namespace rookery::simulate
