#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "dashboard/view.h"

namespace rookery::dashboard {
namespace {

// As its text format wants it.
std::string label(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

class Page {
 public:
  void describe(const char* name, const char* type, const char* help) {
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }

  void add(const char* name, double value) { text_ += fmt::format("{} {}\n", name, number(value)); }

  void add(const char* name, const char* key, const std::string& of, double value) {
    text_ += fmt::format("{}{{{}=\"{}\"}} {}\n", name, key, label(of), number(value));
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
  }

  std::string text_;
};

void add_run(const View& view, Page& page) {
  const auto gauge = [&](const char* name, const char* help, std::optional<double> value) {
    if (!value) return;
    page.describe(name, "gauge", help);
    page.add(name, *value);
  };
  gauge("rookery_step", "The last step that all have done.", static_cast<double>(view.run.step));
  gauge("rookery_steps", "The step at which the run is to end.", static_cast<double>(view.run.steps));
  if (const auto& last = view.last_step()) {
    gauge("rookery_loss", "Training loss of the last step.", last->loss);
    gauge("rookery_learning_rate", "Learning rate of the last step.", last->lr);
    gauge("rookery_last_step_seconds", "Duration of the last step.", last->step_seconds);
    page.describe("rookery_samples_total", "counter", "Samples that were trained on.");
    page.add("rookery_samples_total", static_cast<double>(last->samples));
    page.describe("rookery_tokens_total", "counter", "Tokens that were trained on.");
    page.add("rookery_tokens_total", static_cast<double>(last->tokens));
  }
  gauge("rookery_eval_loss", "Loss of the last evaluation.", view.eval_loss());
  if (!view.plan) return;
  gauge("rookery_generation", "Generation of the plan.", view.plan->generation);
  gauge("rookery_predicted_step_seconds", "Duration of a step as planned.", view.plan->predicted_step_seconds);
  gauge("rookery_measured_step_seconds", "Duration of a step of late.", view.plan->measured_step_seconds);
}

void add_phase(const View& view, Page& page) {
  page.describe("rookery_phase", "gauge", "1 for what the run is doing.");
  for (const Phase phase :
       {Phase::kGathering, Phase::kTraining, Phase::kPausing, Phase::kPaused, Phase::kEnded, Phase::kFailed}) {
    page.add("rookery_phase", "phase", name_of(phase), view.run.phase == phase ? 1 : 0);
  }
}

void add_peers(const View& view, double seconds, Page& page) {
  std::map<std::string, double> states;
  for (const auto& [name, peer] : view.peers()) ++states[name_of(peer.state)];
  page.describe("rookery_peers", "gauge", "Peers by state.");
  for (const auto& [state, count] : states) page.add("rookery_peers", "state", state, count);

  struct Column {
    const char *name, *type, *help;
    std::function<std::optional<double>(const PeerView&)> value;
  };
  const std::array<Column, 8> columns = {{
      {"rookery_peer_step", "gauge", "The last step that a peer has done.",
       [](const PeerView& peer) { return static_cast<double>(peer.step); }},
      {"rookery_peer_compute_seconds", "gauge", "Time of a step that a peer computes.",
       [](const PeerView& peer) { return peer.compute_seconds; }},
      {"rookery_peer_wait_seconds", "gauge", "Time of a step that a peer waits for others.",
       [](const PeerView& peer) { return peer.wait_seconds; }},
      {"rookery_peer_sent_bytes_total", "counter", "Bytes that a peer has sent to others.",
       [](const PeerView& peer) { return static_cast<double>(peer.bytes_sent); }},
      {"rookery_peer_received_bytes_total", "counter", "Bytes that a peer has received from others.",
       [](const PeerView& peer) { return static_cast<double>(peer.bytes_received); }},
      {"rookery_peer_rounds_failed_total", "counter", "Rounds that failed for a peer, and were left out.",
       [](const PeerView& peer) { return static_cast<double>(peer.rounds_failed); }},
      {"rookery_peer_sent_bytes_per_second", "gauge", "Bytes that a peer sends in a second.",
       [&](const PeerView& peer) { return peer.sends.at(seconds); }},
      {"rookery_peer_memory_bytes", "gauge", "Resident memory of a peer.",
       [](const PeerView& peer) -> std::optional<double> {
         if (!peer.resident) return std::nullopt;
         return static_cast<double>(*peer.resident);
       }},
  }};
  for (const Column& column : columns) {
    page.describe(column.name, column.type, column.help);
    for (const auto& [name, peer] : view.peers()) {
      if (const auto value = column.value(peer)) page.add(column.name, "peer", name, *value);
    }
  }
}

}  // namespace

std::string metrics_of(const View& view, double seconds) {
  Page page;
  add_phase(view, page);
  add_run(view, page);
  add_peers(view, seconds, page);
  return page.take();
}

}  // namespace rookery::dashboard
