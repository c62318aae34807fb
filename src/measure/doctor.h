#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "net/connector.h"
#include "net/host.h"
#include "net/relay.h"
#include "net/transport.h"
#include "wire/ticket.h"

namespace rookery::measure {

enum class Verdict { kGood, kDoubtful, kBad };

// One thing that was looked at.
struct Finding {
  std::string topic;  // "port"
  Verdict verdict = Verdict::kGood;
  std::string text;      // what was found
  std::string advice{};  // what to do about it
};

struct Examination {
  std::vector<Finding> findings;
  std::optional<std::chrono::seconds> clock_difference{};
  std::optional<Duration> round_trip{};
  std::optional<BitsPerSecond> upload{}, download{};
  std::optional<net::Way> way{};  // how others get a link to this computer

  Verdict verdict() const;  // the worst of the findings
};

struct DoctorOptions {
  std::string name = "doctor";                  // what the other end calls this peer
  unsigned port = 0;                            // where others would dial this computer; 0: any
  Duration patience = std::chrono::seconds(5);  // for each thing
  std::string listen{};                         // an address instead of all of this computer's
};

// Looks at the way from this computer to whoever has given out a ticket, and at everything that a swarm needs of it.
// What cannot be looked at any more is left out. `tell` gets each finding when it is there.
Task<Examination> examine(Clock& clock, net::Transport& transport, wire::Ticket ticket, DoctorOptions options,
                          std::function<void(const Finding&)> tell);

struct PracticeOptions {
  std::string listen;                    // ADDRESS:PORT
  std::vector<std::string> advertise{};  // what the ticket says instead of this computer's own addresses
  Duration open = std::chrono::hours(1);
};

// The other end of an examination: lets in whoever has the ticket, answers, and relays.
class Practice {
 public:
  // Listens from now on. Throws InputError if an address is none, or cannot be used.
  Practice(Clock& clock, net::Transport& transport, const PracticeOptions& options);

  const wire::Ticket& ticket() const { return ticket_; }

  // Until the time is over, or close().
  Task<> serve();
  void close() { host_.close(); }

 private:
  Clock& clock_;
  Time closes_;
  wire::Ticket ticket_;
  net::Host host_;
  net::Relay relay_;
};

}  // namespace rookery::measure
