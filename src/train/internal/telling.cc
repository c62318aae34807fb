#include <algorithm>
#include <chrono>

#include <boost/asio/post.hpp>

#include "base/log.h"
#include "observe/memory.h"
#include "train/peer_work.h"

namespace rookery::train {

namespace {

constexpr Duration kBetweenActivities = std::chrono::seconds(1);
constexpr double kSpansPerSecond = 100;

}  // namespace

void PeerWork::tell(const wire::SwarmMessage& message) {
  boost::asio::post(network_.executor(), [this, message] { pass_on(message); });
}

void PeerWork::pass_on(wire::SwarmMessage message) {
  if (auto* report = std::get_if<wire::StepReport>(&message)) {
    const net::Traffic so_far = traffic();
    report->bytes_sent = so_far.sent;
    report->bytes_received = so_far.received;
    show(*report);
  }
  report_(message);
}

void PeerWork::show(const wire::StepReport& report) {
  if (!shown_) return;
  so_far_.step = static_cast<std::int64_t>(report.step);
  if (!report.pulled) so_far_.loss = report.loss;
  so_far_.samples += static_cast<std::int64_t>(report.samples);
  so_far_.tokens += static_cast<std::int64_t>(report.tokens);
  so_far_.together = {
      .compute_seconds = report.compute_seconds,
      .wait_seconds = report.wait_seconds,
      .bytes_sent = static_cast<std::int64_t>(std::max(report.bytes_sent, shown_bytes_) - shown_bytes_)};
  shown_bytes_ = report.bytes_sent;
  shown_->step(so_far_);
}

void PeerWork::suspect(std::size_t rank, const std::string& why) {
  const wire::PlannedPeer& culprit = part_.plan.peers[rank];
  if (!culprit.here) return;  // the coordinator knows already
  spdlog::warn("{} {}", culprit.contact.name, why);
  report_(wire::Suspected{.culprit = culprit.contact.name, .text = why});
}

void PeerWork::begin_activity() {
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  activity_ = std::make_unique<observe::Activity>(seconds);
  for (const net::Link* link : *part_.links) {
    if (link != nullptr) carried_before_[link] = training_traffic(*link).payload_sent;
  }
  telling_.set(network_.now() + kBetweenActivities, [this] { tell_activity(); });
}

// What those see who look on.
void PeerWork::tell_activity() {
  telling_.set(network_.now() + kBetweenActivities, [this] { tell_activity(); });
  wire::Activity message{.resident = static_cast<std::uint64_t>(observe::resident_memory())};
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  for (const observe::ActivitySpan& span : thinning_(activity_->take(), kSpansPerSecond)) {
    if (message.spans.size() == wire::kMaxDoneSpans) break;
    message.spans.push_back({.kind = static_cast<std::uint32_t>(span.kind),
                             .begin = std::max(0.0, now - span.begin),
                             .seconds = span.end - span.begin});
  }
  for (const wire::SurveyedLink& link : links_as_they_are()) {
    const net::Link& own = *part_.links->at(link.peer);
    if (own.has_ended()) continue;
    message.traffic.push_back(
        {.peer = link.peer, .sent = carried(own), .bandwidth = link.bandwidth, .latency = link.latency});
  }
  message.log = log_lines_after(logged_, wire::kMaxLogLines);
  report_(message);
}

// What training has sent over a link since it began: neither pings, nor what was found out about links before.
std::uint64_t PeerWork::carried(const net::Link& link) const {
  const auto found = carried_before_.find(&link);
  const std::uint64_t before = found != carried_before_.end() ? found->second : 0;
  const std::uint64_t now = training_traffic(link).payload_sent;
  return now - std::min(now, before);
}

// Since it began to train.
net::Traffic PeerWork::traffic() const {
  net::Traffic all;
  for (const net::Link* link : *part_.links) {
    if (link == nullptr) continue;
    const net::Traffic own = training_traffic(*link);
    all.sent += own.sent;
    all.received += own.received;
    all.payload_sent += own.payload_sent;
  }
  const auto since = [](std::uint64_t now, std::uint64_t before) { return now - std::min(now, before); };
  return {.sent = since(all.sent, traffic_before_.sent),
          .received = since(all.received, traffic_before_.received),
          .payload_sent = since(all.payload_sent, traffic_before_.payload_sent)};
}

std::vector<wire::SurveyedLink> PeerWork::links_as_they_are() const {
  std::vector<wire::SurveyedLink> links;
  for (std::size_t rank = 0; rank < part_.links->size(); ++rank) {
    const net::Link* link = part_.links->at(rank);
    if (link == nullptr) continue;
    const net::LinkStatistics own = link->statistics();
    links.push_back({.peer = static_cast<std::uint32_t>(rank),
                     .bandwidth = own.bandwidth,
                     .latency = std::chrono::duration<double>(own.round_trip).count() / 2});
  }
  return links;
}

}  // namespace rookery::train
