#include "plan/runtime.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::plan {
namespace {

constexpr double kSecond = 1;

// Layers of a million parameters that take 0.1 s forward and 0.2 s backward each.
ModelProfile layers(std::size_t count) {
  return ModelProfile(count, {.parameters = 1'000'000,
                              .forward = 0.1,
                              .backward = 0.2,
                              .activations = 1000,
                              .border = 1'000'000,
                              .gradients = 1'000'000});
}

Swarm swarm_of(std::size_t peers, Link link) {
  Swarm swarm;
  swarm.peers.resize(peers);
  for (std::size_t from = 0; from < peers; ++from) {
    for (std::size_t to = 0; to < peers; ++to) {
      if (from != to) swarm.links[{from, to}] = link;
    }
  }
  return swarm;
}

Job job_of(std::size_t layer_count, std::uint64_t steps = 64) {
  return {.model = layers(layer_count), .samples = 8, .steps = steps, .clips = false};
}

// Each peer with a copy.
Candidate copies(const Job& job, const Swarm& swarm, MethodOptions method) {
  Candidate candidate{.schedule = {.schedule = Schedule::k1f1b}, .method = method};
  for (std::size_t i = 0; i < swarm.peers.size(); ++i) {
    candidate.clusters.push_back({i});
    const auto workers = workers_of(swarm, candidate.clusters.back(), 1);
    candidate.partitions.push_back(partition(job.model, workers, candidate.schedule, job.keeping));
  }
  return candidate;
}

Candidate pipeline(const Job& job, const Swarm& swarm, ScheduleOptions schedule) {
  Candidate candidate{.clusters = {{}}, .schedule = schedule, .method = {.method = Method::kNone}};
  for (std::size_t i = 0; i < swarm.peers.size(); ++i) candidate.clusters[0].push_back(i);
  const auto workers = workers_of(swarm, candidate.clusters[0], schedule.micro_batches);
  candidate.partitions.push_back(partition(job.model, workers, schedule, job.keeping));
  return candidate;
}

double step_of(const Job& job, const Swarm& swarm, MethodOptions method) {
  return predict(job, swarm, copies(job, swarm, method)).step_seconds;
}

TEST(RuntimeTest, APeerAloneComputes) {
  const Job job = job_of(4);
  Swarm swarm = swarm_of(1, {});
  EXPECT_NEAR(step_of(job, swarm, {}), 1.2 * kSecond, 1e-9);
  swarm.peers[0].update = 1e-8;
  EXPECT_NEAR(step_of(job, swarm, {}), 1.24 * kSecond, 1e-9);
  swarm.peers[0].pace = 0.5;
  EXPECT_NEAR(step_of(job, swarm, {}), 2.44 * kSecond, 1e-9);
}

TEST(RuntimeTest, AnAllReduceThatFitsIntoBackwardIsHiddenButForItsLastBucket) {
  const Job job = job_of(4);
  // 4 buckets of 4 MB; each peer sends 2·3/4 of each, in 0.06 s, and each is ready 0.2 s after the one before.
  const Swarm swarm = swarm_of(4, {.bandwidth = 1e8});
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kAllReduce}), 1.26 * kSecond, 1e-3);
  const Prediction prediction = predict(job, swarm, copies(job, swarm, {.method = Method::kAllReduce}));
  EXPECT_NEAR(prediction.bytes_sent[0], 4 * 4e6 * 1.5, 1);
  EXPECT_NEAR(prediction.samples_per_second, 32 / prediction.step_seconds, 1e-9);
}

TEST(RuntimeTest, AnAllReduceOnSlowLinksTakesWhatTheLinksTake) {
  const Job job = job_of(4);
  const Swarm swarm = swarm_of(4, {.bandwidth = 1e6});
  // The first bucket is ready after forward and one layer of backward.
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kAllReduce}), 0.4 + 0.2 + 24, 0.3);
}

TEST(RuntimeTest, EverybodyWaitsForTheSlowestOnlyWithAllReduce) {
  const Job job = job_of(4, 400);
  Swarm swarm = swarm_of(8, {.bandwidth = 1e9});
  for (Peer& peer : swarm.peers) peer.jitter = 0.2;
  const double all_reduce = step_of(job, swarm, {.method = Method::kAllReduce});
  // E[max] of 8 normal variables is 1.42 standard deviations above the mean.
  EXPECT_NEAR(all_reduce, 1.2 * (1 + 0.2 * 1.42) + 0.01, 0.03);
  const double gossip = step_of(job, swarm, {.method = Method::kGossip});
  EXPECT_LT(gossip, 1.2 * (1 + 0.2 * 0.9));
  const double local = step_of(job, swarm, {.method = Method::kLocalSgd, .interval = 25});
  EXPECT_LT(local, 1.2 * (1 + 0.2 * 0.5));
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 1.2, 0.02);
}

TEST(RuntimeTest, GossipIsHiddenUntilAnExchangeTakesLongerThanAStep) {
  const Job job = job_of(4, 400);
  const auto at = [&](double bandwidth) {
    return step_of(job, swarm_of(4, {.bandwidth = bandwidth}), {.method = Method::kGossip});
  };
  EXPECT_NEAR(at(16e6), 1.2, 0.01);      // an exchange takes 1 s
  EXPECT_NEAR(at(16e6 / 3), 3.0, 0.02);  // and here 3 s
  const Swarm swarm = swarm_of(4, {.bandwidth = 16e6});
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kGossip, .waits = true}), 2.2, 0.01);
}

// What was measured of a peer's card was its own part.
TEST(RuntimeTest, AMeasuredUplinkIsChargedWithThePeersOwnBytes) {
  const Job job = job_of(4, 400);
  Swarm swarm = swarm_of(4, {.bandwidth = 16e6});
  for (Peer& peer : swarm.peers) peer.host = "here";
  swarm.peers[1].uplink = 16e6;
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kGossip, .waits = true}), 2.2, 0.01);
}

// An asynchronous pipeline makes an update after every micro-batch, and each has an exchange.
TEST(RuntimeTest, GossipOfAnAsynchronousPipelineGoesByUpdates) {
  const Job job = job_of(4, 200);
  const Swarm swarm = swarm_of(4, {.bandwidth = 8e6});
  Candidate candidate{.clusters = {{0, 1}, {2, 3}},
                      .schedule = {.schedule = Schedule::kAsync, .micro_batches = 4},
                      .method = {.method = Method::kGossip}};
  for (const auto& peers : candidate.clusters) {
    const auto workers = workers_of(swarm, peers, 4);
    candidate.partitions.push_back(partition(job.model, workers, candidate.schedule, job.keeping));
  }
  EXPECT_NEAR(predict(job, swarm, candidate).step_seconds, 4 * 8e6 / 8e6, 0.05);
}

TEST(RuntimeTest, LocalMethodsPayForARoundEveryInterval) {
  const Job job = job_of(4, 400);
  const Swarm swarm = swarm_of(4, {.bandwidth = 4e6});  // a round takes 6 s
  const MethodOptions local{.method = Method::kLocalSgd, .interval = 20};
  EXPECT_NEAR(step_of(job, swarm, local), 1.2 + 6.0 / 20, 0.01);
  MethodOptions overlapped = local;
  overlapped.delay = 10;
  EXPECT_NEAR(step_of(job, swarm, overlapped), 1.2, 0.02);  // everybody waits for the last round
  MethodOptions pulling{.method = Method::kPalsgd, .interval = 20, .pull_probability = 0.5};
  EXPECT_NEAR(step_of(job, swarm, pulling), 0.6 + 6.0 / 20,
              0.2);  // clusters draw for themselves, and wait for each other
  const Prediction prediction = predict(job, swarm, copies(job, swarm, local));
  EXPECT_NEAR(prediction.bytes_sent[0], 16e6 * 1.5 / 20, 1);
}

TEST(RuntimeTest, PipelinesHaveTheBubblesOfTheirSchedules) {
  const Job job = job_of(4);
  const Swarm swarm = swarm_of(4, {.bandwidth = 1e12});
  const ScheduleOptions gpipe{.schedule = Schedule::kGpipe, .micro_batches = 4};
  EXPECT_NEAR(predict(job, swarm, pipeline(job, swarm, gpipe)).step_seconds, 0.3 * 7, 1e-3);
  const ScheduleOptions async{.schedule = Schedule::kAsync, .micro_batches = 4};
  EXPECT_NEAR(predict(job, swarm, pipeline(job, swarm, async)).step_seconds, 0.3 * 4, 0.05);
}

TEST(RuntimeTest, PeersOfOneComputerShareItsProcessorsAndTheirCaches) {
  constexpr double kCrowded = 1.15;  // three others for two cores
  const Job job = job_of(4);
  Swarm swarm = swarm_of(4, {});
  for (Peer& peer : swarm.peers) peer.processors = "here";
  swarm.cores["here"] = 4;
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 1.2 * 1.075, 1e-6);
  swarm.cores["here"] = 2;
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 2.4 * kCrowded, 1e-6);
  for (Peer& peer : swarm.peers) peer.pace = 0.5;  // there is room for all now
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 2.4 * kCrowded, 1e-6);
  // Whoever pretends to take its time still computes, here for less than half of it.
  for (Peer& peer : swarm.peers) peer.step_time = 1.4;
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 2.8, 1e-6);
  for (Peer& peer : swarm.peers) peer.step_time = 0.7;  // there is more to do than that
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 2.4 * kCrowded, 1e-6);
}

// Buckets share the links, and none is faster than it would be alone: pretending to take one's time changes neither.
TEST(RuntimeTest, BucketsAreReadyAsLayersAre) {
  const Job job = job_of(4);
  Swarm swarm = swarm_of(4, {.bandwidth = 1e7});
  const double as_it_is = step_of(job, swarm, {.method = Method::kAllReduce});
  for (Peer& peer : swarm.peers) peer.step_time = 1.2;
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kAllReduce}), as_it_is, 1e-6);
}

// Where all processors compute, what rounds take of them is not hidden.
TEST(RuntimeTest, RoundsTakeProcessorsToo) {
  const Job job = job_of(4);
  Swarm swarm = swarm_of(2, {.bandwidth = 1e9});
  for (Peer& peer : swarm.peers) peer.processors = "here", peer.byte_cost = 1e-8;
  swarm.cores["here"] = 4;
  const double idle = step_of(job, swarm, {.method = Method::kGossip});
  swarm.cores["here"] = 2;
  const double crowded = 1.2 * 0.1 * (1.0 / 2 - 1.0 / 4);  // by the other one
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kGossip}) - idle - crowded, 2 * 16e6 * 1e-8, 1e-3);
}

// What is small and crosses threads takes as long as this computer was measured to take.
TEST(RuntimeTest, ReportsTakeTheirHops) {
  const Job job = job_of(4);
  Swarm swarm = swarm_of(2, {.bandwidth = 1e9});
  for (Peer& peer : swarm.peers) peer.processors = "here";
  swarm.cores["here"] = 2;
  const double without = step_of(job, swarm, {.method = Method::kNone});
  const double with_rounds = step_of(job, swarm, {.method = Method::kAllReduce});
  for (Peer& peer : swarm.peers) peer.hop = 1e-5;
  const double reports = step_of(job, swarm, {.method = Method::kNone}) - without;
  EXPECT_GT(reports, 5e-5);
  // Reports are made while the last bucket is under way; but then a round waits for a processor, as none is idle.
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kAllReduce}) - with_rounds, reports, 1e-9);
}

// What was tried counts, not what is usual; but not for whoever is slowed anyway, as long as it has the time.
TEST(RuntimeTest, WhatPeersLoseToEachOtherIsAsMeasured) {
  const Job job = job_of(4);
  Swarm swarm = swarm_of(2, {.bandwidth = 1e9});
  const double alone = step_of(job, swarm, {.method = Method::kNone});
  for (Peer& peer : swarm.peers) peer.processors = "here", peer.crowding = 1.5;
  swarm.cores["here"] = 2;
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 1.5 * alone, 0.01 * alone);
  for (Peer& peer : swarm.peers) peer.pace = 0.5;
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 2 * alone, 0.01 * alone);
  for (Peer& peer : swarm.peers) peer.crowding = 3;
  EXPECT_NEAR(step_of(job, swarm, {.method = Method::kNone}), 3 * alone, 0.01 * alone);
}

TEST(RuntimeTest, TheSameSeedGivesTheSamePrediction) {
  const Job job = job_of(4);
  Swarm swarm = swarm_of(4, {.bandwidth = 1e8});
  for (Peer& peer : swarm.peers) peer.jitter = 0.3;
  EXPECT_EQ(step_of(job, swarm, {}), step_of(job, swarm, {}));
}

TEST(RuntimeTest, AbsurdSwarmsAreRefused) {
  EXPECT_THROW(check(Swarm{}), InputError);
  Swarm swarm = swarm_of(2, {});
  EXPECT_NO_THROW(check(swarm));
  swarm.peers[0].speed = -1;
  EXPECT_THROW(check(swarm), InputError);
  swarm = swarm_of(2, {.bandwidth = 0});
  EXPECT_THROW(check(swarm), InputError);
  swarm = swarm_of(2, {.bandwidth = 1e6, .latency = -1});
  EXPECT_THROW(check(swarm), InputError);
}

}  // namespace
}  // namespace rookery::plan
