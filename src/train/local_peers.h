#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "config/settings.h"
#include "train/run_directory.h"
#include "wire/ticket.h"

namespace rookery::train {

// peer-0, peer-1, …, all as long as the last one, so that they are in order by name, too.
std::string local_peer_name(std::size_t i, std::size_t count);

// The peers of a swarm on this computer, one process each. They never outlive this.
class LocalPeers {
 public:
  // Forks. Requires: no other thread runs. `may_return`: there is a process, too, that can start others later.
  explicit LocalPeers(std::size_t count, bool may_return = false);

  // Lets them join. Each is as fast, and its links are as good, as the settings say; what goes wrong with it stands in
  // peers/NAME.log of the run's directory.
  // With `trace` each writes down what it does.
  void join(const wire::Ticket& ticket, const config::Settings& settings, const RunDirectory& directory,
            bool trace = false);

  // Makes one of what they have written down, in the run's directory.
  void join_traces(const RunDirectory& directory) const;

  // Throws Error if one of them has ended.
  void check();

  std::size_t size() const { return processes_.size(); }
  std::string name(std::size_t peer) const { return local_peer_name(peer, size()); }
  bool has_ended(std::size_t peer);
  void send_signal(std::size_t peer, int number);  // if it has not ended

  // Another process in the place of one that has ended: it joins as that did. Requires: they may return, and join() was
  // called.
  void start_again(std::size_t peer);

  // Waits for them to end by themselves.
  void wait(std::chrono::milliseconds patience);

 private:
  std::vector<Subprocess> processes_;        // the first of each
  std::optional<Subprocess> nursery_;        // has no threads, and so can fork at any time
  std::map<std::size_t, pid_t> successors_;  // of those who have ended
  std::vector<std::string> orders_;          // of each
};

}  // namespace rookery::train
