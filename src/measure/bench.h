#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "collective/codec.h"
#include "net/line.h"

namespace rookery::measure {

// Benchmarks of links and collectives between processes of this machine, over the transports that a swarm uses.

enum class Operation {
  kAllReduce,  // over a ring of all peers
  kExchange,   // gossip: pairs of peers, all at the same time
  kLink,       // from one peer to the other, one way
};

enum class TransportChoice { kAuto, kTcp, kShm };

struct BenchOptions {
  Operation operation = Operation::kAllReduce;
  std::size_t peers = 2;
  Bytes bytes = 64 << 20;  // of floats, on every peer
  collective::Codec codec = collective::Codec::kNone;
  TransportChoice transport = TransportChoice::kAuto;
  std::uint32_t lanes = 1;
  bool tls = false;
  net::LineOptions line{};  // how links are shaped
  std::size_t iterations = 10;
  Duration deadline = std::chrono::seconds(5);  // how long a peer may be silent
};

// Why a peer could not go on, as it said itself.
struct PeerFailure {
  std::string peer;
  std::string why;
};

struct BenchResult {
  std::vector<double> seconds;              // of each iteration: the slowest peer's, in ascending order
  std::optional<double> latency_seconds{};  // one way, of an empty message; for kLink
  std::optional<double> limit_seconds{};    // what a line of that bandwidth would need at least
  std::vector<PeerFailure> failures{};      // if there are any, there is nothing else
};

// Forks the peers, measures, and ends them all. Every result is checked by every peer. Throws InputError if the options
// do not fit together. Requires: no other thread runs.
BenchResult run_bench(const BenchOptions& options);

// The value below which a share of ascending values lies.
double quantile(const std::vector<double>& ascending, double share);

}  // namespace rookery::measure
