#pragma once

#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/units.h"
#include "config/settings.h"
#include "net/line.h"
#include "observe/metrics.h"
#include "sync/faulty_rounds.h"
#include "train/pace.h"
#include "wire/ticket.h"

namespace rookery::train {

struct JoinOptions {
  wire::Ticket ticket{};
  std::string name{};                      // of this peer; no two in a swarm have the same
  Bytes memory = 0;                        // that it may use; 0: all there is
  std::int64_t threads = 0;                // that compute; 0: as the run says
  std::optional<std::string> device{};     // instead of the run's
  Pace::Options pace{};                    // that it keeps
  sync::Fault fault = sync::Fault::kNone;  // that it has
  std::string computer{};                  // equal on peers of one computer; empty: this one
  bool encrypt = true;
  Duration patience{};         // with a coordinator that is gone, but may return
  net::LineOptions shaping{};  // of everything it sends to other peers
  // Where its own steps are shown, made when it is known what is trained, and after which step.
  std::function<std::unique_ptr<observe::Sink>(const config::Settings&, std::int64_t steps_done)> show{};
  bool stands_in = false;         // for one that was lost, beside another peer of this process; joins only once
  bool bears_cuts = false;        // kCutSignal to its process breaks one of its links to others
  std::filesystem::path trace{};  // where what it does is written; empty: nowhere
  std::filesystem::path cache{};  // where data that was fetched is kept; empty: the user's
};

constexpr int kCutSignal = SIGUSR1;

// Brings this computer into a swarm, until the run is over. If the others have gone on without it (it was asleep, or
// cut off), or there is to be another plan for all, it joins again. Throws LinkError if it is refused or a peer was
// lost, and Error if it cannot go on itself.
void join(const JoinOptions& options);

// What this computer is called, as far as a name may be.
std::string computer_name();

}  // namespace rookery::train
