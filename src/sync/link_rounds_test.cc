#include "sync/link_rounds.h"

#include <atomic>
#include <latch>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <gtest/gtest.h>

#include "base/real_world.h"
#include "collective/testing/virtual_mesh.h"

namespace rookery::sync {
namespace {

using namespace std::chrono_literals;

// Three peers whose network is this thread's, and whose training goes on on threads of its own.
class LinkRoundsTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kPeers = 3;

  void run(const std::function<Task<>(std::size_t rank, LinkRounds& rounds)>& work) {
    std::vector<std::unique_ptr<boost::asio::io_context>> homes;
    std::vector<std::unique_ptr<LinkRounds>> rounds;
    for (std::size_t rank = 0; rank < kPeers; ++rank) {
      homes.push_back(std::make_unique<boost::asio::io_context>());
      rounds.push_back(std::make_unique<LinkRounds>(world_.clock(), homes[rank]->get_executor(), rank,
                                                    mesh_.links(rank), LinkRoundsOptions{.slots = 2}));
    }
    std::atomic<std::size_t> busy = kPeers;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < kPeers; ++rank) {
      threads.emplace_back([&, rank] {
        boost::asio::co_spawn(*homes[rank], work(rank, *rounds[rank]), [](std::exception_ptr failure) {
          if (failure) std::rethrow_exception(failure);
        });
        homes[rank]->run();
        --busy;
      });
    }
    const auto until_done = [&]() -> Task<> {
      while (busy > 0) co_await world_.clock().sleep_for(1ms);
    };
    world_.run(until_done(), 60s);
    for (std::thread& thread : threads) thread.join();
  }

  RealWorld world_;
  collective::testing::Mesh mesh_{world_.clock(), kPeers};
};

TEST_F(LinkRoundsTest, WhoeverStartsRoundsMayLiveOnAnotherThread) {
  const plan::Topology topology("finite", std::vector<plan::Member>(kPeers));
  run([&](std::size_t rank, LinkRounds& rounds) -> Task<> {
    for (int i = 0; i < 50; ++i) {
      std::vector<float> a(10000, static_cast<float>(rank + 1)), b(100, static_cast<float>(rank));
      const auto first = rounds.average(0, a, 0.5f, {}), second = rounds.average(1, b, 1.0f, {});
      co_await second->finish();
      co_await first->finish();
      EXPECT_EQ(a, std::vector<float>(10000, 3.0f));
      EXPECT_EQ(b, std::vector<float>(100, 3.0f));
      std::vector<float> c(5000, static_cast<float>(3 * rank));
      for (std::size_t step = 0; step < topology.period(); ++step) {
        const auto mixing = rounds.mix(step + 1, c, topology.mix(rank, step));
        co_await mixing->finish();
      }
      for (const float value : c) EXPECT_NEAR(value, 3, 1e-5);
    }
  });
}

// Its memory may be freed at once. The last peer comes when that has happened, so that the round cannot end before.
TEST_F(LinkRoundsTest, ARoundThatIsGivenUpFailsForAll) {
  std::latch given_up(1);
  run([&](std::size_t rank, LinkRounds& rounds) -> Task<> {
    if (rank == 2) given_up.wait();
    auto values = std::make_unique<std::vector<float>>(1000000, 1.0f);
    auto round = rounds.average(0, *values, 1.0f, {});
    if (rank == 1) {
      round.reset();
      values.reset();
      given_up.count_down();
      co_return;
    }
    EXPECT_THROW(co_await round->finish(), net::LinkError);
    const auto later = rounds.average(1, *values, 1.0f, {});
    EXPECT_THROW(co_await later->finish(), net::LinkError);
  });
}

// Averages of more peers than a ring may have: the serial sum, to the same bits on all, with and without a codec.
TEST(GridRoundsTest, ManyPeersAverageInSmallRings) {
  for (const auto codec : {collective::Codec::kNone, collective::Codec::kInt8}) {
    for (const auto& [peers, together] : std::vector<std::pair<std::size_t, std::size_t>>{
             {5, 1}, {6, 1}, {7, 1}, {11, 1}, {12, 1}, {27, 1}, {4, 2}, {6, 3}, {10, 2}, {18, 3}}) {
      collective::testing::VirtualMesh mesh(peers, {.latency = 1ms});
      std::vector<std::vector<float>> values(peers, std::vector<float>(1000));
      std::vector<double> expected(1000);
      for (std::size_t rank = 0; rank < peers; ++rank) {
        for (std::size_t i = 0; i < 1000; ++i) {
          values[rank][i] = static_cast<float>(rank * 7 + i % 13) / 10;
          expected[i] += static_cast<double>(values[rank][i]) / static_cast<double>(peers);
        }
      }
      const auto task = [&](std::size_t rank) -> Task<> {
        Clock& clock = mesh.world().clock();
        LinkRounds rounds(clock, clock.executor(), rank, mesh.links(rank),
                          {.group = 3, .together = together, .codec = codec});
        EXPECT_EQ(rounds.peers(), peers);
        const auto round = rounds.average(0, values[rank], 1.0f / static_cast<float>(peers), {});
        auto finishing = round->finish();
        co_await std::move(finishing);
        auto staying = clock.sleep_for(1s);
        co_await std::move(staying);
      };
      for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
      const double tolerance = codec == collective::Codec::kNone ? 1e-4 : 0.3;
      for (std::size_t rank = 0; rank < peers; ++rank) {
        EXPECT_EQ(values[rank], values[0]) << peers << " peers, rank " << rank;
        for (std::size_t i = 0; i < 1000; ++i) ASSERT_NEAR(values[rank][i], expected[i], tolerance);
      }
    }
  }
}

// However many rings there are, nobody sends more than in a single one; and of what leaves a computer, each of its
// peers sends a share.
TEST(GridRoundsTest, EachPeerSendsWhatItWouldInOneRing) {
  constexpr std::size_t kPeers = 12, kTogether = 4, kValues = 12'000;
  for (const std::size_t together : {std::size_t{1}, kTogether}) {
    collective::testing::VirtualMesh mesh(kPeers, {.latency = 1ms});
    std::vector<std::vector<float>> values(kPeers, std::vector<float>(kValues, 1.0f));
    std::vector<std::uint64_t> all(kPeers), abroad(kPeers);
    const auto task = [&](std::size_t rank) -> Task<> {
      Clock& clock = mesh.world().clock();
      LinkRounds rounds(clock, clock.executor(), rank, mesh.links(rank), {.group = 4, .together = together});
      const auto round = rounds.average(0, values[rank], 1.0f, {});
      auto finishing = round->finish();
      co_await std::move(finishing);
      auto staying = clock.sleep_for(1s);
      co_await std::move(staying);
      for (std::size_t other = 0; other < kPeers; ++other) {
        if (other == rank) continue;
        const std::uint64_t sent = mesh.links(rank)[other]->statistics().payload_sent;
        all[rank] += sent;
        if (other / kTogether != rank / kTogether) abroad[rank] += sent;
      }
    };
    for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
    for (std::size_t rank = 0; rank < kPeers; ++rank) {
      EXPECT_EQ(values[rank], std::vector<float>(kValues, float{kPeers}));
      EXPECT_EQ(all[rank], 2 * (kPeers - 1) * kValues * sizeof(float) / kPeers);
      if (together > 1) {
        EXPECT_EQ(abroad[rank], 2 * 2 * (kValues / kTogether) * sizeof(float) / 3);
      }
    }
  }
}

// Groups that average do so on rings, if they are large enough: everybody ends with the mean, to the same bits.
TEST(GroupRingTest, LargeGroupsMixToTheMean) {
  constexpr std::size_t kMembers = 5;
  const plan::Topology topology("complete", std::vector<plan::Member>{{1}, {2}, {1}, {3}, {1}});
  collective::testing::VirtualMesh mesh(kMembers, {.latency = 1ms});
  std::vector<std::vector<float>> values(kMembers);
  std::uint64_t sent = 0;
  const auto task = [&](std::size_t rank) -> Task<> {
    Clock& clock = mesh.world().clock();
    LinkRounds rounds(clock, clock.executor(), rank, mesh.links(rank), {});
    for (std::uint64_t step = 0; step < 3; ++step) {
      values[rank].assign(10'000, static_cast<float>(rank + step));
      const auto round = rounds.mix(step + 1, values[rank], topology.mix(rank, step));
      auto finishing = round->finish();
      co_await std::move(finishing);
      EXPECT_NEAR(values[rank][77], (0 + 2 + 2 + 9 + 4) / 8.0 + static_cast<double>(step), 1e-5);
      EXPECT_EQ(values[rank][77], values[rank][9'999]);
    }
    auto staying = clock.sleep_for(1s);
    co_await std::move(staying);
    if (rank != 0) co_return;
    for (const net::Link* link : mesh.links(rank)) sent += link != nullptr ? link->statistics().payload_sent : 0;
  };
  for (const auto& outcome : mesh.run(task, Time(1h))) EXPECT_FALSE(outcome) << outcome->what();
  for (const auto& own : values) EXPECT_EQ(own, values[0]);
  EXPECT_EQ(sent, 3u * 2 * (kMembers - 1) * 10'000 * sizeof(float) / kMembers);
}

}  // namespace
}  // namespace rookery::sync
