#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/line.h"
#include "net/memory/memory_pipe.h"
#include "net/transport.h"

namespace rookery::net {

// A network between hosts that have only names, on any clock: with perfect lines a transport within the process, with
// others a model of any network, faults included. Deterministic from its seed. Confined to one executor; outlives its
// transports.
class VirtualNetwork {
 public:
  VirtualNetwork(Clock& clock, std::uint64_t seed) : clock_(clock), seed_(seed) {}

  // How lines behave that are made from now on: all of them, or those from one host to another.
  void set_lines(const LineOptions& options) { lines_ = options; }
  void set_line(const std::string& from, const std::string& to, const LineOptions& options);

  // The network as a host sees it. It listens and is dialled under its name: addresses are "HOST" or "HOST:ANYTHING".
  std::unique_ptr<Transport> transport(const std::string& host);

  // Nothing gets from one host to another, until it is mended. Connections stay, and hear nothing.
  void cut(const std::string& from, const std::string& to, bool is_cut = true);

  // A host that is frozen neither sends nor hears.
  void freeze(const std::string& host, bool frozen = true);

  // All connections of a host break; nobody reaches it any more, until it is started again.
  void crash(const std::string& host, bool crashed = true);

 private:
  class HostTransport;
  class HostListener;
  class TrackedPipe;

  struct Connection {
    std::string from, to;
    std::weak_ptr<MemoryPipe> from_end, to_end;
  };

  bool is_cut(const std::string& from, const std::string& to) const;
  void apply_cuts();
  std::shared_ptr<Line> make_line(const std::string& from, const std::string& to);
  std::unique_ptr<Pipe> connect(const std::string& from, const std::string& to);

  Clock& clock_;
  std::uint64_t seed_;
  std::uint64_t lines_made_ = 0;
  LineOptions lines_;
  std::map<std::pair<std::string, std::string>, LineOptions> special_lines_;
  std::set<std::pair<std::string, std::string>> cuts_;
  std::set<std::string> frozen_, crashed_;
  std::vector<Connection> connections_;
  std::map<std::string, HostListener*> listeners_;
};

}  // namespace rookery::net
