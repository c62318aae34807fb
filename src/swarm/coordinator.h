#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/host.h"
#include "swarm/files.h"
#include "wire/swarm_message.h"

namespace rookery::swarm {

// What happens in a swarm, for whoever shows or records it. Called on the coordinator's executor.
class Watcher {
 public:
  virtual ~Watcher() = default;

  virtual void joined(const std::string& /*peer*/) {}
  virtual void ready(const std::string& /*peer*/, const wire::Ready& /*ready*/) {}
  virtual void refused(const std::string& /*peer*/, const std::string& /*why*/) {}
  virtual void left(const std::string& /*peer*/, const std::string& /*why*/) {}  // before there was a plan
  virtual void planned(const wire::Plan& /*plan*/) {}
  virtual void began() {}
  virtual void stepped(const std::string& /*peer*/, const wire::StepReport& /*report*/) {}
  virtual void entered(const wire::PlannedPeer& /*peer*/) {
  }  // trains (again), after `from` steps: its cluster is whole
  virtual void evaluated(const std::string& /*peer*/, const wire::Evaluated& /*evaluation*/) {}
  virtual void ended(const std::string& /*peer*/, const wire::Ended& /*summary*/) {}

  // What a peer has saved is in a folder, which is the watcher's from now on. keep() may take long, and is called where
  // CoordinatorOptions::aside puts it: on another thread, with the others going on. Returns whether the checkpoint is
  // whole with it; saved() follows if so.
  virtual bool keep(std::uint64_t /*step*/, const std::filesystem::path& /*folder*/) { return true; }
  virtual void saved(const std::string& /*peer*/, std::uint64_t /*step*/) {}

  // A peer has found that another one brings what cannot be right; said once for every two of them. Most have: that one
  // has to go, and is lost.
  virtual void suspected(const std::string& /*culprit*/, const std::string& /*by*/, const std::string& /*why*/) {}
  virtual void expelled(const std::string& /*peer*/, const std::string& /*why*/) {}

  // Somebody was lost after the begin: the others go on by another plan, or the run ends.
  virtual void lost(const std::string& /*peer*/, const std::string& /*why*/) {}
};

// A file, and what others know about it.
struct OfferedFile {
  wire::FileFacts facts;
  std::filesystem::path path;
};

// What a peer has to give.
struct Means {
  std::string name{};
  std::optional<std::uint64_t> memory{};  // bytes, for the layers that it is to hold
  std::string host{};
  wire::Ready ready{};                      // what it has found out about itself,
  std::vector<wire::SurveyedLink> links{};  // and about the ways from the others
};

struct CoordinatorOptions {
  std::string settings;                              // as TOML, for the peers
  std::size_t peers = 1;                             // how many to wait for
  std::string data{}, model{};                       // fingerprints that peers have to have
  std::uint64_t parameters = 0;                      // of the model
  bool only_these = false;                           // nobody else will come if one of them cannot take part
  std::vector<OfferedFile> data_files{};             // for peers that lack them
  std::vector<OfferedFile> checkpoint{};             // to start from
  std::filesystem::path incoming{};                  // where checkpoints that peers send are put; empty: nowhere
  Duration introduction = std::chrono::seconds(30);  // for who has come to say who it is
  Duration preparation = std::chrono::minutes(30);   // to open the data and build the model
  Duration links = std::chrono::seconds(60);         // for peers to link up, and to find out about their links
  Duration restoration = std::chrono::hours(1);      // for one who came later to get what belongs to its place
  Duration farewell = std::chrono::minutes(5);       // without a word, when everybody is to end
  Aside aside{};                                     // where long work goes
  // Decides who holds what, when all are there: fills in clusters, stages and layers. May take long, and is called
  // where long work goes. Throws Error, one sentence, if these peers cannot train. Left out: each has a whole copy of a
  // model with one layer.
  std::function<void(wire::Plan& plan, const std::vector<Means>& means)> arrange{};
  // Whether the others can go on by this plan, in which those who were lost are not `here`. Left out: they cannot.
  std::function<bool(const wire::Plan& plan)> goes_on{};
  // Whether somebody new may have this place, which nobody has any more. Left out: nobody may.
  std::function<bool(const wire::Plan& plan, std::size_t rank, const Means& means)> fits{};
  // A cluster has somebody new, who has links to all; or all of it has been `restored`: fills in `here`, `restores` and
  // `from` of each of its places. `step`: the last that anybody has reported. False if it would come too late.
  std::function<bool(wire::PlannedPeer& place, std::uint64_t step, bool restored)> enter{};
};

// Brings a swarm together and sees it through: admits as many peers as are wanted, checks that they have the same model
// and data, lets them link up and survey their links, makes the plan, lets them begin together, and passes on what they
// report. Whoever comes later gets the place of one that was lost, if there is one that it can fill, or waits for one:
// it links up with the others, its whole cluster is handed what belongs to its places, and takes part from some step
// on.
//
// A peer that is lost before there is a plan makes room for another. If one is lost later, the others get another plan,
// of the next generation, and go on without it. If they cannot, that ends the run: they are told to stop, one of them
// saves its copy, and run() names the peer that was lost.
//
// Whom more than half of the other clusters suspect is expelled: its link is closed, and it may not come again. Where
// there is only one other cluster, that has to say so several times.
//
// Confined to the host's executor. The host listens, and outlives this; so does the watcher.
class Coordinator {
 public:
  Coordinator(Clock& clock, net::Host& host, CoordinatorOptions options, Watcher& watcher);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Until all peers have ended. Throws Error, one sentence with the peer's name, if one was lost.
  Task<> run();

  // Everybody ends after the same step: the last that any of them has begun. run() returns when they have.
  void stop(const std::string& reason);

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::swarm
