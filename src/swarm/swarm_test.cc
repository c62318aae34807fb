#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "base/virtual_world.h"
#include "net/virtual/virtual_network.h"
#include "swarm/coordinator.h"
#include "swarm/peer.h"
#include "swarm/talk.h"

namespace rookery::swarm {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr net::ChannelId kTogether{.purpose = 9};

// Modelled training: in every step each peer computes for a while, and waits for a word from every other.
class ModelledWork : public Work {
 public:
  ModelledWork(Clock& clock, std::uint64_t steps) : clock_(clock), steps_(steps) {}

  Task<wire::Ready> prepare(std::string toml) override {
    co_await clock_.sleep_for(20ms);
    if (!cannot.empty()) throw Error("{}", cannot);
    settings = toml;
    co_return wire::Ready{.data = data, .model = "model", .parameters = 100};
  }

  Task<wire::Ended> train(Part part, Report report) override {
    rank = part.rank;
    std::vector<std::unique_ptr<net::Channel>> channels;
    for (net::Link* link : part.links) {
      if (link != nullptr) channels.push_back(link->open(kTogether));
    }
    for (std::uint64_t step = 1; step <= steps_ && !stopped; ++step) {
      co_await clock_.sleep_for(10ms);
      for (const auto& channel : channels) {
        auto sending = channel->send({.tag = stopped ? 1u : 0u});
        co_await std::move(sending);
      }
      bool others_stop = false;
      for (const auto& channel : channels) {
        auto receiving = channel->receive();
        const net::Message message = co_await std::move(receiving);
        others_stop |= message.label.tag == 1;
      }
      steps_done = step;
      report(wire::StepReport{.step = step, .loss = 1.0 / static_cast<double>(step)});
      if (others_stop) break;
    }
    co_return wire::Ended{.rounds = steps_done};
  }

  void stop(const std::string&) override { stopped = true; }

  std::string data = "data", cannot{}, settings{};
  std::size_t rank = 0;
  std::uint64_t steps_done = 0;
  bool stopped = false;

 private:
  Clock& clock_;
  std::uint64_t steps_;
};

// Writes down what it sees.
class Witness : public Watcher {
 public:
  void joined(const std::string& peer) override { who_joined.push_back(peer); }
  void refused(const std::string& peer, const std::string& why) override { refusals[peer] = why; }
  void left(const std::string& peer, const std::string&) override { who_left.push_back(peer); }
  void planned(const wire::Plan& p) override { plan = p; }
  void stepped(const std::string& peer, const wire::StepReport& report) override { steps[peer] = report.step; }
  void ended(const std::string& peer, const wire::Ended&) override { who_ended.insert(peer); }
  void lost(const std::string& peer, const std::string&) override { who_was_lost.push_back(peer); }

  std::vector<std::string> who_joined, who_left, who_was_lost;
  std::set<std::string> who_ended;
  std::map<std::string, std::string> refusals;
  std::map<std::string, std::uint64_t> steps;
  wire::Plan plan;
};

struct SwarmTest : ::testing::Test {
  SwarmTest() { network_.set_lines({.bandwidth = 100e6, .latency = 5ms}); }

  ~SwarmTest() override {
    for (auto& host : hosts_) host->close();
    coordinator_.reset();
    hosts_.clear();
    world_.run(world_.clock().now() + 1h);
  }

  net::Host& add_host(const std::string& name, std::optional<net::Admission> admission = {}) {
    transports_.push_back(network_.transport(name));
    net::HostOptions options{.name = name, .encrypt = false, .share_memory = false};
    options.admission = admission;
    hosts_.push_back(
        std::make_unique<net::Host>(world_.clock(), *transports_.back(), net::Identity::generate(), options));
    return *hosts_.back();
  }

  void coordinate(std::size_t peers, Watcher* watcher = nullptr) {
    net::Admission admission;
    admission.secret.fill(std::byte{5});
    net::Host& host = add_host("coordinator", admission);
    host.listen("coordinator", [](const net::Guest& guest) {
      if (!guest.ticket) throw net::LinkError(net::Failure::kRefused, "", "has no ticket");
    });
    ticket_ = {
        .addresses = {"coordinator"}, .fingerprint = host.identity().fingerprint().bytes(), .secret = admission.secret};
    CoordinatorOptions options{.settings = "name = \"x\"", .peers = peers};
    coordinator_ =
        std::make_unique<Coordinator>(world_.clock(), host, options, watcher != nullptr ? *watcher : witness_);
  }

  struct Joined {
    std::unique_ptr<ModelledWork> work;
    std::optional<std::string> failure{};
    bool over = false;
  };

  // A peer that joins after a while.
  Task<> join(std::string name, Duration after, std::uint64_t steps, std::function<void(ModelledWork&)> change = {}) {
    co_await world_.clock().sleep_for(after);
    Joined& peer = peers_[name];
    peer.work = std::make_unique<ModelledWork>(world_.clock(), steps);
    if (change) change(*peer.work);
    const std::string host_name = "host-" + name + std::to_string(hosts_.size());
    where_[name] = host_name;
    transports_.push_back(network_.transport(host_name));
    hosts_.push_back(
        std::make_unique<net::Host>(world_.clock(), *transports_.back(), net::Identity::generate(),
                                    net::HostOptions{.name = name, .encrypt = false, .share_memory = false}));
    net::Host& host = *hosts_.back();
    host.listen(host_name, [](const net::Guest&) {});
    try {
      auto living = take_part(world_.clock(), host, {.ticket = ticket_, .addresses = {host_name}}, *peer.work);
      co_await std::move(living);
    } catch (const Error& error) {
      peer.failure = error.what();
    }
    peer.over = true;
  }

  // The sentence that the run ended with; empty if it went well.
  std::string run(std::vector<Task<>> tasks) {
    std::string ending;
    const auto coordinate = [&]() -> Task<> {
      try {
        auto running = coordinator_->run();
        co_await std::move(running);
      } catch (const Error& error) {
        ending = error.what();
      }
    };
    TaskGroup group(world_.executor());
    group.spawn(coordinate());
    for (Task<>& task : tasks) group.spawn(std::move(task));
    world_.run(group.join(), world_.clock().now() + 1h);
    return ending;
  }

  VirtualWorld world_;
  net::VirtualNetwork network_{world_.clock(), 1};
  std::vector<std::unique_ptr<net::Transport>> transports_;
  std::vector<std::unique_ptr<net::Host>> hosts_;
  std::unique_ptr<Coordinator> coordinator_;
  Witness witness_;
  wire::Ticket ticket_;
  std::map<std::string, Joined> peers_;
  std::map<std::string, std::string> where_;
};

template <typename... Tasks>
std::vector<Task<>> all(Tasks... tasks) {
  std::vector<Task<>> result;
  (result.push_back(std::move(tasks)), ...);
  return result;
}

TEST_F(SwarmTest, PeersJoinTrainAndEndTogether) {
  coordinate(3);
  EXPECT_EQ(run(all(join("cellar", 1ms, 20), join("attic", 300ms, 20), join("barn", 20ms, 20))), "");
  EXPECT_THAT(witness_.who_joined, ElementsAre("cellar", "barn", "attic"));
  ASSERT_EQ(witness_.plan.peers.size(), 3u);
  EXPECT_EQ(witness_.plan.peers[0].contact.name, "attic");  // ranks go by name
  for (const auto& [name, peer] : peers_) {
    EXPECT_FALSE(peer.failure) << name << ": " << *peer.failure;
    EXPECT_EQ(peer.work->steps_done, 20u);
    EXPECT_EQ(peer.work->settings, "name = \"x\"");
    EXPECT_EQ(witness_.steps[name], 20u);
  }
  EXPECT_EQ(peers_["attic"].work->rank, 0u);
  EXPECT_EQ(peers_["cellar"].work->rank, 2u);
  EXPECT_EQ(witness_.who_ended.size(), 3u);
}

TEST_F(SwarmTest, APeerAloneIsASwarmToo) {
  coordinate(1);
  EXPECT_EQ(run(all(join("attic", 1ms, 5))), "");
  EXPECT_EQ(peers_["attic"].work->steps_done, 5u);
}

TEST_F(SwarmTest, WhoeverDoesNotFitIsToldWhyAndTheRestGoesOn) {
  coordinate(2);
  const auto other_data = [](ModelledWork& work) { work.data = "other"; };
  const auto no_memory = [](ModelledWork& work) { work.cannot = "has too little memory for this model"; };
  EXPECT_EQ(run(all(join("attic", 1ms, 200), join("barn", 50ms, 200, other_data), join("cellar", 200ms, 200, no_memory),
                    join("den", 500ms, 200), join("eaves", 1500ms, 200))),
            "");
  EXPECT_THAT(*peers_["barn"].failure, HasSubstr("its data is not the same as that of attic"));
  EXPECT_THAT(witness_.refusals["barn"], HasSubstr("data"));
  EXPECT_THAT(*peers_["cellar"].failure, HasSubstr("too little memory"));
  EXPECT_THAT(witness_.refusals["cellar"], HasSubstr("too little memory"));
  EXPECT_THAT(*peers_["eaves"].failure, HasSubstr("the run has begun"));
  EXPECT_FALSE(peers_["attic"].failure);
  EXPECT_FALSE(peers_["den"].failure);
  EXPECT_EQ(peers_["den"].work->steps_done, 200u);
}

TEST_F(SwarmTest, WhoeverLeavesBeforeTheRunMakesRoom) {
  coordinate(2);
  const auto leave = [&]() -> Task<> {
    co_await world_.clock().sleep_for(200ms);
    network_.crash(where_["attic"]);
  };
  EXPECT_EQ(run(all(join("attic", 1ms, 10), leave(), join("barn", 400ms, 10), join("cellar", 500ms, 10))), "");
  EXPECT_THAT(witness_.who_left, ElementsAre("attic"));
  EXPECT_EQ(peers_["cellar"].work->steps_done, 10u);
}

TEST_F(SwarmTest, StopEndsEverybodyAfterTheirStep) {
  coordinate(3);
  const auto stop = [&]() -> Task<> {
    co_await world_.clock().sleep_for(1s);
    coordinator_->stop("interrupted");
  };
  EXPECT_EQ(run(all(join("a", 1ms, 100000), join("b", 1ms, 100000), join("c", 1ms, 100000), stop())), "");
  for (const auto& [name, peer] : peers_) {
    EXPECT_FALSE(peer.failure) << name << ": " << *peer.failure;
    EXPECT_GT(peer.work->steps_done, 10u);
    EXPECT_LT(peer.work->steps_done, 1000u);
  }
}

// Whenever a peer is lost: the run ends, everybody is told who it was, and nobody waits for ever.
TEST_F(SwarmTest, ALostPeerEndsTheRunWithItsName) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random({seed, word_of("lost")});
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.coordinate(4);
    const auto when = 100ms + std::chrono::milliseconds(random.below(400));
    const bool freezes = random.below(2) == 0;
    const auto lose = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(when);
      if (freezes) {
        once.network_.freeze(once.where_["c"]);
      } else {
        once.network_.crash(once.where_["c"]);
      }
      co_await once.world_.clock().sleep_for(120s);
      once.coordinator_->stop("that was all");  // if it was lost before the run, the others still wait
      once.network_.freeze(once.where_["c"], false);
    };
    const std::string ending = once.run(all(once.join("a", 1ms, 200), once.join("b", 2ms, 200),
                                            once.join("c", 3ms, 200), once.join("d", 4ms, 200), lose()));
    for (const auto& [name, peer] : once.peers_) EXPECT_TRUE(peer.over) << name;
    if (once.witness_.plan.peers.empty()) continue;  // before there was a plan
    EXPECT_THAT(ending, HasSubstr("c was lost")) << "seed " << seed;
    EXPECT_THAT(once.witness_.who_was_lost, ElementsAre("c")) << "seed " << seed;
  }
}

// Somebody who comes with a ticket, and whatever it then does.
struct IntruderTest : SwarmTest {
  Task<> intrude(std::string name, std::function<Task<>(Talk&, net::Host&)> what, std::string& ending) {
    net::Host& host = add_host(name);
    auto dialling = host.dial(ticket_);
    net::Meeting meeting = co_await std::move(dialling);
    {
      Talk talk(*meeting.link);
      auto doing = what(talk, host);
      co_await std::move(doing);
      auto ended = meeting.link->ended();
      const net::LinkError end = co_await std::move(ended);
      ending = end.what();
    }
  }

  static wire::Introduction introduction(net::Host& host) {
    return {.contact = {.name = host.options().name, .fingerprint = host.identity().fingerprint().bytes()}};
  }
};

TEST_F(IntruderTest, WhoeverIsNeverReadyMakesRoomAgain) {
  coordinate(2);
  std::string silent, idle;
  const auto say_nothing = [](Talk&, net::Host&) -> Task<> { co_return; };
  const auto idle_away = [](Talk& talk, net::Host& host) -> Task<> {
    talk.say(introduction(host));
    co_return;
  };
  EXPECT_EQ(run(all(intrude("silent", say_nothing, silent), intrude("idle", idle_away, idle), join("a", 1s, 10),
                    join("b", 31min, 10))),
            "");
  EXPECT_THAT(silent, HasSubstr("did not introduce itself in time"));
  EXPECT_THAT(idle, HasSubstr("did not open its data"));
  EXPECT_EQ(peers_["b"].work->steps_done, 10u);
}

TEST_F(IntruderTest, WhoeverEndsBeforeTheBeginningIsNamed) {
  coordinate(2);
  std::string hasty;
  const auto end_at_once = [](Talk& talk, net::Host& host) -> Task<> {
    talk.say(introduction(host));
    auto assigning = talk.hear();
    co_await std::move(assigning);
    talk.say(wire::Ready{.data = "data", .model = "model"});
    auto planning = talk.hear();
    co_await std::move(planning);
    talk.say(wire::Ended{});
  };
  EXPECT_THAT(run(all(intrude("hasty", end_at_once, hasty), join("a", 1ms, 10))), HasSubstr("hasty was lost"));
  EXPECT_TRUE(peers_["a"].over);
}

TEST_F(SwarmTest, StopBeforeTheBeginningIsNoLoss) {
  for (const Duration when : {1ms, 30ms, 60ms, 70ms, 80ms, 90ms, 100ms, 110ms, 120ms, 150ms}) {
    struct Once : SwarmTest {
      void TestBody() override {}
    } once;
    once.coordinate(2);
    const auto stop = [&]() -> Task<> {
      co_await once.world_.clock().sleep_for(when);
      once.coordinator_->stop("interrupted");
    };
    EXPECT_EQ(once.run(all(once.join("a", 1ms, 5), once.join("b", 1ms, 5), stop())), "");
    for (const auto& [name, peer] : once.peers_) EXPECT_TRUE(peer.over) << name;
  }
}

TEST_F(SwarmTest, AWatcherThatCannotGoOnEndsTheRun) {
  struct FullDisk : Watcher {
    void stepped(const std::string&, const wire::StepReport& report) override {
      if (report.step == 3) throw Error("no space left");
    }
  } full_disk;
  coordinate(2, &full_disk);
  EXPECT_EQ(run(all(join("a", 1ms, 1000), join("b", 1ms, 1000))), "no space left");
  for (const auto& [name, peer] : peers_) EXPECT_TRUE(peer.over) << name;
}

TEST_F(SwarmTest, ALostCoordinatorEndsThePeersWork) {
  coordinate(2);
  const auto lose = [&]() -> Task<> {
    co_await world_.clock().sleep_for(1s);
    network_.crash("coordinator");
    coordinator_->stop("it is gone");
  };
  run(all(join("a", 1ms, 100000), join("b", 1ms, 100000), lose()));
  for (const auto& [name, peer] : peers_) {
    EXPECT_TRUE(peer.over) << name;
    EXPECT_TRUE(peer.failure) << name;
    EXPECT_TRUE(peer.work->stopped) << name;
  }
}

// Somebody with a ticket says what makes no sense: it is dropped, and the others do not notice.
TEST_F(SwarmTest, NonsenseIsNobodyElsesProblem) {
  coordinate(2);
  const std::vector<wire::SwarmMessage> nonsense = {wire::Begin{.generation = 1},
                                                    wire::Plan{.generation = 1},
                                                    wire::Linked{.generation = 1},
                                                    wire::StepReport{.step = 1},
                                                    wire::Ended{},
                                                    wire::Ready{.data = "a", .model = "b"},
                                                    wire::Stop{.reason = "please"},
                                                    wire::Evaluated{.split = "eval"},
                                                    wire::Assignment{.settings = "x"}};
  const auto intrude = [&](std::size_t i) -> Task<> {
    net::Host& host = add_host("intruder-" + std::to_string(i));
    auto dialling = host.dial(ticket_);
    net::Meeting meeting = co_await std::move(dialling);
    Talk talk(*meeting.link);
    talk.say(nonsense[i]);
    auto ended = meeting.link->ended();
    const net::LinkError end = co_await std::move(ended);
    EXPECT_EQ(end.failure(), net::Failure::kProtocol) << i;
  };
  std::vector<Task<>> tasks = all(join("a", 1ms, 100), join("b", 500ms, 100));
  for (std::size_t i = 0; i < nonsense.size(); ++i) tasks.push_back(intrude(i));
  EXPECT_EQ(run(std::move(tasks)), "");
  EXPECT_EQ(peers_["b"].work->steps_done, 100u);
}

}  // namespace
}  // namespace rookery::swarm
