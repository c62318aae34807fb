#include "wire/swarm_message.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace rookery::wire {
namespace {

Contact contact(const std::string& name, int key) {
  Contact contact{.name = name, .addresses = {"192.168.1.5:4700"}};
  contact.fingerprint.fill(static_cast<std::byte>(key));
  return contact;
}

Plan plan() {
  return {.generation = 3,
          .peers = {{.contact = contact("attic", 1), .cluster = 0, .weight = 4, .host = "a"},
                    {.contact = contact("cellar", 2),
                     .cluster = 1,
                     .weight = 8,
                     .host = "b",
                     .since = 2,
                     .from = 17,
                     .here = false,
                     .restores = true,
                     .empty = true}},
          .settings = {"sync.method=diloco", "sync.interval=64"},
          .step_seconds = 0.5,
          .first_step = 8,
          .first_sample = 640};
}

Saved saved(const FileFacts& file) { return {.step = 1, .files = {file}}; }

TEST(SwarmMessageTest, EveryMessageComesBackAsItWas) {
  const std::vector<SwarmMessage> messages = {
      Introduction{.contact = contact("attic", 1), .memory = std::uint64_t{1} << 33, .host = "4f2a"},
      Introduction{.contact = contact("attic-2", 1), .stands_in = true},
      Assignment{.settings = "name = \"x\"\n"},
      Assignment{.settings = "x",
                 .data = {{.name = "source/my book.txt", .size = 5, .digest = std::string(64, 'a')}},
                 .checkpoint = {{.name = "index.json", .size = 0, .digest = std::string(64, '0')}}},
      Look{.measured = true},
      Ready{.data = "sha256:12",
            .model = "sha256:34",
            .parameters = 800000,
            .about = "gpt on tales",
            .resident = 7,
            .available = 1 << 30,
            .speed = 0.5,
            .step_time = 0.25,
            .jitter = 0.125,
            .update = 1e-9,
            .byte_cost = 1e-9,
            .hop = 1e-5,
            .cores = 8,
            .layers = {{.forward = 0.5, .backward = 1}, {.forward = 0.25, .backward = 0.5}}},
      Survey{.number = 2, .peers = {contact("attic", 1), contact("cellar", 2)}},
      Surveyed{.number = 2,
               .links = {{.peer = 1, .bandwidth = 1e6, .latency = 0.02, .while_sharing = 5e5}, {.peer = 0}},
               .crowding = 1.25},
      Surveyed{.number = 2, .culprit = "attic", .text = "nobody listens there"},
      plan(),
      Linked{.generation = 3},
      Begin{.generation = 3},
      StepReport{.step = 7,
                 .loss = 2.5,
                 .lr = 1e-3,
                 .grad_norm = 0.5,
                 .samples = 16,
                 .tokens = 2048,
                 .compute_seconds = 0.25,
                 .wait_seconds = 0.125,
                 .bytes_sent = 100,
                 .bytes_received = 99,
                 .drift = 0.75,
                 .rounds_failed = 2},
      StepReport{.step = 8, .pulled = true},
      Evaluated{.step = 100, .split = "eval", .loss = 1.5, .accuracy = 0.5, .consensus_distance = 0.01},
      Evaluated{.step = 100, .split = "eval", .loss = 1.5, .own = true},
      Saved{.step = 100, .files = {{.name = "index.json", .size = 7, .digest = std::string(64, 'f')}}},
      Kept{.step = 100},
      Halted{.step = 17},
      EndAt{.step = 18},
      Restored{.generation = 4},
      Paused{.generation = 3},
      Ended{.peak_memory = 1 << 30, .busy_share = 0.9, .rounds = 12, .rounds_failed = 3},
      Ended{.entropy_floor = 0.5},
      Ended{.links = {{.peer = 2, .bandwidth = 1e6, .latency = 0.01}}},
      Failed{.culprit = "attic", .text = "the connection was closed"},
      Failed{.text = "out of memory"},
      Suspected{.culprit = "attic", .text = "brought values that are no numbers"},
      Missed{.who = "attic", .came = 3, .text = "was silent"},
      Returned{.generation = 3,
               .introduction = {.contact = contact("attic", 1), .memory = 5},
               .ready = {.data = "a", .model = "b", .parameters = 7, .about = "two cores", .layers = {{.forward = 1}}}},
      Known{.step = 17},
      Held{.step = 40},
      Covered{.step = 40},
      StandIn{},
      Look{},
      Shown{.text = "{}"},
      Hold{.number = 3},
      Holding{.step = 41, .number = 3},
      Release{},
      Release{.save_after = 41, .holds_again = true},
      Activity{.resident = 1 << 20,
               .spans = {{.kind = 2, .begin = 0.75, .seconds = 0.25}},
               .traffic = {{.peer = 1, .sent = 12345, .bandwidth = 1e6, .latency = 0.01}, {.peer = 2, .sent = 1}},
               .log = {"got 3 MiB from 2 peers"}},
      Stop{.reason = "interrupted"},
      Stop{.reason = "planned anew", .moves = true}};
  for (const SwarmMessage& message : messages) {
    EXPECT_EQ(decode_swarm_message(encode(message)), message) << message.index();
  }
}

// A loss that is no number must reach those who look at it.
TEST(SwarmMessageTest, ALossMayBeNoNumber) {
  const auto bytes = encode(StepReport{.step = 1, .loss = std::numeric_limits<double>::quiet_NaN()});
  EXPECT_TRUE(std::isnan(std::get<StepReport>(decode_swarm_message(bytes)).loss));
}

TEST(SwarmMessageTest, WhatIsWrongIsRefused) {
  Plan twice = plan(), same_key = plan(), weightless = plan(), nobody = plan(), far = plan();
  twice.peers[1].contact.name = "attic";
  same_key.peers[1].contact.fingerprint = same_key.peers[0].contact.fingerprint;
  weightless.peers[0].weight = 0;
  nobody.peers.clear();
  far.peers[0].cluster = 5000;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<SwarmMessage> wrong = {twice,
                                           same_key,
                                           weightless,
                                           nobody,
                                           far,
                                           Introduction{.contact = contact("", 1)},
                                           Introduction{.contact = contact("attic", 1), .host = "two words"},
                                           Assignment{},
                                           Assignment{.settings = std::string(kMaxSettingsBytes + 1, 'x')},
                                           Ready{.data = "", .model = "a"},
                                           Ready{.data = "a\x1b[2J", .model = "a"},
                                           Ready{.data = "a", .model = std::string(200, 'a')},
                                           Ready{.data = "a", .model = "a", .jitter = nan},
                                           Ready{.data = "a", .model = "a", .layers = {{.forward = -1}}},
                                           Survey{},
                                           Survey{.peers = {contact("attic", 1), contact("attic", 2)}},
                                           Surveyed{.links = {{.peer = 1}, {.peer = 1}}},
                                           Surveyed{.links = {{.peer = 1, .bandwidth = -1}}},
                                           Surveyed{.crowding = -1},
                                           Surveyed{.culprit = "two words"},
                                           Activity{.traffic = {{.peer = 1, .bandwidth = -1}}},
                                           Activity{.traffic = {{.peer = 1, .latency = nan}}},
                                           Suspected{.culprit = "", .text = "nobody"},
                                           Suspected{.culprit = "two words"},
                                           StepReport{.step = 1, .lr = nan},
                                           StepReport{.step = 1, .compute_seconds = -1},
                                           Evaluated{.step = 1, .split = "train"},
                                           saved({.name = "a", .size = 1, .digest = "12"}),
                                           saved({.name = "a", .size = 1, .digest = std::string(64, 'g')}),
                                           saved({.name = "../a", .size = 1, .digest = std::string(64, 'a')}),
                                           saved({.name = "/a", .size = 1, .digest = std::string(64, 'a')}),
                                           saved({.name = "a//b", .size = 1, .digest = std::string(64, 'a')}),
                                           saved({.name = "a/", .size = 1, .digest = std::string(64, 'a')}),
                                           saved({.name = "a/.b", .size = 1, .digest = std::string(64, 'a')}),
                                           Ended{.links = {{.peer = 1}, {.peer = 1}}},
                                           Ended{.busy_share = std::numeric_limits<double>::infinity()}};
  for (const SwarmMessage& message : wrong) {
    EXPECT_THROW(decode_swarm_message(encode(message)), WireError) << message.index();
  }
  const std::vector<std::byte> bytes = encode(plan());
  EXPECT_THROW(decode_swarm_message(std::span(bytes).first(30)), WireError);
  EXPECT_THROW(decode_swarm_message({}), WireError);
}

TEST(SwarmMessageTest, ALongReasonIsSaidInPart) {
  const auto bytes = encode(Stop{.reason = std::string(5000, 'a')});
  EXPECT_EQ(std::get<Stop>(decode_swarm_message(bytes)).reason, std::string(kMaxReasonBytes, 'a'));
}

TEST(SwarmMessageTest, AReasonCanBeShown) {
  const auto bytes = encode(Stop{.reason = "a\x1b[2Jb"});
  EXPECT_EQ(std::get<Stop>(decode_swarm_message(bytes)).reason, "a [2Jb");
}

}  // namespace
}  // namespace rookery::wire
