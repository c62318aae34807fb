#include "train/join.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop_thread.h"
#include "base/real_world.h"
#include "base/subprocess.h"
#include "net/tcp/route.h"
#include "net/tcp/tcp_transport.h"
#include "swarm/peer.h"
#include "train/own_key.h"
#include "train/peer_work.h"
#include "train/run_directory.h"
#include "wire/handshake.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;

// The same on all peers of this computer, and on no other.
std::string this_computer() {
  std::string id = computer_name();
  try {
    id = read_file("/etc/machine-id", 1024) + id;
  } catch (const InputError&) {
    // Not every system has one.
  }
  return digest(std::as_bytes(std::span(id))).substr(0, 16);
}

// The name of a folder for this process alone, which is made when there is something to put there. Those of processes
// of this computer that are gone are removed on the occasion; others may have the same home.
fs::path scratch_folder(const fs::path& cache) {
  const std::string prefix = fmt::format("scratch-{}-", this_computer());
  std::error_code ignored;
  fs::create_directories(cache);
  for (const fs::directory_entry& entry : fs::directory_iterator(cache)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const auto pid = static_cast<pid_t>(std::strtol(name.c_str() + prefix.size(), nullptr, 10));
    if (!is_running(pid)) fs::remove_all(entry.path(), ignored);
  }
  std::string folder = (cache / fmt::format("{}{}-XXXXXX", prefix, ::getpid())).string();
  if (::mkdtemp(folder.data()) == nullptr) throw InputError("{}: cannot be made: {}", folder, std::strerror(errno));
  fs::remove(folder, ignored);
  return folder;
}

// Where other peers can reach this one: from everywhere, unless the coordinator is on this computer alone.
std::string listening_address(const wire::Ticket& ticket) {
  const auto is_here = [](const std::string& address) {
    const std::string host = net::parse_host_port(address).host;
    return host == "localhost" || net::is_loopback(host);
  };
  const bool alone = std::ranges::all_of(ticket.addresses, is_here);
  return net::join_host_port(alone ? "127.0.0.1" : "0.0.0.0", 0);
}

constexpr int kMostLives = 100;  // without training, after which it is not only the network that is to blame

// Whenever the signal comes, as long as the set lasts. `work`: of the life that is under way, if one is.
void cut_when_told(boost::asio::signal_set& cuts, PeerWork* const& work) {
  cuts.async_wait([&cuts, &work](const boost::system::error_code& error, int) {
    if (error) return;
    if (work != nullptr) work->cut_a_link();
    cut_when_told(cuts, work);
  });
}

constexpr Duration kTryAgain = std::chrono::seconds(1);

// One life in the swarm. `known`: points to its work meanwhile.
void live(RealWorld& world, net::Host& host, const JoinOptions& options, const swarm::PeerOptions& peer,
          const std::shared_ptr<Keepsake>& keepsake, PeerWork*& known) {
  const fs::path cache = options.cache.empty() ? user_cache() : options.cache;
  PeerWork work(world.clock(), {.name = options.name,
                                .threads = options.threads,
                                .device = options.device,
                                .pace = options.pace,
                                .fault = options.fault,
                                .memory = options.memory,
                                .cache = cache / "data",
                                .profiles = cache / "profiles",
                                .show = options.show,
                                .scratch = scratch_folder(cache),
                                .trace = options.trace,
                                .keepsake = keepsake});
  const struct Known {
    ~Known() { work = nullptr; }
    PeerWork*& work;
  } forgets{known};
  known = &work;
  world.run(swarm::take_part(world.clock(), host, peer, work));
}

// Another peer in this process, besides so many others. What its memory may be is for all of them.
JoinOptions stand_in_for(const JoinOptions& options, std::size_t others) {
  JoinOptions other = options;
  other.name = fmt::format("{}-{}", options.name, others + 2);
  other.stands_in = true;
  other.bears_cuts = false;
  other.show = {};
  other.trace.clear();
  return other;
}

void stand_in(const JoinOptions& options) {
  spdlog::info("nobody comes for a place that is free: joining once more, as {}", options.name);
  try {
    join(options);
  } catch (const std::exception& error) {
    spdlog::warn("{}: {}", options.name, error.what());
  }
}

}  // namespace

std::string computer_name() {
  char name[65] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "peer";
  std::string text;
  for (const char c : std::string_view(name)) text += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
  return wire::is_name(text) ? text : "peer";
}

void join(const JoinOptions& options) {
  RealWorld world;
  const auto transport = net::make_tcp_transport(world.clock());
  net::HostOptions host_options{.name = options.name, .encrypt = options.encrypt};
  host_options.shaping = options.shaping;
  const OwnKey key((options.cache.empty() ? user_cache() : options.cache) / "keys", options.name);
  net::Host host(world.clock(), *transport, key.identity(), host_options);
  host.listen(listening_address(options.ticket), [](const net::Guest&) {});

  swarm::PeerOptions peer{.ticket = options.ticket,
                          .addresses = net::dialable_addresses(host.address(), wire::kMaxAddresses),
                          .memory = static_cast<std::uint64_t>(options.memory),
                          .computer = options.computer.empty() ? this_computer() : options.computer,
                          .patience = options.patience};
  LoopThread aside;
  peer.aside = [&aside](std::function<void()> long_work) { return aside.call(std::move(long_work)); };
  std::vector<std::jthread> stand_ins;
  peer.stands_in = options.stands_in;
  peer.stand_in = [&] { stand_ins.emplace_back(stand_in, stand_in_for(options, stand_ins.size())); };
  const auto keepsake = std::make_shared<Keepsake>();
  PeerWork* work = nullptr;
  boost::asio::signal_set cuts(world.executor());
  if (options.bears_cuts) {
    cuts.add(kCutSignal);
    cut_when_told(cuts, work);
  }
  std::optional<Time> displaced;
  for (int lives = 0; lives < kMostLives; ++lives) {
    try {
      live(world, host, options, peer, keepsake, work);
      return host.close();
    } catch (const swarm::Displaced& error) {
      if (error.has_trained()) lives = 0;
      if (options.stands_in || lives + 1 == kMostLives) throw;
      displaced = world.clock().now();
      spdlog::warn("this peer's part is over for now ({}); joining again", error.what());
      world.run(world.clock().sleep_for(kTryAgain));
    } catch (const swarm::NotMet& error) {
      if (!displaced || world.clock().now() >= *displaced + options.patience) throw;
      spdlog::info("{}; trying again", error.what());
      --lives;
      world.run(world.clock().sleep_for(kTryAgain));
    }
  }
}

}  // namespace rookery::train
