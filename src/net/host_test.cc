#include "net/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/virtual_world.h"
#include "net/virtual/virtual_network.h"
#include "wire/handshake.h"

namespace rookery::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr ChannelId kChannel{.purpose = 1};

struct Kind {
  std::string name;
  bool encrypt;
  std::uint32_t lanes;
};

class HostTest : public ::testing::TestWithParam<Kind> {
 protected:
  HostTest() { network_.set_lines({.bandwidth = 100e6, .latency = 5ms}); }

  ~HostTest() override {
    for (auto& host : hosts_) host->close();
    meetings_.clear();
    hosts_.clear();
    world_.run(world_.clock().now() + 1h);  // what was spawned ends
  }

  HostOptions options(const std::string& name) const {
    return {.name = name, .encrypt = GetParam().encrypt, .share_memory = false, .lanes = GetParam().lanes};
  }

  Host& add(const std::string& name, HostOptions options, Identity identity = Identity::generate()) {
    transports_.push_back(network_.transport(name));
    hosts_.push_back(std::make_unique<Host>(world_.clock(), *transports_.back(), std::move(identity), options));
    return *hosts_.back();
  }
  Host& add(const std::string& name) { return add(name, options(name)); }

  void run(Task<> task) { world_.run(std::move(task), world_.clock().now() + 10min); }

  // Why dialling failed.
  LinkError failure_of(Host& from, std::optional<Fingerprint> key = {}, std::optional<TicketSecret> ticket = {}) {
    std::optional<LinkError> failure;
    const auto dial = [&]() -> Task<> {
      try {
        auto dialling = from.dial("server", key, ticket);
        meetings_.push_back(co_await std::move(dialling));
      } catch (const LinkError& error) {
        failure = error;
      }
    };
    run(dial());
    return failure.value_or(LinkError(Failure::kClosed, "nobody", "it did not fail"));
  }

  void expect_a_link(Host& from, Host& to) {
    const auto dial = [&]() -> Task<> {
      auto dialling = from.dial("server", {}, {});
      meetings_.push_back(co_await std::move(dialling));
    };
    const auto accept = [&]() -> Task<> {
      auto accepting = to.accept();
      meetings_.push_back(co_await std::move(accepting));
    };
    TaskGroup group(world_.executor());
    group.spawn(dial());
    group.spawn(accept());
    run(group.join());
  }

  VirtualWorld world_;
  VirtualNetwork network_{world_.clock(), 1};
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Meeting> meetings_;
};

TEST_P(HostTest, BothEndsKnowEachOtherAndCanTalk) {
  Host& server = add("server");
  Host& client = add("client");
  server.listen("server", {});
  const auto serve = [&]() -> Task<> {
    auto accepting = server.accept();
    const Meeting meeting = co_await std::move(accepting);
    EXPECT_EQ(meeting.other.name, "client");
    EXPECT_EQ(meeting.other.key, client.identity().fingerprint());
    EXPECT_FALSE(meeting.other.ticket);
    const auto channel = meeting.link->open(kChannel);
    std::vector<std::byte> large(500000);
    co_await channel->receive(large);
    EXPECT_EQ(large[499999], std::byte{7});
    co_await channel->send({.type = 4});
    co_await meeting.link->ended();
  };
  const auto talk = [&]() -> Task<> {
    auto dialling = client.dial("server", server.identity().fingerprint());
    const Meeting meeting = co_await std::move(dialling);
    EXPECT_EQ(meeting.other.name, "server");
    EXPECT_EQ(meeting.other.key, server.identity().fingerprint());
    const auto channel = meeting.link->open(kChannel);
    const std::vector<std::byte> large(500000, std::byte{7});
    co_await channel->send({}, large);
    auto receiving = channel->receive();
    const Message answer = co_await std::move(receiving);
    EXPECT_EQ(answer.label.type, 4u);
  };
  TaskGroup group(world_.executor());
  group.spawn(serve());
  group.spawn(talk());
  run(group.join());
}

TEST_P(HostTest, AnotherKeyThanExpectedIsRefused) {
  Host& server = add("server");
  Host& client = add("client");
  server.listen("server", {});
  const LinkError failure = failure_of(client, Identity::generate().fingerprint());
  EXPECT_EQ(failure.failure(), Failure::kRefused);
  EXPECT_THAT(failure.what(), HasSubstr("server: has another key"));
}

TEST_P(HostTest, TheDoorkeeperDecidesAndTheGuestIsTold) {
  Host& server = add("server");
  Host& client = add("client");
  server.listen("server", [](const Guest& guest) {
    if (!guest.ticket) throw LinkError(Failure::kRefused, guest.name, "come back with a ticket");
  });
  const LinkError failure = failure_of(client);
  EXPECT_EQ(failure.failure(), Failure::kRefused);
  EXPECT_STREQ(failure.what(), "server: come back with a ticket");
}

TEST_P(HostTest, TicketsAreProvedWithoutBeingSaidAndWrongOnesRefused) {
  TicketSecret secret, other;
  fill_with_secret(secret);
  fill_with_secret(other);
  HostOptions with_ticket = options("server");
  with_ticket.admission = {.secret = secret};
  Host& server = add("server", with_ticket);
  Host& client = add("client");
  std::vector<bool> tickets;
  server.listen("server", [&](const Guest& guest) { tickets.push_back(guest.ticket); });

  const LinkError failure = failure_of(client, {}, other);
  EXPECT_EQ(failure.failure(), Failure::kRefused);
  EXPECT_THAT(failure.what(), HasSubstr("ticket"));
  EXPECT_TRUE(tickets.empty());

  const auto dial = [&]() -> Task<> {
    auto dialling = client.dial("server", {}, secret);
    meetings_.push_back(co_await std::move(dialling));
  };
  run(dial());
  EXPECT_THAT(tickets, ::testing::Each(true));
  EXPECT_EQ(tickets.size(), GetParam().lanes);
}

TEST_P(HostTest, ATicketIsOfUseUntilItExpires) {
  HostOptions with_ticket = options("server");
  wire::Ticket ticket{.addresses = {"elsewhere", "server"}};
  fill_with_secret(ticket.secret);
  const auto expires = world_.clock().date() + 60s;
  with_ticket.admission = {.secret = ticket.secret, .expires = expires};
  Host& server = add("server", with_ticket);
  ticket.fingerprint = server.identity().fingerprint().bytes();
  server.listen("server", [](const Guest& guest) { EXPECT_TRUE(guest.ticket); });
  Host& client = add("client");
  std::string failure = "none";
  const auto dial = [&]() -> Task<> {
    try {
      auto dialling = client.dial(ticket);
      meetings_.push_back(co_await std::move(dialling));
    } catch (const LinkError& error) {
      failure = error.what();
    }
  };
  run(dial());  // the first address does not answer, the second does
  EXPECT_EQ(failure, "none");
  meetings_.clear();
  run(world_.clock().sleep_for(61s));
  run(dial());
  EXPECT_EQ(failure, "server: the ticket has expired; ask for a new one");
}

// Whoever has listened to a peer that was let in, and says the same again, is not.
TEST_P(HostTest, AReplayedHandshakeIsRefused) {
  HostOptions with_ticket = options("server");
  TicketSecret secret;
  fill_with_secret(secret);
  with_ticket.admission = {.secret = secret};
  Host& server = add("server", with_ticket);
  int admitted = 0;
  server.listen("server", [&](const Guest& guest) { admitted += guest.ticket ? 1 : 0; });
  HostOptions one_lane = options("client");
  one_lane.lanes = 1;
  Host& client = add("client", one_lane);

  // Mallory sits between them and writes down what the client says.
  const auto transport = network_.transport("mallory");
  const auto listener = transport->listen("mallory");
  wire::Bytes heard;
  const auto forward = [](Pipe& from, Pipe& to, wire::Bytes* record) -> Task<> {
    try {
      for (;;) {
        const ConstBytes next = from.view(1000);
        if (record != nullptr) record->insert(record->end(), next.begin(), next.end());
        if (!next.empty()) {
          EXPECT_EQ(to.write(std::span(&next, 1)), next.size());
          from.skip(next.size());
        } else {
          auto readable = from.readable();
          co_await std::move(readable);
        }
      }
    } catch (const LinkError&) {
      from.close();
      to.close();
    }
  };
  const auto eavesdrop = [&]() -> Task<> {
    auto accepting = listener->accept();
    const auto from_client = co_await std::move(accepting);
    auto dialling = transport->dial("server", world_.clock().now() + 1s);
    const auto to_server = co_await std::move(dialling);
    TaskGroup both(world_.executor());
    both.spawn(forward(*from_client, *to_server, &heard));
    both.spawn(forward(*to_server, *from_client, nullptr));
    auto joined = both.join();
    co_await std::move(joined);
  };
  const auto visit = [&]() -> Task<> {
    auto dialling = client.dial("mallory", server.identity().fingerprint(), secret);
    const Meeting meeting = co_await std::move(dialling);
    meeting.link->close();
  };
  TaskGroup group(world_.executor());
  group.spawn(eavesdrop());
  group.spawn(visit());
  run(group.join());
  EXPECT_EQ(admitted, 1);
  ASSERT_GT(heard.size(), 100u);

  const auto replay = [&]() -> Task<> {
    auto dialling = transport->dial("server", world_.clock().now() + 1s);
    const auto pipe = co_await std::move(dialling);
    const ConstBytes all = heard;
    EXPECT_EQ(pipe->write(std::span(&all, 1)), all.size());
    try {
      for (;;) {
        pipe->skip(pipe->view(1000).size());
        auto readable = pipe->readable();
        co_await std::move(readable);
      }
    } catch (const LinkError&) {
    }
  };
  run(replay());
  EXPECT_EQ(admitted, 1);
}

TEST_P(HostTest, ASecondLinkWithTheSameKeyIsRefusedWhileTheFirstLasts) {
  Host& server = add("server");
  const Identity identity = Identity::generate();
  Host& first = add("first", options("first"), identity);
  Host& second = add("second", options("second"), identity);
  server.listen("server", {});
  expect_a_link(first, server);
  EXPECT_THAT(failure_of(second).what(), HasSubstr("connected already"));
  meetings_.clear();
  world_.run(world_.clock().now() + 2s);
  expect_a_link(second, server);
}

// Whoever comes and is not taken in makes room for others in the end.
TEST_P(HostTest, LinksThatNobodyAcceptsAreLimitedInNumber) {
  HostOptions few = options("server");
  few.unaccepted = 3;
  Host& server = add("server", few);
  server.listen("server", {});
  std::vector<Meeting> guests;
  for (int i = 0; i < 5; ++i) {
    Host& client = add("client-" + std::to_string(i));
    const auto dial = [&]() -> Task<> {
      auto dialling = client.dial("server", {}, {});
      guests.push_back(co_await std::move(dialling));
    };
    run(dial());
  }
  world_.run(world_.clock().now() + 1s);
  for (std::size_t i = 0; i < guests.size(); ++i) EXPECT_EQ(guests[i].link->has_ended(), i < 2) << i;
  for (int i = 2; i < 5; ++i) {
    const auto accept = [&]() -> Task<> {
      auto accepting = server.accept();
      const Meeting meeting = co_await std::move(accepting);
      EXPECT_EQ(meeting.other.name, "client-" + std::to_string(i));
    };
    run(accept());
  }
}

TEST_P(HostTest, NobodyAnswersWhereNobodyListens) {
  Host& client = add("client");
  EXPECT_EQ(failure_of(client).failure(), Failure::kUnreachable);
  add("server").listen("server", {});
  network_.cut("client", "server");
  EXPECT_EQ(failure_of(client).failure(), Failure::kUnreachable);
}

// Whatever is said to it, the server goes on for the others.
TEST_P(HostTest, HostileInputIsRefusedAndServiceGoesOn) {
  Host& server = add("server");
  Host& client = add("client");
  server.listen("server", {});
  const auto transport = network_.transport("mallory");
  Random random({1, word_of("mallory")});
  std::vector<wire::Bytes> attacks;
  attacks.push_back({});  // says nothing
  for (const std::size_t size : {1, 11, 12, 500, 100000}) {
    wire::Bytes noise(size);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next());
    attacks.push_back(noise);
  }
  wire::Hello hello{.name = "mallory"};
  wire::Bytes good = wire::encode(hello);
  attacks.push_back({good.begin(), good.begin() + 40});  // breaks off
  wire::Bytes old = good, giant = good;
  old[4] = std::byte{0};
  std::ranges::fill(std::span(giant).subspan(8, 4), std::byte{0xff});
  attacks.push_back(old);
  attacks.push_back(giant);
  attacks.push_back(good);  // claims a key that it cannot prove

  const auto attack = [&](const wire::Bytes& bytes) -> Task<> {
    auto dialling = transport->dial("server", world_.clock().now() + 1s);
    const auto pipe = co_await std::move(dialling);
    const ConstBytes part = bytes;
    std::size_t answered = 0;
    try {
      if (!bytes.empty()) pipe->write(std::span(&part, 1));
      for (;;) {  // until the server has had enough
        const std::size_t n = pipe->view(1 << 20).size();
        pipe->skip(n);
        answered += n;
        if (n == 0) co_await pipe->readable();
      }
    } catch (const LinkError&) {
      EXPECT_LT(answered, 10000u);
    }
  };
  TaskGroup group(world_.executor());
  for (const wire::Bytes& bytes : attacks) group.spawn(attack(bytes));
  expect_a_link(client, server);  // meanwhile
  run(group.join());
  EXPECT_LE(world_.clock().now(), Time(15s));
}

// Whoever connects and says nothing is cut off after a while, or as soon as others need the place.
TEST_P(HostTest, ThoseWhoSayNothingAreLimitedInNumberAndTimeAndKeepNobodyOut) {
  HostOptions few = options("server");
  few.unproved = 8;
  few.unproved_by_address = 5;
  Host& server = add("server", few);
  Host& client = add("client");
  server.listen("server", {});
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<Pipe>> pipes;
  const auto open_pipes = [&] {
    return std::ranges::count_if(pipes, [](const auto& pipe) {
      try {
        pipe->view(1);
        return true;
      } catch (const LinkError&) {
        return false;
      }
    });
  };
  const auto crowd = [&](std::string from) -> Task<> {
    transports.push_back(network_.transport(from));
    for (int i = 0; i < 20; ++i) {
      auto dialling = transports.back()->dial("server", world_.clock().now() + 1s);
      pipes.push_back(co_await std::move(dialling));
    }
    co_await world_.clock().sleep_for(100ms);
  };
  run(crowd("mallory"));
  EXPECT_EQ(open_pipes(), 5);
  run(crowd("trudy"));
  EXPECT_EQ(open_pipes(), 8);
  expect_a_link(client, server);
  run(world_.clock().sleep_for(11s));
  EXPECT_EQ(open_pipes(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, HostTest,
                         ::testing::Values(Kind{"plain", false, 1}, Kind{"tls", true, 1}, Kind{"tls_lanes", true, 3}),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace rookery::net
