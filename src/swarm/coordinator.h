#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
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

  virtual void joined(const wire::Introduction& /*peer*/) {}
  virtual void ready(const std::string& /*peer*/, const wire::Ready& /*ready*/) {}
  virtual void refused(const std::string& /*peer*/, const std::string& /*why*/) {}
  virtual void left(const std::string& /*peer*/, const std::string& /*why*/) {}  // before there was a plan
  virtual void planned(const wire::Plan& /*plan*/) {}
  virtual void replanned(const wire::Plan& /*plan*/) {}  // another generation, with the same places
  virtual void began() {}
  virtual void taken_up(const wire::Plan& /*plan*/) {}  // of a run that another coordinator has begun
  virtual void silent(const std::string& /*peer*/, const std::string& /*why*/) {}  // but may return
  virtual void returned(const std::string& /*peer*/) {}                            // by another link, and trains on
  // Before that, to a coordinator that has taken up the run: what the one before knew of it.
  virtual void introduced_again(const wire::Introduction& /*peer*/, const wire::Ready& /*ready*/) {}
  virtual void stepped(const std::string& /*peer*/, const wire::StepReport& /*report*/) {}
  virtual void stands_in(const std::string& /*peer*/) {}  // was asked to join once more, in a place that is free
  virtual void relieved(const std::string& /*peer*/) {}   // stood in, and is lost next: somebody has come for its place
  virtual void restores(const std::string& /*peer*/) {}   // from now on it gets what belongs to its place,
  virtual void restored(const std::string& /*peer*/) {}   // and has it
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

  // What a peer is doing, about once a second; nothing depends on it.
  virtual void active(const std::string& /*peer*/, const wire::Activity& /*activity*/) {}

  // All hold; they go on, or are about to.
  virtual void held() {}
  virtual void released() {}

  // Nobody has got on for long, though all are there: rounds begin anew.
  virtual void stuck() {}

  // Everybody ends, and joins again: another plan would be better. They have, and begin again after this step.
  virtual void moves() {}
  virtual void goes_back() {}  // the same, since no whole copy is left: what was saved last has to do
  virtual void moved(std::uint64_t /*step*/) {}

  // A peer has no link to another one any more.
  virtual void missed(const std::string& /*who*/, const std::string& /*by*/, const std::string& /*why*/) {}

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
  bool stands_in = false;                   // its process is a peer already
  wire::Ready ready{};                      // what it has found out about itself,
  std::vector<wire::SurveyedLink> links{};  // and about the ways from the others
  double crowding = 0;                      // how much longer it computes while all do; 0: not known
};

// What another coordinator has to know to take up a run.
struct Memory {
  wire::Plan plan{};
  bool begun = false;
  bool stopping = false;                   // everybody was told to end,
  bool moving = false;                     // because there is to be another plan
  std::optional<std::uint64_t> covered{};  // the last step to which a lone cluster could go back
  std::set<net::Fingerprint> expelled{};

  bool operator==(const Memory&) const = default;
};

// With what a swarm that is planned anew begins.
struct Anew {
  std::string settings{};  // as TOML
  std::vector<OfferedFile> checkpoint{};
  std::uint64_t step = 0;  // after which it was saved
};

struct CoordinatorOptions {
  std::string settings;                                // as TOML, for the peers
  std::size_t peers = 1;                               // how many to wait for
  std::string data{}, model{};                         // fingerprints that peers have to have
  std::uint64_t parameters = 0;                        // of the model
  bool only_these = false;                             // nobody else will come if one of them cannot take part
  std::vector<OfferedFile> data_files{};               // for peers that lack them
  std::vector<OfferedFile> checkpoint{};               // to start from
  std::filesystem::path incoming{};                    // where checkpoints that peers send are put; empty: nowhere
  Duration introduction = std::chrono::seconds(30);    // for who has come to say who it is
  Duration preparation = std::chrono::minutes(30);     // to open the data and build the model
  Duration links = std::chrono::seconds(60);           // for peers to link up, and to find out about their links
  Duration restoration = std::chrono::hours(1);        // for one who came later to get what belongs to its place
  Duration farewell = std::chrono::minutes(5);         // without a word, when everybody is to end
  Duration returning = std::chrono::seconds(60);       // for one of whom nothing is heard, but whom nobody misses
  Duration stand_in = std::chrono::milliseconds(500);  // until somebody stands in for one that was lost
  Duration vacancy = std::chrono::minutes(10);         // for somebody to come, where nobody can go on before
  Duration stuck =
      std::chrono::seconds(60);  // or ten of the longest steps, until rounds in which nobody gets on begin anew
  Duration second_thoughts = std::chrono::seconds(20);  // until it is asked whether another plan would be better
  Duration gathering = std::chrono::seconds(30);        // for all to join again, if so
  Aside aside{};                                        // where long work goes
  // Keeps what another coordinator would need. Called before anybody learns of it; may be left out.
  std::function<void(const Memory& memory)> remember{};
  // What another coordinator has kept, of a run that had begun: its peers return, and nobody else begins.
  std::optional<Memory> taken_up{};
  std::uint64_t known_step = 0;  // of such a run: the last that all have reported
  // What there is to see, as JSON, for those with the ticket who only look on. Left out: they are told that there is
  // nothing.
  std::function<Task<std::string>()> show{};
  // Its peers and links as they were measured, as a peers.toml, for the same; empty until they were. May be left out.
  std::function<std::string()> measured{};
  // For how many steps it counts that somebody was suspected. Left out: for ever.
  std::function<std::uint64_t()> suspicions_last{};
  // Decides who holds what, when all are there: fills in clusters, stages and layers. May take long, and is called
  // where long work goes. Throws Error, one sentence, if these peers cannot train. Left out: each has a whole copy of a
  // model with one layer.
  std::function<void(wire::Plan& plan, const std::vector<Means>& means)> arrange{};
  // Whether the others can go on by this plan, in which those who were lost are not `here`. Left out: they cannot.
  std::function<bool(const wire::Plan& plan)> goes_on{};
  // Whether the only cluster, in which those who are lost or new are not `here`, can go back to a step that is covered
  // when all places are taken. Left out: it cannot.
  std::function<bool(const wire::Plan& plan)> rewinds{};
  // Whether one who is there is to join once more, for a place that nobody comes for. Left out: nobody is.
  std::function<bool(const wire::Plan& plan, std::size_t place, std::size_t by)> stands_in{};
  // Whether somebody new may have this place, which nobody has any more. Left out: nobody may.
  std::function<bool(const wire::Plan& plan, std::size_t rank, const Means& means)> fits{};
  // Whether another plan for those who are there would be so much better that everybody is to stop for it. Asked a
  // while after somebody was lost, or has come for whom there is no place. May take long, and is called where long work
  // goes. Left out: never.
  std::function<bool(const wire::Plan& plan, const std::vector<Means>& present, std::uint64_t step)> moves{};
  // Whether those who are left are to have another plan, where nobody can go on by the one they have, and something was
  // saved since they began by it, from which they go on. Left out: never.
  std::function<bool(const wire::Plan& plan)> goes_back{};
  // Everybody has ended for either, after this step. Nothing if there is nothing left to do. May take long, too.
  std::function<std::optional<Anew>(std::uint64_t step)> anew{};
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
// Where there is only one cluster, its stages have copies of each other in memory. When one is lost, all wait for
// somebody to come, and go back to the last step that is covered.
//
// A peer that is lost before there is a plan makes room for another. If one is lost later, the others get another plan,
// of the next generation, and go on without it. If they cannot, that ends the run: they are told to stop, one of them
// saves its copy, and run() names the peer that was lost.
//
// Of whom nothing is heard, by one who misses it and by the coordinator, is lost. Of two who are both heard but have no
// link to each other one is lost, too, and may join again. Whose link to the coordinator alone has ended trains on, and
// returns; so do all when the coordinator has ended and another one has taken up the run. Nobody but a coordinator
// makes a generation, and it is kept before anybody hears of it, so that there are no two plans of one.
//
// When peers were lost, or have come, another plan may be better, with other clusters. Then all end after the same
// step, as if the run were to, and join again in their processes; what was saved is what they begin with.
//
// Should nobody get on for long, though all are there, all get a plan of the next generation, in which nothing is new
// but that: whatever they wait for in rounds, they begin it again.
//
// Whom more than half of the other clusters suspect is expelled: its link is closed, and it may not come again. Where
// there is only one other cluster, that has to say so several times. What was said long ago does not count.
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

  // Nobody begins another step, until they are released or stopped; whoever is lost or comes meanwhile is dealt with as
  // ever. Without effect before they have begun.
  void hold();
  void release();

  // A checkpoint after the same step of all, as soon as may be.
  void save();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::swarm
