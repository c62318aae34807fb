#include <deque>
#include <numeric>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "net/link.h"
#include "net/testing/pipe_worlds.h"

namespace rookery::net {
namespace {

using namespace std::chrono_literals;
using testing::PipeKind;

constexpr ChannelId kChannel{.purpose = 1, .generation = 1, .index = 0};

std::vector<std::byte> pattern(std::size_t size, std::uint64_t seed) {
  Random random({seed, word_of("pattern")});
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

// Adds 32-bit numbers as they arrive.
class AddNumbers : public Fold {
 public:
  explicit AddNumbers(std::vector<std::uint32_t>& sums) : sums_(sums) {}
  void operator()(std::size_t offset, ConstBytes bytes) override {
    EXPECT_EQ(offset % 4, 0u);
    EXPECT_EQ(bytes.size() % 4, 0u);
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
      std::uint32_t value = 0;
      std::memcpy(&value, bytes.data() + i, 4);
      sums_[(offset + i) / 4] += value;
    }
  }
  std::size_t grain() const override { return 4; }

 private:
  std::vector<std::uint32_t>& sums_;
};

class LinkContractTest : public ::testing::TestWithParam<std::tuple<PipeKind, int>> {
 protected:
  void SetUp() override { connect({}); }

  void connect(LinkOptions options) {
    std::vector<std::unique_ptr<Pipe>> a, b;
    for (int i = 0; i < std::get<1>(GetParam()); ++i) {
      auto [x, y] = world_->connect();
      a.push_back(std::move(x));
      b.push_back(std::move(y));
    }
    options.peer = "bob";
    alice_ = make_link(world_->clock(), std::move(a), options);
    options.peer = "alice";
    bob_ = make_link(world_->clock(), std::move(b), options);
  }

  void run(std::vector<Task<>> tasks) {
    TaskGroup group(world_->executor());
    for (Task<>& task : tasks) group.spawn(std::move(task));
    world_->run(group.join());
  }
  template <typename... Tasks>
  void run_all(Tasks... tasks) {
    std::vector<Task<>> all;
    (all.push_back(std::move(tasks)), ...);
    run(std::move(all));
  }

  std::unique_ptr<testing::PipeWorld> world_ = std::get<0>(GetParam()).make();
  std::unique_ptr<Link> alice_, bob_;
};

TEST_P(LinkContractTest, MessagesOfAllSizesArriveInOrderBothWays) {
  const std::vector<std::size_t> sizes = {0, 1, 3, 4096, 100, 0, 65472, 65536, 1000000, 7, 2500000};
  const auto send = [&](Link& link, std::uint64_t seed) -> Task<> {
    const auto channel = link.open(kChannel);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto payload = pattern(sizes[i], seed + i);
      auto sending = channel->send(Label{.type = 5, .tag = i}, payload);
      co_await std::move(sending);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<std::byte> payload(sizes[i]);
      auto receiving = channel->receive(payload);
      const Label label = co_await std::move(receiving);
      EXPECT_EQ(label, (Label{.type = 6, .tag = i}));
      EXPECT_EQ(payload, pattern(sizes[i], seed + 100 + i));
    }
  };
  const auto receive = [&](Link& link, std::uint64_t seed) -> Task<> {
    const auto channel = link.open(kChannel);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::vector<std::byte> payload(sizes[i]);
      auto receiving = channel->receive(payload);
      const Label label = co_await std::move(receiving);
      EXPECT_EQ(label, (Label{.type = 5, .tag = i}));
      EXPECT_EQ(payload, pattern(sizes[i], seed + i));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto payload = pattern(sizes[i], seed + 100 + i);
      auto sending = channel->send(Label{.type = 6, .tag = i}, payload);
      co_await std::move(sending);
    }
    // The other end lets go when it has everything.
    auto ending = channel->receive();
    EXPECT_THROW(co_await std::move(ending), LinkError);
  };
  run_all(send(*alice_, 1), receive(*bob_, 1));
  EXPECT_GT(alice_->statistics().bytes_sent, 3000000u);
  EXPECT_EQ(alice_->statistics().bytes_received > 3000000u, true);
}

TEST_P(LinkContractTest, ScatteredPartsArriveAsOneMessageAndManyMayBePosted) {
  const auto bytes = pattern(300000, 9);
  const std::vector<ConstBytes> more = {ConstBytes(bytes).subspan(10, 1), {}, ConstBytes(bytes).subspan(11)};
  std::vector<std::byte> arrived[3];
  const auto send = [&]() -> Task<> {
    const auto channel = alice_->open(kChannel);
    Send sends[3];
    for (Send& s : sends) {
      s.payload = ConstBytes(bytes).first(10);
      s.more = more;
      channel->post(s);
    }
    for (Send& s : sends) co_await s.finish();
    auto done = channel->receive();
    co_await std::move(done);
  };
  const auto receive = [&]() -> Task<> {
    const auto channel = bob_->open(kChannel);
    Receive receives[3];
    for (int i = 0; i < 3; ++i) {
      arrived[i].resize(bytes.size());
      receives[i].into = arrived[i];
      channel->post(receives[i]);
    }
    for (Receive& r : receives) co_await r.finish();
    auto done = channel->send({});
    co_await std::move(done);
  };
  run_all(send(), receive());
  for (const auto& a : arrived) EXPECT_EQ(a, bytes);
}

TEST_P(LinkContractTest, MessagesCanBeFoldedInAsTheyArrive) {
  std::vector<std::uint32_t> numbers(200001), sums(numbers.size(), 1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  AddNumbers add(sums);
  const auto send = [&]() -> Task<> {
    const auto channel = alice_->open(kChannel);
    Send s;
    s.payload = std::as_bytes(std::span(numbers)).first(5);  // cut in the middle of a number
    const ConstBytes rest = std::as_bytes(std::span(numbers)).subspan(5);
    s.more = std::span(&rest, 1);
    s.grain = 4;
    channel->post(s);
    co_await s.finish();
    auto small = channel->send({}, std::as_bytes(std::span(numbers)));
    co_await std::move(small);
    auto done = channel->receive();
    co_await std::move(done);
  };
  const auto receive = [&]() -> Task<> {
    const auto channel = bob_->open(kChannel);
    for (int i = 0; i < 2; ++i) {
      Receive r;
      r.fold = &add;
      r.size = numbers.size() * 4;
      channel->post(r);
      co_await r.finish();
    }
    auto done = channel->send({});
    co_await std::move(done);
  };
  run_all(send(), receive());
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], 1000 + 2 * i);
}

TEST_P(LinkContractTest, SmallMessagesMayComeBeforeAnybodyAsksForThem) {
  const auto send = [&]() -> Task<> {
    const auto channel = alice_->open(kChannel);
    for (std::uint64_t i = 0; i < 100; ++i) {
      const auto payload = pattern(i, i);
      auto sending = channel->send(Label{.type = 1, .tag = i}, payload);
      co_await std::move(sending);
    }
  };
  run_all(send());  // and lets go of the channel
  const auto receive = [&]() -> Task<> {
    co_await world_->clock().sleep_for(50ms);
    const auto channel = bob_->open(kChannel);
    for (std::uint64_t i = 0; i < 100; ++i) {
      if (i % 2 == 0) {
        auto receiving = channel->receive();
        const Message message = co_await std::move(receiving);
        EXPECT_EQ(message.label.tag, i);
        EXPECT_EQ(message.payload, pattern(i, i));
      } else {
        std::vector<std::byte> payload(i);
        auto receiving = channel->receive(payload);
        co_await std::move(receiving);
        EXPECT_EQ(payload, pattern(i, i));
      }
    }
    auto ending = channel->receive();
    EXPECT_THROW(co_await std::move(ending), LinkError);
  };
  run_all(receive());
}

TEST_P(LinkContractTest, ASlowReaderStopsItsChannelAndNoOther) {
  const std::vector<std::byte> large(8 << 20);
  bool sent = false;
  const auto send_to_nobody = [&]() -> Task<> {
    const auto channel = alice_->open({.purpose = 1, .generation = 1, .index = 1});
    try {
      auto sending = channel->send({}, large);
      co_await std::move(sending);
      sent = true;
    } catch (const LinkError& error) {
      EXPECT_EQ(error.peer(), "bob");
    }
  };
  const auto talk = [&](Link& link, bool first) -> Task<> {
    const auto channel = link.open(kChannel);
    std::vector<std::byte> payload(200000);
    for (int i = 0; i < 5; ++i) {
      if (first) co_await channel->send({}, payload);
      co_await channel->receive(payload);
      if (!first) co_await channel->send({}, payload);
    }
    if (first) {
      EXPECT_FALSE(sent);
      bob_->close();
    }
  };
  run_all(send_to_nobody(), talk(*alice_, true), talk(*bob_, false));
  EXPECT_FALSE(sent);
  EXPECT_LT(alice_->statistics().bytes_sent, 2u << 20);
}

TEST_P(LinkContractTest, ClosingAChannelEndsItsOperationsAtBothEndsAndNoOthers) {
  const ChannelId other{.purpose = 1, .generation = 1, .index = 1};
  std::vector<std::byte> memory(1 << 20);
  const auto alice = [&]() -> Task<> {
    const auto channel = alice_->open(kChannel), spared = alice_->open(other);
    Receive receive;
    receive.into = memory;
    channel->post(receive);
    co_await world_->clock().sleep_for(20ms);
    channel->close(LinkError(Failure::kLate, "carol", "took too long"));
    EXPECT_TRUE(receive.ended());
    EXPECT_THROW(co_await receive.finish(), LinkError);
    auto sending = spared->send(Label{.type = 3});
    co_await std::move(sending);
    auto receiving = spared->receive();
    co_await std::move(receiving);
  };
  const auto bob = [&]() -> Task<> {
    const auto channel = bob_->open(kChannel), spared = bob_->open(other);
    std::vector<std::byte> nothing(5000);
    try {
      auto receiving = channel->receive(nothing);
      co_await std::move(receiving);
      ADD_FAILURE();
    } catch (const LinkError& error) {
      EXPECT_EQ(error.failure(), Failure::kLate);
      EXPECT_EQ(error.peer(), "carol");
      EXPECT_EQ(error.text(), "took too long");
    }
    EXPECT_THROW(co_await channel->send({}), LinkError);
    auto receiving = spared->receive();
    const Message message = co_await std::move(receiving);
    EXPECT_EQ(message.label.type, 3u);
    auto sending = spared->send({});
    co_await std::move(sending);
    auto ending = spared->receive();
    EXPECT_THROW(co_await std::move(ending), LinkError);
  };
  run_all(alice(), bob());
}

// Whoever gives up an operation may free its memory at once, wherever its bytes are.
TEST_P(LinkContractTest, AbandonedOperationsLeaveTheirMemoryAlone) {
  const ChannelId other{.purpose = 1, .generation = 1, .index = 1};
  const auto alice = [&]() -> Task<> {
    {
      const auto channel = alice_->open(kChannel);
      auto memory = std::make_unique<std::vector<std::byte>>(4 << 20);
      Send send;
      send.payload = *memory;
      channel->post(send);
      co_await world_->clock().sleep_for(2ms);
    }
    const auto spared = alice_->open(other);
    const auto payload = pattern(500000, 5);
    auto sending = spared->send({}, payload);
    co_await std::move(sending);
    auto receiving = spared->receive();
    co_await std::move(receiving);
  };
  const auto bob = [&]() -> Task<> {
    {
      const auto channel = bob_->open(kChannel);
      auto memory = std::make_unique<std::vector<std::byte>>(4 << 20);
      Receive receive;
      receive.into = *memory;
      channel->post(receive);
      co_await world_->clock().sleep_for(1ms);
    }
    const auto spared = bob_->open(other);
    std::vector<std::byte> payload(500000);
    auto receiving = spared->receive(payload);
    co_await std::move(receiving);
    EXPECT_EQ(payload, pattern(500000, 5));
    auto sending = spared->send({});
    co_await std::move(sending);
    auto ending = spared->receive();
    EXPECT_THROW(co_await std::move(ending), LinkError);
  };
  run_all(alice(), bob());
}

// A message that was given up half-way may arrive whole or fail, but never arrives as something else. Others keep the
// pipes full, so that it is given up in the middle of a frame, too.
TEST_P(LinkContractTest, WhatIsGivenUpHalfWayNeverArrivesWrong) {
  const auto payload = pattern(60000, 3), load = pattern(400000, 4);
  constexpr std::uint32_t kMoments = 60;
  constexpr ChannelId kLoad{.purpose = 2};
  const auto id = [](std::uint32_t moment) { return ChannelId{.purpose = 1, .generation = 2, .index = moment}; };
  const auto alice = [&]() -> Task<> {
    const auto loaded = alice_->open(kLoad);
    for (std::uint32_t moment = 0; moment < kMoments; ++moment) {
      const auto channel = alice_->open(id(moment));
      auto ready = channel->receive();
      co_await std::move(ready);
      Send others;
      others.payload = load;
      loaded->post(others);
      for (std::uint32_t i = 0; i < moment % 4; ++i) co_await yield();
      auto memory = payload;
      Send send;
      send.payload = memory;
      channel->post(send);
      for (std::uint32_t i = 0; i < moment / 4; ++i) co_await yield();
      channel->close();
      std::ranges::fill(memory, std::byte{0xee});
      co_await others.finish();
    }
  };
  const auto bob = [&]() -> Task<> {
    const auto loaded = bob_->open(kLoad);
    for (std::uint32_t moment = 0; moment < kMoments; ++moment) {
      const auto channel = bob_->open(id(moment));
      std::vector<std::byte> arrived(payload.size()), rest(load.size());
      Receive receive, others;
      receive.into = arrived;
      channel->post(receive);
      others.into = rest;
      loaded->post(others);
      auto saying = channel->send({});
      co_await std::move(saying);
      bool whole = true;
      try {
        co_await receive.finish();
      } catch (const LinkError&) {
        whole = false;
      }
      EXPECT_TRUE(!whole || arrived == payload) << "given up after " << moment / 4 << " turns";
      co_await others.finish();
      EXPECT_TRUE(rest == load);
    }
  };
  run_all(alice(), bob());
}

TEST_P(LinkContractTest, ClosingTheLinkTellsTheOtherEndWhyAfterWhatWasSent) {
  const auto alice = [&]() -> Task<> {
    const auto channel = alice_->open(kChannel);
    auto sending = channel->send(Label{.type = 9});
    co_await std::move(sending);
    alice_->close(LinkError(Failure::kRefused, "", "the party is over"));
    EXPECT_THROW(co_await channel->send({}), LinkError);
  };
  const auto bob = [&]() -> Task<> {
    auto ended = bob_->ended();
    const LinkError why = co_await std::move(ended);
    EXPECT_EQ(why.failure(), Failure::kRefused);
    EXPECT_STREQ(why.what(), "alice: the party is over");
    EXPECT_TRUE(bob_->has_ended());
    EXPECT_THROW(co_await bob_->open({.purpose = 7})->receive(), LinkError);
  };
  run_all(alice(), bob());
}

TEST_P(LinkContractTest, LinksOfThoseWhoHaveNothingToSayStayAlive) {
  connect({.heartbeat = 20ms, .silence = 1600ms});
  const auto wait = [&]() -> Task<> { co_await world_->clock().sleep_for(1s); };
  run_all(wait());
  EXPECT_FALSE(alice_->has_ended());
  EXPECT_FALSE(bob_->has_ended());
  EXPECT_GT(alice_->statistics().round_trip, Duration::zero() - 1ns);
}

TEST_P(LinkContractTest, TrafficIsCountedByPurpose) {
  constexpr std::size_t kLarge = 300'000, kSmall = 1'000;
  const auto talk = [&](Link& link, bool sends) -> Task<> {
    for (const auto& [purpose, size] : {std::pair<std::uint16_t, std::size_t>{2, kLarge}, {3, kSmall}}) {
      const auto channel = link.open({.purpose = purpose});
      std::vector<std::byte> payload(size);
      auto moving = sends ? channel->send({}, payload) : [](Channel& c, std::vector<std::byte>& p) -> Task<> {
        co_await c.receive(p);
      }(*channel, payload);
      co_await std::move(moving);
      auto answering = sends ? [](Channel& c) -> Task<> { co_await c.receive(); }(*channel) : channel->send({});
      co_await std::move(answering);
    }
  };
  run_all(talk(*alice_, true), talk(*bob_, false));
  for (const auto& [purpose, size] : {std::pair<std::uint16_t, std::size_t>{2, kLarge}, {3, kSmall}}) {
    EXPECT_GE(alice_->traffic(purpose).sent, size);
    EXPECT_LT(alice_->traffic(purpose).sent, size + size / 10 + 100);
    EXPECT_EQ(bob_->traffic(purpose).received, alice_->traffic(purpose).sent);
    EXPECT_EQ(bob_->traffic(purpose).sent, wire::kFrameHeaderBytes);
  }
  EXPECT_EQ(alice_->traffic(4).sent, 0u);
}

// Random traffic on several channels: whatever the order of posts, each message goes where it belongs.
TEST_P(LinkContractTest, ManyChannelsAtOnce) {
  constexpr int kChannels = 6, kMessages = 25;
  const auto size_of = [](int channel, int message) {
    Random random({static_cast<std::uint64_t>(channel), static_cast<std::uint64_t>(message)});
    return random.below(2) == 0 ? random.below(300) : random.below(200000);
  };
  const auto id_of = [](int c) {
    return ChannelId{.purpose = 2, .generation = 1, .index = static_cast<std::uint32_t>(c)};
  };
  const auto send = [&](Link& link, int c) -> Task<> {
    const auto channel = link.open(id_of(c));
    std::deque<std::vector<std::byte>> payloads;
    std::deque<Send> sends(kMessages);
    for (int m = 0; m < kMessages; ++m) {
      payloads.push_back(pattern(size_of(c, m), static_cast<std::uint64_t>(c * 1000 + m)));
      sends[static_cast<std::size_t>(m)].payload = payloads.back();
      channel->post(sends[static_cast<std::size_t>(m)]);
    }
    for (Send& s : sends) co_await s.finish();
    auto done = channel->receive();
    co_await std::move(done);
  };
  const auto receive = [&](Link& link, int c) -> Task<> {
    const auto channel = link.open(id_of(c));
    for (int m = 0; m < kMessages; ++m) {
      std::vector<std::byte> payload(size_of(c, m));
      auto receiving = channel->receive(payload);
      co_await std::move(receiving);
      EXPECT_EQ(payload, pattern(payload.size(), static_cast<std::uint64_t>(c * 1000 + m)));
      if ((c + m) % 4 == 0) co_await world_->clock().sleep_for(1ms);
    }
    auto done = channel->send({});
    co_await std::move(done);
    auto ending = channel->receive();
    EXPECT_THROW(co_await std::move(ending), LinkError);
  };
  std::vector<Task<>> tasks;
  for (int c = 0; c < kChannels; ++c) {
    tasks.push_back(send(c % 2 == 0 ? *alice_ : *bob_, c));
    tasks.push_back(receive(c % 2 == 0 ? *bob_ : *alice_, c));
  }
  run(std::move(tasks));
}

INSTANTIATE_TEST_SUITE_P(All, LinkContractTest,
                         ::testing::Combine(::testing::ValuesIn(testing::pipe_kinds()), ::testing::Values(1, 3)),
                         [](const auto& i) {
                           return std::get<0>(i.param).name + "_" + std::to_string(std::get<1>(i.param));
                         });

}  // namespace
}  // namespace rookery::net
