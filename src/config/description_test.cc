#include "config/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/settings.h"

namespace rookery::config {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    parse_peers(text, "peers.toml");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(DescriptionTest, SaysWhatPeersAndLinksAre) {
  const DescribedSwarm swarm = parse_peers(R"(
    [[peer]]
    name = "lab"
    count = 3
    memory = "8GiB"
    network = "campus"
    [[peer]]
    speed = 0.5
    uplink = "20mbit"
    latency = "5ms"
    [[link]]
    from = "lab"
    to = "peer-3"
    bandwidth = "1gbit"
    latency = "1ms")",
                                           "peers.toml");
  ASSERT_EQ(swarm.peers.size(), 2u);
  EXPECT_EQ(swarm.peers[0].count, 3);
  EXPECT_EQ(swarm.peers[0].memory, Bytes{8} << 30);
  EXPECT_EQ(swarm.peers[0].network, "campus");
  EXPECT_EQ(swarm.peers[0].uplink, std::nullopt);
  EXPECT_EQ(swarm.peers[1].uplink, 20e6);
  EXPECT_EQ(swarm.peers[1].latency, std::chrono::milliseconds(5));
  ASSERT_EQ(swarm.links.size(), 1u);
  EXPECT_EQ(swarm.links[0].bandwidth, 1e9);
}

TEST(DescriptionTest, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_THAT(refusal(""), HasSubstr("no peer"));
  EXPECT_THAT(refusal("[[peer]]\nspeed = 0\n"), HasSubstr("peers.toml:2: peer.0.speed"));
  EXPECT_THAT(refusal("[[peer]]\nnetwork = \"modem\"\n"), HasSubstr("peer.0.network"));
  EXPECT_THAT(refusal("[[peer]]\ncount = 0\n"), HasSubstr("peer.0.count"));
  EXPECT_THAT(refusal("[[peer]]\ncount = 90000\n[[peer]]\ncount = 90000\n"), HasSubstr("180000 peers"));
  EXPECT_THAT(refusal("[[peer]]\n[[link]]\nbandwith = \"1gbit\"\n"), HasSubstr("bandwidth"));
  EXPECT_THAT(refusal("[train]\nsteps = 3\n[[peer]]\n"), HasSubstr("train"));
}

TEST(ChangedTest, OverridesSettingsAndChecksThem) {
  const Settings settings = load({}, std::vector<std::string>{"swarm.peers=4"});
  const Settings other = changed(settings, std::vector<std::string>{"sync.method=diloco", "sync.interval=64"});
  EXPECT_EQ(other.sync.method, "diloco");
  EXPECT_EQ(other.sync.interval, 64);
  EXPECT_EQ(other.swarm.peers, 4);
  EXPECT_THROW(changed(settings, std::vector<std::string>{"swarm.clusters=5"}), InputError);
}

// Whatever settings say of how many there are, and of those on this computer.
TEST(DescriptionTest, SettingsAreForAsManyPeersAsAreDescribed) {
  const DescribedSwarm swarm = parse_peers("[[peer]]\ncount = 3\n[[peer]]\n", "peers.toml");
  const std::vector<std::string> more = {"swarm.peers=8", "peer.7.speed=0.5", "swarm.clusters=4"};
  const Settings settings = load({}, more, swarm);
  EXPECT_EQ(settings.swarm.peers, 4);
  EXPECT_TRUE(settings.peers.empty());
  EXPECT_THROW(load({}, std::vector<std::string>{"swarm.peers=8", "swarm.clusters=8"}, swarm), InputError);
}

constexpr const char* kScenario = R"(
  name = "what-if"
  [train]
  steps = 40
  [swarm]
  clusters = 2
  [simulate]
  compute = "real"
  time = "1h"
  scale = 10
  [[peer]]
  name = "lab"
  count = 3
  step_time = "50ms"
  [[peer]]
  speed = 0.5
  within = "10gbit")";

TEST(ScenarioTest, HasARunItsComputersAndHowItIsSimulated) {
  const std::vector<std::string> changes = {"train.lr=0.5", "peer.1.speed=2", "simulate.heartbeat=5s"};
  const Scenario scenario = parse_scenario(kScenario, "scenario.toml", changes);
  EXPECT_EQ(scenario.settings.name, "what-if");
  EXPECT_EQ(scenario.settings.train.lr, 0.5);
  EXPECT_EQ(scenario.settings.swarm.peers, 4);
  EXPECT_EQ(scenario.simulate.compute, "real");
  EXPECT_EQ(scenario.simulate.scale, 10);
  EXPECT_EQ(scenario.simulate.time, std::chrono::hours(1));
  EXPECT_EQ(scenario.simulate.heartbeat, std::chrono::seconds(5));
  EXPECT_EQ(scenario.swarm.peers[0].step_time, std::chrono::milliseconds(50));
  EXPECT_EQ(scenario.swarm.peers[1].speed, 2);
  EXPECT_EQ(scenario.swarm.peers[1].within, 10e9);
  EXPECT_EQ(parse_scenario(to_toml(scenario), "again"), scenario);
}

TEST(ScenarioTest, WhatIsWrongIsSaidWithItsPlace) {
  const auto refusal_of = [](const std::string& text) {
    try {
      parse_scenario(text, "scenario.toml");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal_of("[train]\nsteps = 3\n"), HasSubstr("there is no peer"));
  EXPECT_THAT(refusal_of("[network]\nlatency = '1ms'\n[[peer]]\n"), HasSubstr("scenario.toml:1: network"));
  EXPECT_THAT(refusal_of("[[peer]]\n[simulate]\nscale = 0\n"), HasSubstr("scenario.toml:3"));
  EXPECT_THAT(refusal_of("[[peer]]\ncount = 90000\n[[peer]]\ncount = 90000\n"), HasSubstr("180000 peers"));
  EXPECT_THAT(refusal_of("[swarm]\nclusters = 3\n[[peer]]\n"), HasSubstr("swarm.clusters"));
}

}  // namespace
}  // namespace rookery::config
