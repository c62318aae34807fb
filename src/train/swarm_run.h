#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/loop_thread.h"
#include "base/real_world.h"
#include "net/host.h"
#include "plan/swarm.h"
#include "swarm/coordinator.h"
#include "swarm/files.h"
#include "swarm/watchers.h"
#include "train/blueprint.h"
#include "train/journal.h"
#include "train/run.h"
#include "train/swarm_record.h"
#include "wire/ticket.h"

namespace rookery::train {

struct SwarmRunOptions {
  std::string listen = "127.0.0.1:0";    // HOST:PORT; empty, to take up a run: as before
  std::vector<std::string> advertise{};  // what the ticket says instead
  bool encrypt = true;
  bool local = false;     // all peers are on this computer, as the settings describe them
  bool takes_up = false;  // the coordinator of this run has ended, and its peers train on
};

// The training of one model by a swarm, seen from its coordinator, in one run directory.
//
//   SwarmRun run(settings, directory, resume, options);
//   show(run.ticket());
//   const RunOutcome outcome = run.train(stop);
//
// Lives on the calling thread.
class SwarmRun {
 public:
  // Opens the data, prepares the directory and starts to listen. With `resume` the swarm starts from the newest
  // checkpoint; without, an earlier run is moved aside. Everything that can be wrong with the input throws InputError
  // before anything is written.
  //
  // If it `takes_up` the run, nothing is moved or cut, it listens where the one before did, and that one's ticket is
  // good. Requires then: the settings are those in the directory.
  SwarmRun(config::Settings settings, RunDirectory directory, bool resume, const SwarmRunOptions& options);
  ~SwarmRun();

  const wire::Ticket& ticket() const { return ticket_; }
  const Blueprint& blueprint() const { return blueprint_; }
  const Position& began_at() const { return began_at_; }
  const std::optional<std::filesystem::path>& moved_aside() const { return moved_aside_; }

  // What happens is passed on to these, too. The watcher outlives this.
  void add_watcher(swarm::Watcher& watcher) { watchers_.add(watcher); }
  void pass_notes_to(SwarmRecord::Noted noted) { record_->pass_notes_to(std::move(noted)); }
  void add_sink(std::unique_ptr<observe::Sink> sink) { record_->add_sink(std::move(sink)); }
  void tell_events_to(std::function<void(const std::string&)> tell) { record_->tell_events_to(std::move(tell)); }

  void tell_plan_to(std::function<void(const std::string&)> tell) { record_->tell_plan_to(std::move(tell)); }

  // The peers and their links, once there is a plan; and the settings with what it has decided.
  const plan::Swarm& measured() const { return measured_; }
  const config::Settings& decided() const { return decided_; }

  // What those with the ticket see who only look on. Before train().
  void show_with(std::function<Task<std::string>()> show) { show_ = std::move(show); }

  // Asked for while train() goes on, by any thread; of no effect otherwise.
  enum class Wish { kHold, kRelease, kSave };
  void ask_for(Wish wish);

  // An event that the coordinator does not see, for the record.
  void note(const char* event, const std::string& peer, const std::string& text) { record_->note(event, peer, text); }

  // Until the run is over: all steps are done, `stop` was set, or a peer was lost, which throws Error with its name.
  // `watch` is called now and then before the run begins, and `meanwhile` from then on, with the seconds since; if one
  // of them throws Error, that is the end.
  RunOutcome train(const std::atomic<bool>& stop, const std::function<void()>& watch = {},
                   const std::function<void(double seconds)>& meanwhile = {});

 private:
  swarm::CoordinatorOptions coordinator_options();
  bool is_worth_moving(const wire::Plan& plan, const std::vector<swarm::Means>& present, std::uint64_t step) const;
  std::optional<swarm::Anew> begin_anew(std::uint64_t ended);
  void keep_measured() const;

  RunDirectory directory_;
  std::unique_ptr<Journal> journal_;  // unless the peers go with their coordinator
  Blueprint blueprint_;
  Position began_at_;
  std::optional<std::filesystem::path> moved_aside_;
  wire::Ticket ticket_;
  std::optional<Journal::Entry> before_;  // what the coordinator before has kept
  bool local_;
  std::vector<swarm::OfferedFile> data_files_, checkpoint_;
  std::optional<CheckpointInfo> resumed_;  // what that one says
  config::Settings decided_;               // with what the plan says
  plan::Swarm measured_;                   // the peers and their links, once there is a plan,
  bool has_measured_ = false;              // by this coordinator, and not by the one before
  std::atomic<double> step_seconds_ = 0;   // so far, for where long work is done

  LoopThread aside_;  // for long work
  RealWorld world_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::Host> host_;
  std::unique_ptr<SwarmRecord> record_;
  swarm::Watchers watchers_;
  std::function<Task<std::string>()> show_;
  swarm::Coordinator* coordinator_ = nullptr;  // while there is one
};

}  // namespace rookery::train
