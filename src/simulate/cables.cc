#include "simulate/cables.h"

#include <algorithm>
#include <cmath>

#include "net/memory/memory_pipe.h"
#include "train/wiring.h"

namespace rookery::simulate {
namespace {

constexpr int kSilence = 10;  // heartbeats without a word

// Of lines where small messages stand for large ones: how long a piece keeps the line, which is at least of such a
// size.
constexpr Duration kScaledTurn = std::chrono::milliseconds(50);
constexpr double kScaledPiece = 1024;

void add(const net::Traffic& traffic, net::Traffic& sum) {
  sum.sent += traffic.sent;
  sum.received += traffic.received;
  sum.payload_sent += traffic.payload_sent;
  sum.payload_received += traffic.payload_received;
}

BitsPerSecond bits(double bytes_per_second) { return std::isfinite(bytes_per_second) ? 8 * bytes_per_second : 0; }

}  // namespace

Cables::Cables(Clock& clock, const plan::Swarm& swarm, CablesOptions options)
    : clock_(clock),
      swarm_(swarm),
      options_(options),
      ends_(swarm.peers.size()),
      lines_(swarm.peers.size()),
      ended_(swarm.peers.size()) {
  std::map<std::string, std::shared_ptr<net::Card>> by_host;
  for (const plan::Peer& peer : swarm.peers) {
    auto card = std::make_shared<net::Card>(net::Card{.bandwidth = bits(peer.uplink)});
    cards_.push_back(peer.host.empty() ? card : by_host.emplace(peer.host, card).first->second);
  }
}

std::shared_ptr<net::Line> Cables::line(std::size_t from, std::size_t to) {
  const plan::Link link = swarm_.link(from, to);
  net::LineOptions options{.bandwidth = bits(link.bandwidth),
                           .latency = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(link.latency)),
                           .scale = options_.scale};
  if (options_.scale > 1) {
    const std::chrono::duration<double> piece(kScaledPiece * options_.scale / link.bandwidth);
    options.turn = std::max(kScaledTurn, std::chrono::duration_cast<Duration>(piece));
  }
  return std::make_shared<net::Line>(options, options_.seed + from * swarm_.peers.size() + to,
                                     swarm_.are_together(from, to) ? nullptr : cards_[from]);
}

net::Link* Cables::link(std::size_t from, std::size_t to) {
  auto& end = ends_[from][to];
  if (end) return end.get();
  lines_[from][to] = line(from, to);
  lines_[to][from] = line(to, from);
  auto [one, other] = net::make_memory_pipes(clock_, lines_[from][to], lines_[to][from]);
  const auto make = [&](std::unique_ptr<net::Pipe> pipe, std::size_t peer) {
    std::vector<std::unique_ptr<net::Pipe>> pipes;
    pipes.push_back(std::move(pipe));
    return net::make_link(
        clock_, std::move(pipes),
        {.peer = swarm_.peers[peer].name, .heartbeat = options_.heartbeat, .silence = kSilence * options_.heartbeat});
  };
  ends_[to][from] = make(std::move(other), from);
  end = make(std::move(one), to);
  return end.get();
}

void Cables::cut(std::size_t peer) {
  const net::LinkError reason(net::Failure::kClosed, swarm_.peers[peer].name, "was lost");
  for (auto& [other, link] : ends_[peer]) {
    const auto theirs = ends_[other].find(peer);
    if (theirs == ends_[other].end()) continue;
    add(traffic_of(*theirs->second), ended_[other]);
    theirs->second->close(reason);
    ends_[other].erase(theirs);
    lines_[other].erase(peer);
  }
  ends_[peer].clear();
  lines_[peer].clear();
  ended_[peer] = {};
}

void Cables::hold(std::size_t peer, Time until) {
  for (const auto& [other, line] : lines_[peer]) {
    line->hold(until);
    lines_[other].at(peer)->hold(until);
  }
}

// By the scale; headers and pings count as they are.
net::Traffic Cables::traffic_of(const net::Link& link) const {
  const auto scaled = [&](std::uint64_t bytes) {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * options_.scale);
  };
  const net::Traffic own = train::training_traffic(link);
  return {.sent = scaled(own.payload_sent) + (own.sent - own.payload_sent),
          .received = scaled(own.payload_received) + (own.received - own.payload_received),
          .payload_sent = scaled(own.payload_sent),
          .payload_received = scaled(own.payload_received)};
}

net::Traffic Cables::traffic(std::size_t peer) const {
  net::Traffic all = ended_[peer];
  for (const auto& [other, link] : ends_[peer]) add(traffic_of(*link), all);
  return all;
}

}  // namespace rookery::simulate
