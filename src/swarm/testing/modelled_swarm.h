#pragma once

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <malloc.h>
#include <map>
#include <set>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/testing/seeds.h"
#include "base/units.h"
#include "base/virtual_world.h"
#include "net/virtual/virtual_network.h"
#include "swarm/coordinator.h"
#include "swarm/peer.h"
#include "swarm/talk.h"

namespace rookery::swarm::testing {

using namespace std::chrono_literals;

constexpr net::ChannelId kTogether{.purpose = 9};

// Modelled training: in every step each peer computes for a while, and waits for a word from every other of those whose
// clusters are whole. When its own is not, it waits until it is again.
class ModelledWork : public Work {
 public:
  ModelledWork(Clock& clock, std::uint64_t steps) : clock_(clock), steps_(steps) {}

  Task<wire::Ready> prepare(wire::Assignment assignment, Files& coordinator) override {
    co_await clock_.sleep_for(20ms);
    if (!cannot.empty()) throw Error("{}", cannot);
    settings = assignment.settings;
    for (const wire::FileFacts& file : assignment.data) {
      auto fetching = coordinator.fetch(file, folder / file.name);
      co_await std::move(fetching);
    }
    files_ = &coordinator;
    co_return wire::Ready{.data = data, .model = "model", .parameters = 100};
  }

  Task<wire::Ended> train(Part part, Report report) override {
    rank = part.rank;
    plan = part.plan;
    compare(plan);
    links_ = part.links;
    begun = plan.first_step;
    for (std::uint64_t step = begun + 1; step <= steps_;) {
      if (!is_whole(rank)) {
        auto waiting = wait_until_whole(report);
        co_await std::move(waiting);
        if (!is_whole(rank)) break;  // the run is over
        step = plan.peers[rank].from + 1;
        begun = std::max(begun, step - 1);
        continue;
      }
      while (halted && !end) {
        auto waiting = changed_.wait();
        co_await std::move(waiting);
      }
      if (end && step > *end) break;
      if (save_after && step > *save_after) {
        if (*std::exchange(save_after, std::nullopt) == steps_done) saved.push_back(steps_done);
        continue;
      }
      if (!halted && hold_after && step > *hold_after) {
        auto waiting = changed_.wait();
        co_await std::move(waiting);
        continue;
      }
      begun = step;
      co_await clock_.sleep_for(10ms);
      for (const std::uint32_t generation = plan.generation; step == stalls_at && plan.generation == generation;) {
        auto waiting = changed_.wait();
        co_await std::move(waiting);
      }
      auto meeting = meet_all(step);
      co_await std::move(meeting);
      if (!is_whole(rank)) continue;  // this step is lost
      steps_done = step++;
      if (!suspects.empty() && steps_done % suspects_every == 0)
        report(wire::Suspected{.culprit = suspects, .text = "brought nonsense"});
      report(wire::StepReport{.step = steps_done, .loss = 1.0 / static_cast<double>(steps_done)});
    }
    if (!checkpoint.empty()) {
      const wire::FileFacts facts = facts_of(checkpoint, "model");
      files_->offer(facts, checkpoint);
      report(wire::Saved{.step = steps_done, .files = {facts}});
      while (!is_kept) {
        auto waiting = changed_.wait();
        co_await std::move(waiting);
      }
    }
    co_return wire::Ended{.rounds = steps_done};
  }

  void changed(const wire::Plan& next) override {
    EXPECT_GT(next.generation, plan.generation);
    compare(next);
    plan = next;
    for (auto& [other, channel] : channels_) {  // nobody waits for those who have stopped, or begin anew
      if (is_whole(rank) && is_whole(other) && channel.first.second == meeting_generation(other)) continue;
      channel.second->close(net::LinkError(net::Failure::kCancelled, "", "a cluster is not whole"));
    }
    changed_.notify();
  }

  std::uint64_t halt() override {
    halted = true;
    changed_.notify();
    return begun;
  }

  void end_at(std::uint64_t step) override {
    end = std::max(step, begun);
    changed_.notify();
  }

  std::uint64_t hold() override {
    if (is_whole(rank)) begun = std::max(begun, plan.peers[rank].from);
    hold_after = begun;
    return begun;
  }

  void release(std::optional<std::uint64_t> save, bool holds_again) override {
    if (save && hold_after) {
      EXPECT_LE(begun, *save) << "it has gone beyond what is to be saved";
    }
    if (save && begun <= *save) save_after = save;  // else it is told so once more
    hold_after = holds_again ? save : std::nullopt;
    changed_.notify();
  }

  void kept(std::uint64_t) override {
    is_kept = true;
    changed_.notify();
  }

  void away() override { is_away = true; }

  // A cluster that has stopped, or has what it needs, says so again.
  void returned(Files& coordinator) override {
    files_ = &coordinator;
    is_away = false;
    ++returns;
    paused_in = restored_in = 0;
    changed_.notify();
  }

  void abandon() override {
    end_at(halt());
    kept(0);
  }

  std::string data = "data", cannot{}, settings{};
  std::filesystem::path folder{}, checkpoint{};  // where fetched files go; what it saves at the end
  std::size_t rank = 0;
  std::uint64_t steps_done = 0, begun = 0;
  bool halted = false, is_kept = false, is_away = false;
  std::size_t returns = 0;  // of the coordinator
  std::optional<std::uint64_t> end{}, hold_after{}, save_after{};
  std::vector<std::uint64_t> saved{};  // steps after which it was asked for a checkpoint
  wire::Plan plan{};
  bool goes_on = false;                                  // without those who were lost
  std::uint32_t paused_in = 0, restored_in = 0;          // generations
  std::string suspects{};                                // whom it suspects
  std::uint64_t suspects_every = 1;                      // so many steps
  std::uint64_t stalls_at = 0;                           // a step in which it does nothing until there is another plan
  std::map<std::uint32_t, wire::Plan>* plans = nullptr;  // that anybody has heard, by generation

 private:
  // With what others have heard.
  void compare(const wire::Plan& heard) const {
    if (plans == nullptr) return;
    EXPECT_EQ(plans->emplace(heard.generation, heard).first->second, heard) << "another plan of this generation";
  }

  bool is_whole(std::size_t peer) const {
    const std::uint32_t cluster = plan.peers[peer].cluster;
    return std::ranges::all_of(plan.peers, [&](const auto& other) { return other.cluster != cluster || other.here; });
  }

  Task<> wait_until_whole(Report report) {
    while (!is_whole(rank) && !halted) {
      const wire::PlannedPeer& own = plan.peers[rank];
      if (own.restores && std::exchange(restored_in, own.since) != own.since) {
        report(wire::Restored{.generation = own.since});
      } else if (!own.restores && std::exchange(paused_in, own.since) != own.since) {
        report(wire::Paused{.generation = plan.generation});
      }
      auto waiting = changed_.wait();
      co_await std::move(waiting);
    }
  }

  std::uint32_t meeting_generation(std::size_t other) const { return plan.peers[rank].since + plan.peers[other].since; }

  bool meets(std::size_t other, std::uint64_t step) const {
    return is_whole(rank) && is_whole(other) && plan.peers[other].from < step;
  }

  // All at once, and also those of whom it hears meanwhile.
  Task<> meet_all(std::uint64_t step) {
    TaskGroup meetings(clock_.executor());
    for (std::set<std::size_t> met;;) {
      for (std::size_t other = 0; other < plan.peers.size(); ++other) {
        if (other != rank && meets(other, step) && met.insert(other).second) {
          ++under_way_;
          meetings.spawn(catch_up_with(other, step));
        }
      }
      if (under_way_ == 0) break;
      auto waiting = changed_.wait();
      co_await std::move(waiting);
    }
    auto joined = meetings.join();
    co_await std::move(joined);
  }

  // Whoever has come is met in all steps since, though this one has heard of it too late.
  Task<> catch_up_with(std::size_t other, std::uint64_t step) {
    struct Notice {
      ~Notice() {
        --work.under_way_;
        work.changed_.notify();
      }
      ModelledWork& work;
    } const notice{*this};
    std::uint64_t& last = met_until_[other];
    last = std::max({last, plan.first_step, plan.peers[rank].from, plan.peers[other].from});
    while (last < step && meets(other, step)) {
      auto meeting = meet(other, last + 1);
      co_await std::move(meeting);
      ++last;
    }
  }

  // In another generation they try again.
  Task<> meet(std::size_t other, std::uint64_t step) {
    for (bool has_met = false; !has_met && other != rank && meets(other, step);) {
      auto meeting = meet_once(other, step);
      has_met = co_await std::move(meeting);
    }
  }

  // False if it could not; then one of them is not there any more, or begins anew.
  Task<bool> meet_once(std::size_t other, std::uint64_t step) {
    const std::uint32_t generation = meeting_generation(other);
    std::optional<net::LinkError> failure;
    try {
      net::Link* link = links_->at(other);
      if (link == nullptr) throw net::LinkError(net::Failure::kClosed, "", "is not there yet");
      auto& [of, channel] = channels_[other];
      // Whoever begins again does not hear what was meant for it before.
      net::ChannelId id = kTogether;
      id.generation = meeting_generation(other);
      if (of != std::pair(link, id.generation)) channel = link->open(id);
      of = {link, id.generation};
      auto sending = channel->send({.tag = step});
      co_await std::move(sending);
      auto receiving = channel->receive();
      const net::Message message = co_await std::move(receiving);
      EXPECT_EQ(message.label.tag, step);
    } catch (const net::LinkError& error) {
      failure = error;
    }
    Time deadline = clock_.now() + 60s;
    const auto is_met = [&] { return meets(other, step) && meeting_generation(other) == generation; };
    while (failure && goes_on && is_met() && clock_.now() < deadline && !end) {
      if (is_away) deadline = clock_.now() + 60s;
      auto waiting = changed_.wait_until(clock_, deadline);
      co_await std::move(waiting);
    }
    if (failure && is_met()) throw net::LinkError(*failure);
    co_return !failure;
  }

  Clock& clock_;
  std::uint64_t steps_;
  Files* files_ = nullptr;
  const std::vector<net::Link*>* links_ = nullptr;
  std::map<std::size_t, std::pair<std::pair<net::Link*, std::uint32_t>, std::unique_ptr<net::Channel>>> channels_;
  std::size_t under_way_ = 0;                       // meetings
  std::map<std::size_t, std::uint64_t> met_until_;  // others, and the last step in which it has met them
  Signal changed_;
};

// Writes down what it sees, and says it if the environment has ROOKERY_TELL: for looking into a seed that has failed.
class Witness : public Watcher {
 public:
  explicit Witness(Clock* clock = nullptr) : clock_(clock) {}

  void joined(const wire::Introduction& peer) override {
    tell("joined", peer.contact.name);
    who_joined.push_back(peer.contact.name);
  }
  void ready(const std::string& peer, const wire::Ready&) override { tell("ready", peer); }
  void restores(const std::string& peer) override { tell("restores", peer); }
  void restored(const std::string& peer) override { tell("restored", peer); }
  void refused(const std::string& peer, const std::string& why) override {
    tell("refused", peer, why);
    refusals[peer] = why;
  }
  void left(const std::string& peer, const std::string& why) override {
    tell("left", peer, why);
    who_left.push_back(peer);
  }
  void planned(const wire::Plan& p) override {
    tell("planned", fmt::format("generation {}, {} peers", p.generation, p.peers.size()));
    plan = p;
    steps.clear();
    clusters.clear();
    for (const wire::PlannedPeer& place : p.peers) steps[place.contact.name] = p.first_step;
  }
  void held() override {
    tell("held");
    steps_when_held.clear();
    for (const auto& [name, step] : steps) steps_when_held.push_back(step);
  }
  void stuck() override {
    tell("stuck");
    was_stuck = true;
  }
  void moves() override {
    tell("moves");
    has_moved = true;
  }
  void moved(std::uint64_t step) override { tell("moved", fmt::format("after step {}", step)); }

  void began() override {
    tell("began");
    has_begun = true;
  }

  // Every step of whoever trains is reported once, whatever happens to the coordinator meanwhile.
  void stepped(const std::string& peer, const wire::StepReport& report) override {
    if (!steps.contains(peer)) return;
    EXPECT_EQ(report.step, steps[peer] + 1) << peer;
    steps[peer] = report.step;
  }
  void ended(const std::string& peer, const wire::Ended&) override {
    tell("ended", peer);
    who_ended.insert(peer);
  }
  void lost(const std::string& peer, const std::string& why) override {
    tell("lost", peer, why);
    who_was_lost.push_back(peer);
    for (const std::string& mate : mates_of(peer)) steps.erase(mate);
  }
  void entered(const wire::PlannedPeer& peer) override {
    tell("entered", peer.contact.name);
    who_entered.push_back(peer.contact.name);
    clusters[peer.contact.name] = peer.cluster;
    steps[peer.contact.name] = peer.from;
  }
  void suspected(const std::string& culprit, const std::string& by, const std::string&) override {
    suspicions.emplace(culprit, by);
  }
  void expelled(const std::string& peer, const std::string&) override { who_was_expelled.push_back(peer); }
  // Its peers begin where the coordinator before knew that all of them were.
  void taken_up(const wire::Plan& p) override {
    tell("taken up", fmt::format("generation {}", p.generation));
    plan = p;
    std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [name, step] : steps) all = std::min(all, step);
    steps.clear();
    for (const wire::PlannedPeer& place : p.peers) {
      clusters[place.contact.name] = place.cluster;
      const auto mate_is_away = [&](const auto& other) { return other.cluster == place.cluster && !other.here; };
      if (std::ranges::none_of(p.peers, mate_is_away)) steps[place.contact.name] = std::max(all, place.from);
    }
  }
  void returned(const std::string& peer) override {
    tell("returned", peer);
    who_returned.insert(peer);
  }
  void introduced_again(const wire::Introduction& peer, const wire::Ready& ready) override {
    tell("introduced again", peer.contact.name);
    EXPECT_EQ(ready.model, "model");
    who_was_introduced_again.insert(peer.contact.name);
  }
  void missed(const std::string& who, const std::string& by, const std::string&) override {
    tell("missed", who, "by " + by);
    misses.emplace(who, by);
  }

  std::vector<std::string> who_joined, who_left, who_was_lost, who_entered, who_was_expelled;
  std::multiset<std::string> who_returned, who_was_introduced_again;
  std::multimap<std::string, std::string> misses;
  std::multimap<std::string, std::string> suspicions;
  std::set<std::string> who_ended;
  std::map<std::string, std::string> refusals;
  std::map<std::string, std::uint64_t> steps;  // of those whose clusters are whole
  std::map<std::string, std::uint32_t> clusters;
  std::vector<std::uint64_t> steps_when_held;
  wire::Plan plan;
  bool has_begun = false, was_stuck = false, has_moved = false;
  std::size_t most_memory = 0;  // bytes that all peers and the coordinator had together when something happened

  void tell(const char* what, const std::string& whom = "", const std::string& why = "") {
    most_memory = std::max(most_memory, heap() - std::min(heap(), heap_before_));
    if (clock_ == nullptr || std::getenv("ROOKERY_TELL") == nullptr) return;
    fmt::print(stderr, "{} {} {} {}\n", format_duration(clock_->now().time_since_epoch()), what, whom, why);
  }

 private:
  static std::size_t heap() {
    const struct mallinfo2 facts = ::mallinfo2();
    return facts.uordblks + facts.hblkhd;
  }

  Clock* clock_;
  std::size_t heap_before_ = heap();

  std::vector<std::string> mates_of(const std::string& peer) {
    if (clusters.empty()) {
      for (const wire::PlannedPeer& place : plan.peers) clusters[place.contact.name] = place.cluster;
    }
    std::vector<std::string> mates;
    for (const auto& [name, cluster] : clusters) {
      if (cluster == clusters[peer]) mates.push_back(name);
    }
    return mates;
  }
};

// A swarm of peers that model training, in a world of its own.
struct SwarmTest : ::testing::Test {
  SwarmTest() {
    spdlog::set_level(spdlog::level::err);  // what happens is what was asked for
    network_.set_lines({.bandwidth = 100e6, .latency = 5ms});
  }

  ~SwarmTest() override {
    for (auto& host : hosts_) host->close();
    coordinator_.reset();
    hosts_.clear();
    world_.run(world_.clock().now() + 1h);
  }

  // Keys are drawn in the order in which they are asked for: a schedule comes again to the byte.
  net::Identity next_identity() { return net::Identity::from_seed(++identities_); }

  net::Host& add_host(const std::string& name, const net::Identity& identity,
                      std::optional<net::Admission> admission = {}) {
    transports_.push_back(network_.transport(name));
    net::HostOptions options{.name = name, .encrypt = false, .share_memory = false};
    options.admission = admission;
    hosts_.push_back(std::make_unique<net::Host>(world_.clock(), *transports_.back(), identity, options));
    return *hosts_.back();
  }

  void coordinate(std::size_t peers, Watcher* watcher = nullptr) {
    options_.settings = "name = \"x\"";
    options_.peers = peers;
    options_.data = "data";
    options_.model = "model";
    options_.parameters = 100;
    options_.remember = [this](const Memory& memory) { memory_ = memory; };
    start_coordinator(watcher != nullptr ? *watcher : witness_);
  }

  void start_coordinator(Watcher& watcher) {
    net::Admission admission;
    admission.secret.fill(std::byte{5});
    net::Host& host = add_host("coordinator", identity_, admission);
    host.listen("coordinator", [](const net::Guest& guest) {
      if (!guest.ticket) throw net::LinkError(net::Failure::kRefused, "", "has no ticket");
    });
    ticket_ = {
        .addresses = {"coordinator"}, .fingerprint = identity_.fingerprint().bytes(), .secret = admission.secret};
    coordinators_.push_back(&host);
    coordinator_ = std::make_unique<Coordinator>(world_.clock(), host, options_, watcher);
  }

  // The coordinator's process ends at once; a while later there is another one.
  Task<> restart(Duration when, Duration away) {
    co_await world_.clock().sleep_for(when);
    if (is_over_ || !memory_ || !memory_->begun) co_return;  // there is nothing to take up
    witness_.tell("-- the coordinator ends", "for " + format_duration(away));
    network_.crash("coordinator");
    coordinator_.reset();
    coordinators_.back()->close();
    co_await world_.clock().sleep_for(away);
    network_.crash("coordinator", false);
    options_.taken_up = memory_;
    options_.known_step = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [name, step] : witness_.steps) options_.known_step = std::min(options_.known_step, step);
    start_coordinator(witness_);
  }

  struct Joined {
    std::unique_ptr<ModelledWork> work;
    std::optional<std::string> failure{};
    bool over = false;
    std::size_t lives = 0;
  };

  // A peer that joins after a while.
  Task<> join(std::string name, Duration after, std::uint64_t steps, std::function<void(ModelledWork&)> change = {},
              bool dialable = true) {
    co_await world_.clock().sleep_for(after);
    Joined& peer = peers_[name];
    peer.work = std::make_unique<ModelledWork>(world_.clock(), steps);
    if (change) change(*peer.work);
    const std::string host_name = "host-" + name + std::to_string(hosts_.size());
    where_[name] = host_name;
    transports_.push_back(network_.transport(host_name));
    hosts_.push_back(
        std::make_unique<net::Host>(world_.clock(), *transports_.back(), next_identity(),
                                    net::HostOptions{.name = name, .encrypt = false, .share_memory = false}));
    net::Host& host = *hosts_.back();
    host.listen(host_name, [](const net::Guest&) {});
    std::vector<std::string> addresses;
    if (dialable) addresses.push_back(host_name);
    std::optional<Time> displaced;
    for (bool again = true; again;) {
      again = false;
      if (peer.lives++ > 0) {
        peer.work = std::make_unique<ModelledWork>(world_.clock(), steps);
        if (change) change(*peer.work);
      }
      try {
        auto living = take_part(world_.clock(), host,
                                {.ticket = ticket_, .addresses = addresses, .patience = patience_}, *peer.work);
        co_await std::move(living);
      } catch (const Displaced& error) {
        witness_.tell("displaced", name, error.what());
        displaced = world_.clock().now();
        again = patience_ > Duration{} && peer.lives < 20;
        if (!again) peer.failure = error.what();
      } catch (const NotMet& error) {  // the coordinator may be there again soon
        again = displaced && world_.clock().now() < *displaced + patience_;
        if (!again) peer.failure = error.what();
      } catch (const Error& error) {
        peer.failure = error.what();
      }
      if (again) co_await world_.clock().sleep_for(1s);
    }
    peer.over = true;
  }

  // The sentence that the run ended with; empty if it went well.
  std::string run(std::vector<Task<>> tasks) {
    std::string ending;
    const auto coordinate = [&]() -> Task<> {
      for (const Coordinator* last = nullptr; last != coordinator_.get();) {
        last = coordinator_.get();
        try {
          auto running = coordinator_->run();
          co_await std::move(running);
        } catch (const Error& error) {
          ending = error.what();
        }
        while (!coordinator_) co_await world_.clock().sleep_for(1ms);  // it is being restarted
      }
      is_over_ = true;
    };
    TaskGroup group(world_.executor());
    group.spawn(coordinate());
    for (Task<>& task : tasks) group.spawn(std::move(task));
    try {
      world_.run(group.join(), world_.clock().now() + 1h);
    } catch (const Error& error) {
      std::string waiting = is_over_ ? "" : "the coordinator";
      for (const auto& [name, peer] : peers_) {
        if (!peer.over) waiting += (waiting.empty() ? "" : ", ") + name;
      }
      ADD_FAILURE() << error.what() << ": " << waiting;
      std::fflush(nullptr);
      std::_Exit(1);  // what tasks that never end refer to cannot be taken from them
    }
    EXPECT_LT(witness_.most_memory, kMostMemory);
    return ending;
  }

  static constexpr std::size_t kMostMemory = 16 << 20;  // nothing piles up, whatever happens

  VirtualWorld world_;
  net::VirtualNetwork network_{world_.clock(), 1};
  std::vector<std::unique_ptr<net::Transport>> transports_;
  std::vector<std::unique_ptr<net::Host>> hosts_;
  CoordinatorOptions options_;
  std::unique_ptr<Coordinator> coordinator_;
  Witness witness_{&world_.clock()};
  wire::Ticket ticket_;
  std::uint64_t identities_ = 0;
  const net::Identity identity_ = next_identity();  // the coordinator's
  std::vector<net::Host*> coordinators_;            // where they listened
  std::optional<Memory> memory_;                    // what the coordinator has kept
  Duration patience_{};                             // of peers with the coordinator
  bool is_over_ = false;
  std::map<std::string, Joined> peers_;
  std::map<std::string, std::string> where_;
};

template <typename... Tasks>
std::vector<Task<>> all(Tasks... tasks) {
  std::vector<Task<>> result;
  (result.push_back(std::move(tasks)), ...);
  return result;
}

}  // namespace rookery::swarm::testing
