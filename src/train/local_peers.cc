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
constexpr std::chrono::seconds kUntilParentEnds(60);  // to return to the coordinator after a freeze

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

int live(const std::string& orders) {
  const json order = json::parse(orders);
  std::signal(kCutSignal, SIG_IGN);  // until there is something to cut
  log_to(order.at("log").get<std::string>(), LogTo::kFileOnly);
  JoinOptions options{.ticket = wire::parse_ticket(order.at("ticket").get<std::string>()),
                      .name = order.at("name"),
                      .memory = order.at("memory"),
                      .threads = order.at("threads"),
                      .computer = order.at("host"),
                      .patience = kUntilParentEnds,
                      .bears_cuts = true,
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

int live_when_told(ControlSocket& control) {
  std::signal(SIGINT, SIG_IGN);  // the parent decides when to end
  std::signal(SIGTERM, SIG_DFL);
  const auto orders = control.receive(kUntilReady);
  return orders ? live(*orders) : 1;
}

// Starts a process for each message with its orders, and answers with its number.
int nurse(ControlSocket& control) {
  constexpr std::chrono::milliseconds kLookAround(200);
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_DFL);
  std::vector<Subprocess> started;
  for (;;) {
    const auto orders = control.receive(kLookAround);  // throws when the parent has gone
    std::vector<Subprocess> running;
    for (Subprocess& process : started) {
      if (!process.has_ended()) running.push_back(std::move(process));
    }
    started = std::move(running);
    if (!orders) continue;
    started.emplace_back([&orders](ControlSocket&) { return live(*orders); });
    control.send(std::to_string(started.back().pid()));
  }
}

}  // namespace

std::string local_peer_name(std::size_t i, std::size_t count) {
  return fmt::format("peer-{:0{}}", i, fmt::formatted_size("{}", count - 1));
}

LocalPeers::LocalPeers(std::size_t count, bool may_return) {
  processes_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) processes_.emplace_back(live_when_told);
  if (may_return) nursery_.emplace(nurse);
}

void LocalPeers::join(const wire::Ticket& ticket, const config::Settings& settings, const RunDirectory& directory,
                      bool trace) {
  std::filesystem::create_directories(directory.peers());
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    orders_.push_back(orders(i, ticket, settings, directory, trace).dump());
    processes_[i].control().send(orders_.back());
  }
}

bool LocalPeers::has_ended(std::size_t peer) {
  const auto successor = successors_.find(peer);
  return successor == successors_.end() ? processes_.at(peer).has_ended() : !is_running(successor->second);
}

void LocalPeers::send_signal(std::size_t peer, int number) {
  if (has_ended(peer)) return;
  const auto successor = successors_.find(peer);
  ::kill(successor == successors_.end() ? processes_[peer].pid() : successor->second, number);
}

void LocalPeers::start_again(std::size_t peer) {
  constexpr std::chrono::seconds kPatience(30);
  ROOKERY_CHECK(nursery_ && peer < orders_.size() && has_ended(peer));
  nursery_->control().send(orders_[peer]);
  const auto answer = nursery_->control().receive(kPatience);
  if (!answer) throw Error("{} could not be started again", name(peer));
  successors_[peer] = static_cast<pid_t>(std::stol(*answer));
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
  constexpr std::chrono::milliseconds kLookAgain(20);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const auto all_have_ended = [&] {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (!has_ended(i)) return false;
    }
    return true;
  };
  while (!all_have_ended() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(kLookAgain);
}

}  // namespace rookery::train
