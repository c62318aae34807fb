#include "sync/link_rounds.h"

#include <atomic>
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
  const Topology topology("finite", std::vector<Member>(kPeers));
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
        const auto mixing = rounds.mix(c, topology.mix(rank, step));
        co_await mixing->finish();
      }
      for (const float value : c) EXPECT_NEAR(value, 3, 1e-5);
    }
  });
}

// Its memory may be freed at once.
TEST_F(LinkRoundsTest, ARoundThatIsGivenUpFailsForAll) {
  run([&](std::size_t rank, LinkRounds& rounds) -> Task<> {
    auto values = std::make_unique<std::vector<float>>(1000000, 1.0f);
    auto round = rounds.average(0, *values, 1.0f, {});
    if (rank == 1) {
      round.reset();
      values.reset();
      co_return;
    }
    EXPECT_THROW(co_await round->finish(), net::LinkError);
    const auto later = rounds.average(1, *values, 1.0f, {});
    EXPECT_THROW(co_await later->finish(), net::LinkError);
  });
}

}  // namespace
}  // namespace rookery::sync
