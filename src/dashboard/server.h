#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "dashboard/site.h"

namespace rookery::dashboard {

struct ServerOptions {
  std::string listen;                // HOST:PORT
  std::string certificate{}, key{};  // in PEM; where both are empty, nothing is encrypted
  std::size_t most_connections = 128;
  Duration patience = std::chrono::seconds(10);    // with whoever is to ask for something, or to take an answer
  Duration tick = std::chrono::milliseconds(250);  // between two updates
  Duration heartbeat = std::chrono::seconds(2);    // at the latest, for those who look on
};

// Answers over HTTP what a site answers, and keeps those up to date who look on over a WebSocket: all are sent the same
// updates, made once, and only while somebody looks. Whoever does not keep up misses updates, and gets everything anew.
//
// Memory and connections have a bound: when there are too many, the one that has waited longest for its next question
// makes room; if all look on, whoever comes is turned away.
//
// Confined to the clock's executor. The view outlives it.
class Server {
 public:
  // Throws InputError if it cannot listen there, or the certificate is of no use.
  Server(Clock& clock, ServerOptions options, View& view, std::function<double()> seconds, Site site);
  ~Server();  // those who look on are told that it is over
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  unsigned port() const;

  // Sends what has changed now, instead of at the next tick.
  void flush();

  // Flushes, ends all connections politely, and returns when they have ended, or after a second.
  Task<> close();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::dashboard
