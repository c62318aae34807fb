#include "net/connector.h"

#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/virtual_world.h"
#include "net/purpose.h"
#include "net/relay.h"
#include "net/virtual/virtual_network.h"

namespace rookery::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr ChannelId kChannel{.purpose = 1};

// A relay that everybody can dial, and peers of which some can be dialled. Everything on virtual time.
class ConnectorTest : public ::testing::Test {
 protected:
  struct Peer {
    std::unique_ptr<Transport> transport;
    std::unique_ptr<Host> host;
    std::unique_ptr<Connector> connector;
    wire::Contact contact;
    std::shared_ptr<Link> to_relay;
  };

  ConnectorTest() {
    network_.set_lines({.bandwidth = 100e6, .latency = 5ms});
    relay_peer_ = make("relay");
    relay_peer_.host->listen("relay", {});
  }

  ~ConnectorTest() override {
    relay_.reset();
    relay_links_.clear();
    world_.run(world_.clock().now() + 1h);
  }

  Peer make(const std::string& name) {
    Peer peer;
    peer.transport = network_.transport(name);
    const HostOptions options{.name = name, .share_memory = false, .handshake = 5s};
    peer.host = std::make_unique<Host>(world_.clock(), *peer.transport, Identity::generate(), options);
    peer.contact = {.name = name, .fingerprint = peer.host->identity().fingerprint().bytes()};
    return peer;
  }

  // Dials the relay, which serves it from then on.
  Task<Meeting> visit_relay(Peer& peer) {
    auto dialling = peer.host->dial("relay", relay_peer_.host->identity().fingerprint());
    Meeting there = co_await std::move(dialling);
    auto accepting = relay_peer_.host->accept();
    Meeting here = co_await std::move(accepting);
    relay_links_.push_back(std::move(here.link));
    relay_->serve(relay_links_.back(), here.other);
    co_return there;
  }

  // `reachable`: can be dialled. Every peer believes that it can; the network knows better.
  Peer join(const std::string& name, bool reachable) {
    Peer peer = make(name);
    if (reachable) peer.host->listen(name, {});
    peer.contact.addresses = {name};
    peer.connector = std::make_unique<Connector>(world_.clock(), *peer.host, peer.contact.addresses, peer_doorkeeper_);
    const auto meet = [&]() -> Task<> {
      auto visiting = visit_relay(peer);
      Meeting there = co_await std::move(visiting);
      peer.to_relay = std::move(there.link);
    };
    run(meet());
    peer.connector->use_relay(peer.to_relay);
    return peer;
  }

  // One connects, the other accepts, and they exchange a few megabytes.
  Way connect(Peer& a, Peer& b, std::size_t bytes = 3 << 20) {
    Way way{}, seen{};
    const auto talk = [&]() -> Task<> {
      auto connecting = a.connector->connect(b.contact);
      const Connection connection = co_await std::move(connecting);
      way = connection.way;
      EXPECT_EQ(connection.meeting.other.name, b.contact.name);
      const auto channel = connection.meeting.link->open(kChannel);
      const std::vector<std::byte> payload(bytes, std::byte{7});
      co_await channel->send({}, payload);
      auto answering = channel->receive();
      co_await std::move(answering);
    };
    const auto answer = [&]() -> Task<> {
      auto accepting = b.connector->accept();
      const Connection connection = co_await std::move(accepting);
      seen = connection.way;
      EXPECT_EQ(connection.meeting.other.key, Fingerprint(a.contact.fingerprint));
      const auto channel = connection.meeting.link->open(kChannel);
      std::vector<std::byte> payload(bytes);
      co_await channel->receive(payload);
      EXPECT_EQ(std::ranges::count(payload, std::byte{7}), static_cast<std::ptrdiff_t>(bytes));
      co_await channel->send({});
      co_await connection.meeting.link->ended();
    };
    TaskGroup group(world_.executor());
    group.spawn(talk());
    group.spawn(answer());
    run(group.join());
    EXPECT_EQ(way, seen);
    return way;
  }

  std::string failure_to_connect(Peer& a, const wire::Contact& b) {
    std::string failure = "none";
    const auto attempt = [&]() -> Task<> {
      try {
        auto connecting = a.connector->connect(b);
        const Connection connection = co_await std::move(connecting);
      } catch (const LinkError& error) {
        failure = error.what();
      }
    };
    run(attempt());
    return failure;
  }

  void run(Task<> task) { world_.run(std::move(task), world_.clock().now() + 10min); }

  VirtualWorld world_;
  VirtualNetwork network_{world_.clock(), 1};
  Doorkeeper peer_doorkeeper_;
  Peer relay_peer_;
  std::vector<std::shared_ptr<Link>> relay_links_;
  std::unique_ptr<Relay> relay_ =
      std::make_unique<Relay>(world_.clock(), RelayOptions{.calls = 3, .calls_by_guest = 2});
};

TEST_F(ConnectorTest, WhoeverCanBeDialledIsDialled) {
  Peer a = join("a", false), b = join("b", true);
  EXPECT_EQ(connect(a, b), Way::kDirect);
  EXPECT_EQ(relay_->statistics().bytes, 0u);
}

TEST_F(ConnectorTest, WhoeverCannotIsAskedToDial) {
  Peer a = join("a", true), b = join("b", false);
  EXPECT_EQ(connect(a, b), Way::kReverse);
  EXPECT_EQ(connect(a, b), Way::kReverse);
  EXPECT_EQ(relay_->statistics().bytes, 0u);
}

TEST_F(ConnectorTest, WhereNeitherCanTheRelayCarriesAndCounts) {
  Peer a = join("a", false), b = join("b", false);
  EXPECT_EQ(connect(a, b), Way::kRelay);
  const RelayStatistics statistics = relay_->statistics();
  EXPECT_EQ(statistics.calls, 1u);
  EXPECT_GT(statistics.bytes, std::uint64_t{3 << 20});
  EXPECT_LT(statistics.bytes, std::uint64_t{4 << 20});
  world_.run(world_.clock().now() + 10s);
  EXPECT_EQ(relay_->statistics().running, 0u);
}

TEST_F(ConnectorTest, APeerWithoutAnyAddressIsCalled) {
  Peer a = join("a", false), b = join("b", false);
  b.contact.addresses.clear();
  EXPECT_EQ(connect(a, b), Way::kRelay);
}

TEST_F(ConnectorTest, WhoIsNotConnectedCannotBeReachedAndTheErrorSaysWhatWasTried) {
  Peer a = join("a", false);
  wire::Contact nobody{.name = "nobody", .addresses = {"nobody", "elsewhere"}};
  const std::string failure = failure_to_connect(a, nobody);
  EXPECT_THAT(failure, HasSubstr("nobody: cannot be reached: nobody ("));
  EXPECT_THAT(failure, HasSubstr("elsewhere ("));
  EXPECT_THAT(failure, HasSubstr("through the relay (is not connected to the relay)"));
  EXPECT_EQ(relay_->statistics().refused, 1u);
}

TEST_F(ConnectorTest, WithoutARelayThereIsOnlyDialling) {
  Peer a = make("a"), b = make("b");
  b.host->listen("b", {});
  b.contact.addresses = {"b"};
  a.connector = std::make_unique<Connector>(world_.clock(), *a.host, std::vector<std::string>{}, nullptr);
  b.connector = std::make_unique<Connector>(world_.clock(), *b.host, b.contact.addresses, nullptr);
  EXPECT_EQ(connect(a, b), Way::kDirect);
  EXPECT_THAT(failure_to_connect(a, {.name = "c"}), HasSubstr("cannot be reached: it has no address"));
}

// The relay's limits hold for each guest, and calls are free again when they have ended.
TEST_F(ConnectorTest, CallsAreLimited) {
  Peer a = join("a", false);
  std::vector<Peer> others;
  for (const char* name : {"b", "c", "d"}) others.push_back(join(name, false));
  std::vector<Connection> connections;
  const auto call = [&](Peer& other) -> Task<> {
    auto connecting = a.connector->connect(other.contact);
    connections.push_back(co_await std::move(connecting));
  };
  run(call(others[0]));
  run(call(others[1]));
  EXPECT_THAT(failure_to_connect(a, others[2].contact), HasSubstr("as many calls through the relay as are allowed"));
  connections.clear();
  world_.run(world_.clock().now() + 10s);
  EXPECT_EQ(relay_->statistics().running, 0u);
  run(call(others[2]));
  connections.clear();
}

TEST_F(ConnectorTest, WhenTheRelayGoesTheCallEnds) {
  Peer a = join("a", false), b = join("b", false);
  std::optional<LinkError> ended;
  const auto call = [&]() -> Task<> {
    auto connecting = a.connector->connect(b.contact);
    const Connection connection = co_await std::move(connecting);
    network_.crash("relay");
    ended = co_await connection.meeting.link->ended();
  };
  run(call());
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->peer(), "b");
  EXPECT_THAT(failure_to_connect(a, b.contact), HasSubstr("through the relay ("));
}

TEST_F(ConnectorTest, TheDoorkeeperDecidesAboutThoseWhoCallOrAskToBeDialled) {
  peer_doorkeeper_ = [](const Guest& guest) {
    if (guest.name == "mallory") throw LinkError(Failure::kRefused, guest.name, "is not welcome");
  };
  Peer b = join("b", false), mallory = join("mallory", true), hidden = join("hidden", false);
  const std::string failure = failure_to_connect(mallory, b.contact);
  EXPECT_THAT(failure, HasSubstr("to be dialled by it (mallory: is not welcome)"));
  EXPECT_THAT(failure, HasSubstr("through the relay (is not welcome)"));
  EXPECT_EQ(connect(hidden, b), Way::kRelay);
}

TEST_F(ConnectorTest, TheDoorkeeperDecidesAlsoAboutThoseWhoDial) {
  peer_doorkeeper_ = [](const Guest& guest) {
    if (guest.name == "mallory") throw LinkError(Failure::kRefused, guest.name, "is not welcome");
  };
  Peer b = join("b", true), mallory = join("mallory", false), a = join("a", false);
  std::optional<LinkError> ended;
  const auto intrude = [&]() -> Task<> {
    auto connecting = mallory.connector->connect(b.contact);
    const Connection connection = co_await std::move(connecting);
    ended = co_await connection.meeting.link->ended();
  };
  run(intrude());
  ASSERT_TRUE(ended);
  EXPECT_THAT(ended->what(), HasSubstr("is not welcome"));
  EXPECT_EQ(connect(a, b), Way::kDirect);  // which is who b gets to see
}

// An answer reaches whoever has asked last, though somebody has asked before and needed none.
TEST_F(ConnectorTest, ARequestThatWasFulfilledTakesNoAnswerFromTheNext) {
  Peer a = join("a", true), b = join("b", false);
  EXPECT_EQ(connect(a, b), Way::kReverse);
  network_.cut("b", "a");
  const Time start = world_.clock().now();
  EXPECT_EQ(connect(a, b), Way::kRelay);
  EXPECT_LT(world_.clock().now() - start, 15s);
}

// One guest cannot make the relay give up another.
TEST_F(ConnectorTest, AGuestThatTalksTooMuchHarmsNobodyElse) {
  Peer a = join("a", false), b = join("b", false);
  std::vector<std::byte> payload(b.contact.fingerprint.begin(), b.contact.fingerprint.end());
  const auto flood = [&]() -> Task<> {
    Peer second = make("second");
    auto visiting = visit_relay(second);
    const Meeting there = co_await std::move(visiting);
    const auto talk = there.link->open({.purpose = purpose::kRelayTalk});
    std::deque<Send> sends;
    for (int i = 0; i < 500; ++i) {
      sends.emplace_back();
      sends.back().label = {.type = 5};
      sends.back().payload = payload;
      talk->post(sends.back());
    }
    for (Send& send : sends) co_await send.finish();
    co_await world_.clock().sleep_for(1s);
  };
  run(flood());
  EXPECT_EQ(connect(a, b), Way::kRelay);
}

// Whatever a guest says to the relay: it loses its own link at most.
TEST_F(ConnectorTest, AGuestThatBreaksTheRulesLosesItsLinkAlone) {
  Peer a = join("a", false), b = join("b", false);
  struct Attack {
    std::uint32_t type;
    std::uint64_t tag;
    std::size_t size;
  };
  int number = 0;
  for (const Attack& attack : {Attack{1, 2, 5}, Attack{1, 3, 32}, Attack{1, std::uint64_t{1} << 40, 32},
                               Attack{3, 0, 33}, Attack{77, 0, 32}}) {
    Peer mallory = make("mallory" + std::to_string(number++));
    const auto misbehave = [&]() -> Task<> {
      auto visiting = visit_relay(mallory);
      const Meeting there = co_await std::move(visiting);
      const auto talk = there.link->open({.purpose = purpose::kRelayTalk});
      const std::vector<std::byte> payload(attack.size, std::byte{9});
      co_await talk->send({.type = attack.type, .tag = attack.tag}, payload);
      const LinkError ended = co_await there.link->ended();
      EXPECT_EQ(ended.failure(), Failure::kProtocol) << ended.what();
    };
    run(misbehave());
  }
  EXPECT_EQ(connect(a, b), Way::kRelay);
}

}  // namespace
}  // namespace rookery::net
