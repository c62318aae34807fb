#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "base/subprocess.h"
#include "config/settings.h"
#include "train/run_directory.h"
#include "wire/ticket.h"

namespace rookery::train {

// The peers of a swarm on this computer, one process each. They never outlive this.
class LocalPeers {
 public:
  // Forks. Requires: no other thread runs
  explicit LocalPeers(std::size_t count);

  // Lets them join. Each is as fast, and its links are as good, as the settings say; what goes wrong with it stands in
  // peers/NAME.log of the run's directory.
  void join(const wire::Ticket& ticket, const config::Settings& settings, const RunDirectory& directory);

  // Throws Error if one of them has ended.
  void check();

  // Waits for them to end by themselves.
  void wait(std::chrono::milliseconds patience);

 private:
  std::vector<Subprocess> processes_;
};

}  // namespace rookery::train
