#include "observe/metrics.h"

#include <cmath>

#include <nlohmann/json.hpp>

namespace rookery::observe {
namespace {

using Json = nlohmann::ordered_json;

Json finite(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

void add_if(Json& object, const char* name, const std::optional<double>& number) {
  if (number) object[name] = finite(*number);
}

void add_if(Json& object, const char* name, const std::vector<ClusterSteps>& steps) {
  if (steps.empty()) return;
  Json& all = object[name] = Json::array();
  for (const ClusterSteps& own : steps) {
    all.push_back({{"cluster", own.cluster}, {"first_step", own.first_step}, {"last_step", own.last_step}});
  }
}

Json to_json(const PeerSummary& peer) {
  Json object = {{"name", peer.name},
                 {"peak_memory_bytes", peer.peak_memory_bytes},
                 {"own_memory_bytes", peer.own_memory_bytes},
                 {"busy_share", finite(peer.busy_share)}};
  add_if(object, "eval_loss", peer.eval_loss);
  if (peer.bytes_sent) object["bytes_sent"] = *peer.bytes_sent;
  add_if(object, "wait_seconds", peer.wait_seconds);
  if (const auto& stage = peer.stage) {
    object["cluster"] = stage->cluster;
    object["stage"] = stage->stage;
    object["layers"] = {stage->begin, stage->end};
    object["waited_forward_seconds"] = finite(stage->waited_forward_seconds);
    object["waited_backward_seconds"] = finite(stage->waited_backward_seconds);
    object["staleness"] = stage->staleness;
    object["versions"] = stage->versions;
    if (stage->planned_memory_bytes) object["planned_memory_bytes"] = *stage->planned_memory_bytes;
  }
  return object;
}

}  // namespace

Json to_json(const StepMetrics& metrics) {
  Json object = {{"step", metrics.step},
                 {"loss", finite(metrics.loss)},
                 {"seconds", finite(metrics.seconds)},
                 {"step_seconds", finite(metrics.step_seconds)},
                 {"samples", metrics.samples},
                 {"tokens", metrics.tokens},
                 {"lr", finite(metrics.lr)},
                 {"grad_norm", finite(metrics.grad_norm)}};
  add_if(object, "eval_loss", metrics.eval_loss);
  add_if(object, "eval_accuracy", metrics.eval_accuracy);
  if (metrics.together) {
    object["compute_seconds"] = finite(metrics.together->compute_seconds);
    object["wait_seconds"] = finite(metrics.together->wait_seconds);
    object["bytes_sent"] = metrics.together->bytes_sent;
    object["bytes_received"] = metrics.together->bytes_received;
  }
  add_if(object, "consensus_distance", metrics.consensus_distance);
  add_if(object, "drift", metrics.drift);
  if (metrics.staleness_max) object["staleness_max"] = *metrics.staleness_max;
  return object;
}

Json to_json(const Summary& summary) {
  Json object = {{"final_loss", finite(summary.final_loss)}};
  add_if(object, "eval_loss", summary.eval_loss);
  add_if(object, "eval_accuracy", summary.eval_accuracy);
  add_if(object, "test_loss", summary.test_loss);
  add_if(object, "test_accuracy", summary.test_accuracy);
  add_if(object, "entropy_floor", summary.entropy_floor);
  object["steps"] = summary.steps;
  object["samples"] = summary.samples;
  object["tokens"] = summary.tokens;
  object["tokens_per_second"] = finite(summary.tokens_per_second);
  object["samples_per_second"] = finite(summary.samples_per_second);
  object["wall_seconds"] = finite(summary.wall_seconds);
  object["peak_memory_bytes"] = summary.peak_memory_bytes;
  object["parameters"] = summary.parameters;
  Json& peers = object["peers"] = Json::array();
  for (const PeerSummary& peer : summary.peers) peers.push_back(to_json(peer));
  if (const auto& arrangement = summary.arrangement) {
    object["clusters"] = arrangement->clusters;
    object["schedule"] = arrangement->schedule;
    object["method"] = arrangement->method;
    if (arrangement->interval) object["interval"] = *arrangement->interval;
    if (arrangement->topology) object["topology"] = *arrangement->topology;
  }
  if (summary.bytes_sent) object["bytes_sent"] = *summary.bytes_sent;
  if (summary.payload_bytes_sent) object["payload_bytes_sent"] = *summary.payload_bytes_sent;
  add_if(object, "exposed_communication_share", summary.exposed_communication_share);
  if (summary.rounds) {
    object["rounds"] = *summary.rounds;
    object["rounds_failed"] = summary.rounds_failed;
  }
  add_if(object, "consensus_distance", summary.consensus_distance);
  if (summary.identical_copies) object["identical_copies"] = *summary.identical_copies;
  if (!summary.expelled.empty()) object["expelled"] = summary.expelled;
  add_if(object, "predicted_step_seconds", summary.predicted_step_seconds);
  add_if(object, "measured_step_seconds", summary.measured_step_seconds);
  if (summary.samples_left_out) object["samples_left_out"] = *summary.samples_left_out;
  add_if(object, "left_out", summary.left_out);
  add_if(object, "forgotten", summary.forgotten);
  if (!summary.repeated.empty()) {
    Json& all = object["repeated"] = Json::array();
    for (const Repeated& own : summary.repeated) {
      all.push_back({{"first_step", own.first_step}, {"last_step", own.last_step}});
    }
  }
  return object;
}

void Sinks::step(const StepMetrics& metrics) {
  for (const auto& sink : sinks_) sink->step(metrics);
}

void Sinks::finish(const Summary& summary) {
  for (const auto& sink : sinks_) sink->finish(summary);
}

}  // namespace rookery::observe
