#include "measure/survey.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "collective/testing/virtual_mesh.h"

namespace rookery::measure {
namespace {

using namespace std::chrono_literals;
using collective::testing::VirtualMesh;

TEST(SurveyTest, EverybodyMeetsEverybodyOnce) {
  for (std::size_t peers = 1; peers <= 17; ++peers) {
    std::set<std::pair<std::size_t, std::size_t>> met;
    for (std::size_t round = 0; round < peers - 1 + peers % 2; ++round) {
      const std::vector<std::size_t> partner = partners(peers, round);
      for (std::size_t i = 0; i < peers; ++i) {
        ASSERT_EQ(partner[partner[i]], i) << peers << " peers, round " << round;
        if (partner[i] > i) {
          EXPECT_TRUE(met.emplace(i, partner[i]).second);
        }
      }
    }
    EXPECT_EQ(met.size(), peers * (peers - 1) / 2) << peers << " peers";
  }
}

struct Surveyed {
  std::vector<std::vector<SurveyedLink>> links;
  Duration took{};
};

Surveyed surveyed(std::size_t peers, net::LineOptions line, SurveyOptions options = {}) {
  VirtualMesh mesh(peers, line);
  Surveyed result{.links = std::vector<std::vector<SurveyedLink>>(peers)};
  const auto outcomes = mesh.run(
      [&](std::size_t rank) -> Task<> {
        auto looking = survey(mesh.world().clock(), rank, mesh.links(rank), options);
        result.links[rank] = co_await std::move(looking);
        result.took = std::max(result.took, mesh.world().clock().now() - Time{});
      },
      Time{} + 1min);
  for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << outcome->what();
  return result;
}

TEST(SurveyTest, FindsWhatTheLinesAre) {
  struct Case {
    double bandwidth;
    Duration latency;
  };
  for (const Case& c : {Case{10e6, 20ms}, Case{100e6, 1ms}, Case{1e9, 200us}, Case{2e6, 50ms}, Case{100e6, 40ms}}) {
    const Surveyed result = surveyed(4, {.bandwidth = c.bandwidth, .latency = c.latency});
    for (const auto& links : result.links) {
      ASSERT_EQ(links.size(), 3u);
      for (const SurveyedLink& link : links) {
        EXPECT_NEAR(link.bandwidth, c.bandwidth / 8, 0.05 * c.bandwidth / 8);
        EXPECT_NEAR(link.latency, std::chrono::duration<double>(c.latency).count(),
                    0.1 * std::chrono::duration<double>(c.latency).count() + 5e-4);
      }
    }
  }
}

TEST(SurveyTest, EightPeersTakeLessThanTwoSeconds) {
  EXPECT_LT(surveyed(8, {.bandwidth = 10e6, .latency = 20ms}).took, 2s);
  EXPECT_LT(surveyed(8, {.bandwidth = 1e9, .latency = 1ms}).took, 1s);
}

TEST(SurveyTest, ManyPeersMeetSomeOfTheOthers) {
  const Surveyed result = surveyed(24, {.bandwidth = 100e6, .latency = 1ms}, {.most_partners = 5});
  for (const auto& links : result.links) {
    EXPECT_GE(links.size(), 5u);
    EXPECT_LE(links.size(), 7u);
    for (const SurveyedLink& link : links) EXPECT_EQ(link.bandwidth > 0, link.latency > 0) << "both, or it was not met";
    EXPECT_EQ(std::ranges::count_if(links, [](const SurveyedLink& link) { return link.latency > 0; }), 5);
  }
}

TEST(SurveyTest, WhoeverIsLostIsNamed) {
  VirtualMesh mesh(4, {.bandwidth = 10e6, .latency = 10ms});
  const auto outcomes = mesh.run(
      [&](std::size_t rank) -> Task<> {
        if (rank == 2) {
          auto sleeping = mesh.world().clock().sleep_for(50ms);
          co_await std::move(sleeping);
          mesh.kill(2);
          co_return;
        }
        std::optional<net::LinkError> failure;
        try {
          auto looking = survey(mesh.world().clock(), rank, mesh.links(rank));
          co_await std::move(looking);
        } catch (const net::LinkError& error) {
          failure = error;
        }
        for (net::Link* link : mesh.links(rank)) {
          if (link != nullptr && failure) link->close(*failure);  // the others learn who it was
        }
        if (failure) throw net::LinkError(*failure);
      },
      Time{} + 1min);
  for (const std::size_t rank : {0u, 1u, 3u}) {
    ASSERT_TRUE(outcomes[rank]) << rank;
    EXPECT_EQ(outcomes[rank]->peer(), "p2") << outcomes[rank]->what();
  }
}

TEST(SurveyTest, WhoeverSaysNothingIsLate) {
  VirtualMesh mesh(2);
  const auto outcomes = mesh.run(
      [&](std::size_t rank) -> Task<> {
        if (rank == 1) {
          auto sleeping = mesh.world().clock().sleep_for(10s);
          co_await std::move(sleeping);
          co_return;
        }
        auto looking = survey(mesh.world().clock(), rank, mesh.links(rank), {.patience = 5s});
        co_await std::move(looking);
      },
      Time{} + 1min);
  ASSERT_TRUE(outcomes[0]);
  EXPECT_EQ(outcomes[0]->failure(), net::Failure::kLate);
}

}  // namespace
}  // namespace rookery::measure
