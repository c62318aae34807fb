#include "train/local_peers.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "observe/trace.h"
#include "train/join.h"

namespace rookery::train {
namespace {

using nlohmann::json;

// How long it may take until it is known what to train. Whoever waits goes with its parent.
constexpr std::chrono::hours kUntilReady(24);

json orders(std::size_t i, const wire::Ticket& ticket, const config::Settings& settings, const RunDirectory& directory,
            bool trace) {
  const auto count = static_cast<std::size_t>(settings.swarm.peers);
  const config::Peer peer = i < settings.peers.size() ? settings.peers[i] : config::Peer{};
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const std::string name = local_peer_name(i, count);
  return {{"ticket", wire::to_text(ticket)},
          {"name", name},
          {"log", (directory.peers() / (name + ".log")).string()},
          {"memory", peer.memory.value_or(0)},
          {"threads", settings.train.threads > 0 ? settings.train.threads
                                                 : std::max<std::int64_t>(1, cores / settings.swarm.peers)},
          {"speed", peer.speed},
          {"jitter", peer.jitter},
          {"step_time", peer.step_time.count()},
          {"host", peer.host},
          {"fault", peer.fault},
          {"trace", trace ? directory.peer_trace(name).string() : ""},
          {"bandwidth", settings.network.bandwidth.value_or(0)},
          {"latency", settings.network.latency.count()},
          {"network_jitter", settings.network.jitter.count()},
          {"loss", settings.network.loss}};
}

int live(ControlSocket& control) {
  std::signal(SIGINT, SIG_IGN);  // the parent decides when to end
  std::signal(SIGTERM, SIG_DFL);
  const auto text = control.receive(kUntilReady);
  if (!text) return 1;
  const json order = json::parse(*text);
  log_to(order.at("log").get<std::string>(), LogTo::kFileOnly);
  JoinOptions options{.ticket = wire::parse_ticket(order.at("ticket").get<std::string>()),
                      .name = order.at("name"),
                      .memory = order.at("memory"),
                      .threads = order.at("threads"),
                      .computer = order.at("host"),
                      .trace = order.at("trace").get<std::string>()};
  options.pace = {.speed = order.at("speed"),
                  .jitter = order.at("jitter"),
                  .step_time = std::chrono::nanoseconds(order.at("step_time").get<std::int64_t>())};
  options.fault = sync::parse_fault(order.at("fault").get<std::string>());
  options.shaping = {.bandwidth = order.at("bandwidth"),
                     .latency = std::chrono::nanoseconds(order.at("latency").get<std::int64_t>()),
                     .jitter = std::chrono::nanoseconds(order.at("network_jitter").get<std::int64_t>()),
                     .loss = order.at("loss")};
  try {
    join(options);
    return 0;
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return 1;
  }
}

}  // namespace

std::string local_peer_name(std::size_t i, std::size_t count) {
  return fmt::format("peer-{:0{}}", i, fmt::formatted_size("{}", count - 1));
}

LocalPeers::LocalPeers(std::size_t count) {
  processes_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) processes_.emplace_back(live);
}

void LocalPeers::join(const wire::Ticket& ticket, const config::Settings& settings, const RunDirectory& directory,
                      bool trace) {
  std::filesystem::create_directories(directory.peers());
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    processes_[i].control().send(orders(i, ticket, settings, directory, trace).dump());
  }
}

void LocalPeers::join_traces(const RunDirectory& directory) const {
  std::vector<std::filesystem::path> traces;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    traces.push_back(directory.peer_trace(local_peer_name(i, processes_.size())));
  }
  observe::join_traces(traces, directory.trace());
  for (const std::filesystem::path& trace : traces) std::filesystem::remove(trace);
}

void LocalPeers::check() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].has_ended()) continue;
    throw Error("{} has ended before the run began; see peers/{}.log in the run's directory",
                local_peer_name(i, processes_.size()), local_peer_name(i, processes_.size()));
  }
}

void LocalPeers::wait(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (Subprocess& process : processes_) {
    if (process.has_ended()) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    process.wait(std::max(left, std::chrono::milliseconds(0)));
  }
}

}  // namespace rookery::train
