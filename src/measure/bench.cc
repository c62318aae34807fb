#include "measure/bench.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "measure/peer.h"

namespace rookery::measure {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

void check(const BenchOptions& o) {
  if (o.peers < 2 || o.peers > 64) throw InputError("--peers is {}, but must be from 2 to 64", o.peers);
  if (o.operation == Operation::kLink && o.peers != 2) throw InputError("bench link needs --peers 2");
  if (o.operation == Operation::kExchange && o.peers % 2 != 0) {
    throw InputError("bench exchange needs pairs; --peers is {}", o.peers);
  }
  if (o.bytes < 4) throw InputError("--size is {} bytes, but a float has 4", o.bytes);
  if (o.iterations == 0) throw InputError("--iterations is 0");
  if (o.transport == TransportChoice::kShm && o.tls) {
    throw InputError("--tls encrypts sockets; shared memory has none: use --transport tcp, or leave it out");
  }
  if (o.transport == TransportChoice::kShm && o.lanes > 1) {
    throw InputError("--lanes is for sockets; use --transport tcp, or leave it out");
  }
}

std::optional<double> limit_seconds(const BenchOptions& o) {
  if (o.line.bandwidth == 0) return std::nullopt;
  const double wire_bytes =
      static_cast<double>(collective::encoded_bytes(o.codec, static_cast<std::size_t>(o.bytes) / sizeof(float)));
  const auto peers = static_cast<double>(o.peers);
  const double share = o.operation == Operation::kAllReduce ? 2 * (peers - 1) / peers : 1;
  return 8 * wire_bytes * share / o.line.bandwidth;
}

// Where each peer can be reached, for all of them.
void introduce(std::vector<Subprocess>& peers) {
  json addresses = json::array();
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const auto said = peers[i].control().receive(kPatience);
    if (!said) throw Error("{} did not start", peer_name(i));
    addresses.push_back(json::parse(*said));
  }
  for (Subprocess& peer : peers) peer.control().send(addresses.dump());
}

// Once one has failed, the others learn it from their links, and have said so soon after the deadline; who has not is
// the one that failed.
void gather(std::vector<Subprocess>& peers, const BenchOptions& options, std::vector<json>& reports,
            BenchResult& result) {
  using Steady = std::chrono::steady_clock;
  auto last_call = Steady::time_point::max();
  std::vector<bool> heard(peers.size());
  while (std::ranges::count(heard, true) < static_cast<std::ptrdiff_t>(peers.size()) && Steady::now() < last_call) {
    for (std::size_t i = 0; i < peers.size(); ++i) {
      if (heard[i]) continue;
      std::optional<std::string> said;
      try {
        said = peers[i].control().receive(milliseconds(100));
        if (!said) continue;
        const json report = json::parse(*said);
        if (report.contains("failure")) {
          result.failures.push_back({peer_name(i), report.at("failure").get<std::string>()});
        } else {
          reports.push_back(report);
        }
      } catch (const Error&) {
        result.failures.push_back({peer_name(i), "its process ended"});
      }
      heard[i] = true;
      if (!result.failures.empty() && last_call == Steady::time_point::max()) {
        last_call = Steady::now() + 2 * options.deadline + std::chrono::seconds(1);
      }
    }
  }
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (!heard[i]) result.failures.push_back({peer_name(i), "does not answer"});
  }
}

}  // namespace

double quantile(const std::vector<double>& ascending, double share) {
  ROOKERY_CHECK(!ascending.empty());
  const double at = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(at), above = std::min(below + 1, ascending.size() - 1);
  const double part = at - std::floor(at);
  return (1 - part) * ascending[below] + part * ascending[above];
}

BenchResult run_bench(const BenchOptions& options) {
  check(options);
  std::vector<Subprocess> peers;
  for (std::size_t rank = 0; rank < options.peers; ++rank) {
    peers.emplace_back([&](ControlSocket& control) { return run_peer(control, options, rank); });
  }
  BenchResult result;
  std::vector<json> reports;
  introduce(peers);
  gather(peers, options, reports, result);
  for (Subprocess& peer : peers) {
    try {
      peer.control().send("end");
    } catch (const Error&) {
      continue;  // has ended already
    }
  }
  for (Subprocess& peer : peers) peer.wait(std::chrono::seconds(2));  // whoever is left is killed
  if (!result.failures.empty()) return result;

  result.seconds.resize(options.iterations);
  for (const json& report : reports) {
    const auto seconds = report.at("seconds").get<std::vector<double>>();
    for (std::size_t i = 0; i < seconds.size(); ++i) result.seconds[i] = std::max(result.seconds[i], seconds[i]);
    if (report.contains("latency")) result.latency_seconds = report.at("latency").get<double>();
  }
  std::ranges::sort(result.seconds);
  result.limit_seconds = limit_seconds(options);
  return result;
}

}  // namespace rookery::measure
