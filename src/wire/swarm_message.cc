#include "wire/swarm_message.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <proto/swarm.pb.h>
#include <set>

#include "wire/bytes.h"
#include "wire/handshake.h"

namespace rookery::wire {
namespace {

constexpr std::size_t kMaxSwarmMessageBytes = 8 * 1024 * 1024;
constexpr std::size_t kMaxFingerprintBytes = 128;
constexpr std::size_t kMaxHostBytes = 64;
constexpr std::size_t kMaxFileNameBytes = 200;
constexpr std::size_t kMaxPlanSettingBytes = 200;
constexpr std::uint32_t kMaxCores = 1 << 16;

[[noreturn]] void refuse(const char* what) { throw WireError("a message of the swarm with {}", what); }

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Contact contact_of(const std::string& bytes) { return decode_contact(std::as_bytes(std::span(bytes))); }

// Short, and nothing in it that cannot be shown. May be empty.
std::string word(const std::string& text, std::size_t limit) {
  const auto shown = [](char c) { return c > ' ' && c < 0x7f; };
  if (text.size() > limit || !std::ranges::all_of(text, shown)) refuse("a word that is none");
  return text;
}

std::string fingerprint(const std::string& text) {
  if (text.empty()) refuse("no fingerprint");
  return word(text, kMaxFingerprintBytes);
}

double number(double value) {
  if (!std::isfinite(value) || value < 0) refuse("a number that is none");
  return value;
}

// Small enough to be added up.
std::uint64_t count(std::uint64_t value, std::uint64_t most) {
  if (value > most) refuse("a count that is too high");
  return value;
}

// What is too long to be heard is better said in part.
std::string cut(const std::string& text) { return text.substr(0, kMaxReasonBytes); }

void write(const Introduction& m, proto::Introduction& p) {
  p.set_contact(text_of(encode(m.contact)));
  p.set_memory(m.memory);
  p.set_host(m.host);
  p.set_stands_in(m.stands_in);
}

void write(const Introduction& m, proto::SwarmMessage& out) { write(m, *out.mutable_introduction()); }

void write(const std::vector<FileFacts>& files, google::protobuf::RepeatedPtrField<proto::FileFacts>& out) {
  for (const FileFacts& file : files) {
    proto::FileFacts& p = *out.Add();
    p.set_name(file.name);
    p.set_size(file.size);
    p.set_digest(file.digest);
  }
}

void write(const Assignment& m, proto::SwarmMessage& out) {
  proto::Assignment& p = *out.mutable_assignment();
  p.set_settings(m.settings);
  write(m.data, *p.mutable_data());
  write(m.checkpoint, *p.mutable_checkpoint());
}

void write(const Ready& m, proto::Ready& p) {
  p.set_data(m.data);
  p.set_model(m.model);
  p.set_parameters(m.parameters);
  p.set_about(cut(m.about));
  p.set_resident(m.resident);
  p.set_available(m.available);
  p.set_speed(m.speed);
  p.set_step_time(m.step_time);
  p.set_jitter(m.jitter);
  p.set_update(m.update);
  p.set_byte_cost(m.byte_cost);
  p.set_hop(m.hop);
  p.set_cores(m.cores);
  for (const LayerTimes& layer : m.layers) {
    proto::LayerTimes& q = *p.add_layers();
    q.set_forward(layer.forward);
    q.set_backward(layer.backward);
  }
}

void write(const Ready& m, proto::SwarmMessage& out) { write(m, *out.mutable_ready()); }

void write(const Survey& m, proto::SwarmMessage& out) {
  proto::Survey& p = *out.mutable_survey();
  p.set_number(m.number);
  for (const Contact& peer : m.peers) p.add_peers(text_of(encode(peer)));
}

void write(const std::vector<SurveyedLink>& links, google::protobuf::RepeatedPtrField<proto::SurveyedLink>& out) {
  for (const SurveyedLink& link : links) {
    proto::SurveyedLink& q = *out.Add();
    q.set_peer(link.peer);
    q.set_bandwidth(link.bandwidth);
    q.set_latency(link.latency);
    q.set_while_sharing(link.while_sharing);
  }
}

void write(const Surveyed& m, proto::SwarmMessage& out) {
  proto::Surveyed& p = *out.mutable_surveyed();
  p.set_number(m.number);
  write(m.links, *p.mutable_links());
  p.set_crowding(m.crowding);
  p.set_culprit(m.culprit);
  p.set_text(cut(m.text));
}

void write(const Plan& m, proto::SwarmMessage& out) {
  proto::Plan& p = *out.mutable_plan();
  p.set_generation(m.generation);
  for (const PlannedPeer& peer : m.peers) {
    proto::PlannedPeer& q = *p.add_peers();
    q.set_contact(text_of(encode(peer.contact)));
    q.set_cluster(peer.cluster);
    q.set_weight(peer.weight);
    q.set_host(peer.host);
    q.set_stage(peer.stage);
    q.set_begin(peer.begin);
    q.set_end(peer.end);
    q.set_in_flight(peer.in_flight);
    q.set_memory(peer.memory);
    q.set_came(peer.came);
    q.set_since(peer.since);
    q.set_from(peer.from);
    q.set_away(!peer.here);
    q.set_restores(peer.restores);
    q.set_empty(peer.empty);
    q.set_rewinds(peer.rewinds);
  }
  p.set_border_bytes(m.border_bytes);
  for (const std::string& setting : m.settings) p.add_settings(setting);
  p.set_step_seconds(m.step_seconds);
  p.set_first_step(m.first_step);
  p.set_first_sample(m.first_sample);
}

void write(const Linked& m, proto::SwarmMessage& out) { out.mutable_linked()->set_generation(m.generation); }

void write(const Begin& m, proto::SwarmMessage& out) { out.mutable_begin()->set_generation(m.generation); }

void write(const StepReport& m, proto::SwarmMessage& out) {
  proto::StepReport& p = *out.mutable_step_report();
  p.set_step(m.step);
  p.set_pulled(m.pulled);
  p.set_loss(m.loss);
  p.set_lr(m.lr);
  p.set_grad_norm(m.grad_norm);
  p.set_samples(m.samples);
  p.set_tokens(m.tokens);
  p.set_compute_seconds(m.compute_seconds);
  p.set_wait_seconds(m.wait_seconds);
  p.set_bytes_sent(m.bytes_sent);
  p.set_bytes_received(m.bytes_received);
  if (m.drift) p.set_drift(*m.drift);
  p.set_staleness(m.staleness);
  p.set_rounds_failed(m.rounds_failed);
}

void write(const Evaluated& m, proto::SwarmMessage& out) {
  proto::Evaluated& p = *out.mutable_evaluated();
  p.set_step(m.step);
  p.set_split(m.split);
  p.set_loss(m.loss);
  p.set_accuracy(m.accuracy);
  p.set_consensus_distance(m.consensus_distance);
  p.set_own(m.own);
}

void write(const Saved& m, proto::SwarmMessage& out) {
  out.mutable_saved()->set_step(m.step);
  write(m.files, *out.mutable_saved()->mutable_files());
}

void write(const Kept& m, proto::SwarmMessage& out) { out.mutable_kept()->set_step(m.step); }

void write(const Ended& m, proto::SwarmMessage& out) {
  proto::Ended& p = *out.mutable_ended();
  p.set_peak_memory(m.peak_memory);
  p.set_busy_share(m.busy_share);
  p.set_rounds(m.rounds);
  p.set_rounds_failed(m.rounds_failed);
  if (m.entropy_floor) p.set_entropy_floor(*m.entropy_floor);
  p.set_bytes_sent(m.bytes_sent);
  p.set_bytes_received(m.bytes_received);
  p.set_payload_sent(m.payload_sent);
  p.set_waited_forward(m.waited_forward);
  p.set_waited_backward(m.waited_backward);
  for (const std::uint64_t micro_batches : m.staleness) p.add_staleness(micro_batches);
  p.set_versions(m.versions);
  for (const SegmentDigest& segment : m.segments) {
    proto::SegmentDigest& q = *p.add_segments();
    q.set_segment(segment.segment);
    q.set_digest(segment.digest);
  }
  write(m.links, *p.mutable_links());
}

void write(const Failed& m, proto::SwarmMessage& out) {
  proto::Failed& p = *out.mutable_failed();
  p.set_culprit(m.culprit);
  p.set_text(cut(m.text));
}

void write(const Suspected& m, proto::SwarmMessage& out) {
  out.mutable_suspected()->set_culprit(m.culprit);
  out.mutable_suspected()->set_text(cut(m.text));
}

void write(const Missed& m, proto::SwarmMessage& out) {
  out.mutable_missed()->set_who(m.who);
  out.mutable_missed()->set_came(m.came);
  out.mutable_missed()->set_text(cut(m.text));
}

void write(const Returned& m, proto::SwarmMessage& out) {
  proto::Returned& p = *out.mutable_returned();
  p.set_generation(m.generation);
  write(m.introduction, *p.mutable_introduction());
  write(m.ready, *p.mutable_ready());
}

void write(const Known& m, proto::SwarmMessage& out) { out.mutable_known()->set_step(m.step); }

void write(const Held& m, proto::SwarmMessage& out) { out.mutable_held()->set_step(m.step); }

void write(const Covered& m, proto::SwarmMessage& out) { out.mutable_covered()->set_step(m.step); }

void write(const StandIn&, proto::SwarmMessage& out) { out.mutable_stand_in(); }

void write(const Stop& m, proto::SwarmMessage& out) {
  out.mutable_stop()->set_reason(cut(m.reason));
  out.mutable_stop()->set_moves(m.moves);
}

void write(const Halted& m, proto::SwarmMessage& out) { out.mutable_halted()->set_step(m.step); }

void write(const EndAt& m, proto::SwarmMessage& out) { out.mutable_end_at()->set_step(m.step); }

void write(const Restored& m, proto::SwarmMessage& out) { out.mutable_restored()->set_generation(m.generation); }

void write(const Paused& m, proto::SwarmMessage& out) { out.mutable_paused()->set_generation(m.generation); }

void write(const Hold& m, proto::SwarmMessage& out) { out.mutable_hold()->set_number(m.number); }

void write(const Holding& m, proto::SwarmMessage& out) {
  out.mutable_holding()->set_step(m.step);
  out.mutable_holding()->set_number(m.number);
}

void write(const Release& m, proto::SwarmMessage& out) {
  proto::Release& p = *out.mutable_release();
  if (m.save_after) p.set_save_after(*m.save_after);
  p.set_holds_again(m.holds_again);
}

void write(const Activity& m, proto::SwarmMessage& out) {
  proto::Activity& p = *out.mutable_activity();
  p.set_resident(m.resident);
  for (const DoneSpan& span : m.spans) {
    proto::Activity::Span& q = *p.add_spans();
    q.set_kind(span.kind);
    q.set_begin(span.begin);
    q.set_seconds(span.seconds);
  }
  for (const LinkTraffic& traffic : m.traffic) {
    proto::Activity::Traffic& q = *p.add_traffic();
    q.set_peer(traffic.peer);
    q.set_sent(traffic.sent);
    q.set_bandwidth(traffic.bandwidth);
    q.set_latency(traffic.latency);
  }
  for (const std::string& line : m.log) p.add_log(line.substr(0, kMaxLogLineBytes));
}

void write(const Look& m, proto::SwarmMessage& out) { out.mutable_look()->set_measured(m.measured); }

void write(const Shown& m, proto::SwarmMessage& out) { out.mutable_shown()->set_text(m.text); }

Introduction read(const proto::Introduction& p) {
  return {.contact = contact_of(p.contact()),
          .memory = count(p.memory(), kMaxBytes),
          .host = word(p.host(), kMaxHostBytes),
          .stands_in = p.stands_in()};
}

std::vector<FileFacts> read(const google::protobuf::RepeatedPtrField<proto::FileFacts>& p) {
  if (static_cast<std::size_t>(p.size()) > kMaxFiles) refuse("too many files");
  std::vector<FileFacts> files;
  std::set<std::string> names;
  const auto hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  for (const proto::FileFacts& file : p) {
    if (!is_file_name(file.name()) || !names.insert(file.name()).second) refuse("a file name that is none");
    if (file.digest().size() != 64 || !std::ranges::all_of(file.digest(), hexadecimal)) refuse("no digest");
    files.push_back({.name = file.name(), .size = file.size(), .digest = file.digest()});
  }
  return files;
}

Assignment read(const proto::Assignment& p) {
  if (p.settings().empty() || p.settings().size() > kMaxSettingsBytes) refuse("settings of the wrong size");
  return {.settings = p.settings(), .data = read(p.data()), .checkpoint = read(p.checkpoint())};
}

Ready read(const proto::Ready& p) {
  if (p.about().size() > kMaxReasonBytes) refuse("a long description");
  if (static_cast<std::size_t>(p.layers_size()) > kMaxLayers) refuse("too many layers");
  Ready ready{.data = fingerprint(p.data()),
              .model = fingerprint(p.model()),
              .parameters = p.parameters(),
              .about = printable(p.about()),
              .resident = count(p.resident(), kMaxBytes),
              .available = count(p.available(), kMaxBytes),
              .speed = number(p.speed()),
              .step_time = number(p.step_time()),
              .jitter = number(p.jitter()),
              .update = number(p.update()),
              .byte_cost = number(p.byte_cost()),
              .hop = number(p.hop()),
              .cores = static_cast<std::uint32_t>(count(p.cores(), kMaxCores))};
  for (const proto::LayerTimes& layer : p.layers()) {
    ready.layers.push_back({.forward = number(layer.forward()), .backward = number(layer.backward())});
  }
  return ready;
}

// A set of peers, each there once.
class Peers {
 public:
  void add(const Contact& contact) {
    if (!names_.insert(contact.name).second || !keys_.insert(contact.fingerprint).second) {
      refuse("a peer that is there twice");
    }
  }

 private:
  std::set<std::string> names_;
  std::set<std::array<std::byte, 32>> keys_;
};

Survey read(const proto::Survey& p) {
  if (p.peers().empty() || static_cast<std::size_t>(p.peers_size()) > kMaxPlannedPeers) refuse("a survey of nobody");
  Survey survey{.number = p.number()};
  Peers peers;
  for (const std::string& peer : p.peers()) {
    survey.peers.push_back(contact_of(peer));
    peers.add(survey.peers.back());
  }
  return survey;
}

std::vector<SurveyedLink> read(const google::protobuf::RepeatedPtrField<proto::SurveyedLink>& links) {
  if (static_cast<std::size_t>(links.size()) > kMaxPlannedPeers) refuse("too many links");
  std::vector<SurveyedLink> surveyed;
  std::set<std::uint32_t> peers;
  for (const proto::SurveyedLink& link : links) {
    if (link.peer() >= kMaxPlannedPeers || !peers.insert(link.peer()).second) refuse("a link that is none");
    surveyed.push_back({.peer = link.peer(),
                        .bandwidth = number(link.bandwidth()),
                        .latency = number(link.latency()),
                        .while_sharing = number(link.while_sharing())});
  }
  return surveyed;
}

Surveyed read(const proto::Surveyed& p) {
  if (p.text().size() > kMaxReasonBytes) refuse("a long reason");
  if (!p.culprit().empty() && !is_name(p.culprit())) refuse("a name that is none");
  return {.number = p.number(),
          .links = read(p.links()),
          .crowding = number(p.crowding()),
          .culprit = p.culprit(),
          .text = printable(p.text())};
}

Plan read(const proto::Plan& p) {
  if (p.peers().empty() || static_cast<std::size_t>(p.peers_size()) > kMaxPlannedPeers) refuse("a plan for nobody");
  Plan plan{.generation = p.generation()};
  Peers peers;
  for (const proto::PlannedPeer& q : p.peers()) {
    PlannedPeer peer{.contact = contact_of(q.contact()),
                     .cluster = q.cluster(),
                     .weight = number(q.weight()),
                     .host = word(q.host(), kMaxHostBytes),
                     .stage = q.stage(),
                     .begin = q.begin(),
                     .end = q.end(),
                     .in_flight = q.in_flight(),
                     .memory = count(q.memory(), kMaxBytes),
                     .came = q.came(),
                     .since = q.since(),
                     .from = count(q.from(), kMaxBytes),
                     .here = !q.away(),
                     .restores = q.restores(),
                     .empty = q.empty(),
                     .rewinds = q.rewinds()};
    if (peer.since > plan.generation || peer.came > plan.generation)
      refuse("a plan with somebody who is still to come");
    if (peer.weight == 0 || peer.cluster >= kMaxPlannedPeers || peer.stage >= kMaxPlannedPeers ||
        peer.begin >= peer.end || peer.end > kMaxLayers || peer.in_flight == 0 || peer.in_flight > kMaxInFlight) {
      refuse("a place in the plan that is none");
    }
    peers.add(peer.contact);
    plan.peers.push_back(std::move(peer));
  }
  plan.border_bytes = count(p.border_bytes(), kMaxBytes);
  if (static_cast<std::size_t>(p.settings_size()) > kMaxPlanSettings) refuse("too many settings");
  for (const std::string& setting : p.settings()) plan.settings.push_back(word(setting, kMaxPlanSettingBytes));
  plan.step_seconds = number(p.step_seconds());
  plan.first_step = count(p.first_step(), kMaxBytes);
  plan.first_sample = count(p.first_sample(), kMaxBytes);
  return plan;
}

Linked read(const proto::Linked& p) { return {.generation = p.generation()}; }

Begin read(const proto::Begin& p) { return {.generation = p.generation()}; }

// A loss or a norm may be no number: that is for whoever reads it to say.
StepReport read(const proto::StepReport& p) {
  StepReport report{.step = p.step(),
                    .pulled = p.pulled(),
                    .loss = p.loss(),
                    .lr = number(p.lr()),
                    .grad_norm = p.grad_norm(),
                    .samples = count(p.samples(), kMaxStepSamples),
                    .tokens = count(p.tokens(), kMaxStepSamples),
                    .compute_seconds = number(p.compute_seconds()),
                    .wait_seconds = number(p.wait_seconds()),
                    .bytes_sent = count(p.bytes_sent(), kMaxBytes),
                    .bytes_received = count(p.bytes_received(), kMaxBytes)};
  if (p.has_drift()) report.drift = p.drift();
  report.staleness = count(p.staleness(), kMaxInFlight);
  report.rounds_failed = count(p.rounds_failed(), kMaxBytes);
  return report;
}

Evaluated read(const proto::Evaluated& p) {
  if (p.split() != "eval" && p.split() != "test") refuse("an evaluation of unknown data");
  return {.step = p.step(),
          .split = p.split(),
          .loss = p.loss(),
          .accuracy = number(p.accuracy()),
          .consensus_distance = p.consensus_distance(),
          .own = p.own()};
}

Saved read(const proto::Saved& p) { return {.step = p.step(), .files = read(p.files())}; }

Kept read(const proto::Kept& p) { return {.step = p.step()}; }

Ended read(const proto::Ended& p) {
  Ended ended{.peak_memory = count(p.peak_memory(), kMaxBytes),
              .busy_share = number(p.busy_share()),
              .rounds = count(p.rounds(), kMaxBytes),
              .rounds_failed = count(p.rounds_failed(), kMaxBytes)};
  if (p.has_entropy_floor()) ended.entropy_floor = number(p.entropy_floor());
  ended.bytes_sent = count(p.bytes_sent(), kMaxBytes);
  ended.bytes_received = count(p.bytes_received(), kMaxBytes);
  ended.payload_sent = count(p.payload_sent(), kMaxBytes);
  ended.waited_forward = number(p.waited_forward());
  ended.waited_backward = number(p.waited_backward());
  if (static_cast<std::uint32_t>(p.staleness_size()) > kMaxInFlight) refuse("too many kinds of staleness");
  for (const std::uint64_t micro_batches : p.staleness()) ended.staleness.push_back(count(micro_batches, kMaxBytes));
  ended.versions = count(p.versions(), kMaxInFlight);
  if (static_cast<std::uint32_t>(p.segments_size()) > kMaxLayers) refuse("too many segments");
  for (const proto::SegmentDigest& q : p.segments()) {
    ended.segments.push_back({.segment = q.segment(), .digest = fingerprint(q.digest())});
  }
  ended.links = read(p.links());
  return ended;
}

Failed read(const proto::Failed& p) {
  if (p.text().size() > kMaxReasonBytes || (!p.culprit().empty() && !is_name(p.culprit()))) refuse("a long reason");
  return {.culprit = p.culprit(), .text = printable(p.text())};
}

Suspected read(const proto::Suspected& p) {
  if (p.text().size() > kMaxReasonBytes) refuse("a long reason");
  if (!is_name(p.culprit())) refuse("a name that is none");
  return {.culprit = p.culprit(), .text = printable(p.text())};
}

Missed read(const proto::Missed& p) {
  if (p.text().size() > kMaxReasonBytes) refuse("a long reason");
  if (!is_name(p.who())) refuse("a name that is none");
  return {.who = p.who(), .came = p.came(), .text = printable(p.text())};
}

Returned read(const proto::Returned& p) {
  return {.generation = p.generation(), .introduction = read(p.introduction()), .ready = read(p.ready())};
}

Known read(const proto::Known& p) { return {.step = count(p.step(), kMaxBytes)}; }

Held read(const proto::Held& p) { return {.step = count(p.step(), kMaxBytes)}; }

Covered read(const proto::Covered& p) { return {.step = count(p.step(), kMaxBytes)}; }

Stop read(const proto::Stop& p) {
  if (p.reason().size() > kMaxReasonBytes) refuse("a long reason");
  return {.reason = printable(p.reason()), .moves = p.moves()};
}

Halted read(const proto::Halted& p) { return {.step = p.step()}; }

EndAt read(const proto::EndAt& p) { return {.step = p.step()}; }

Restored read(const proto::Restored& p) { return {.generation = p.generation()}; }

Paused read(const proto::Paused& p) { return {.generation = p.generation()}; }

Hold read(const proto::Hold& p) { return {.number = p.number()}; }

Holding read(const proto::Holding& p) { return {.step = count(p.step(), kMaxBytes), .number = p.number()}; }

Release read(const proto::Release& p) {
  Release release{.holds_again = p.holds_again()};
  if (p.has_save_after()) release.save_after = count(p.save_after(), kMaxBytes);
  return release;
}

Shown read(const proto::Shown& p) {
  if (p.text().size() > kMaxShownBytes) refuse("too much to look at");
  return {.text = p.text()};
}

Activity read(const proto::Activity& p) {
  const auto is_within = [](int size, std::size_t most) { return static_cast<std::size_t>(size) <= most; };
  if (!is_within(p.spans_size(), kMaxDoneSpans) || !is_within(p.traffic_size(), kMaxPlannedPeers) ||
      !is_within(p.log_size(), kMaxLogLines)) {
    refuse("too much to look at");
  }
  Activity activity{.resident = count(p.resident(), kMaxBytes)};
  for (const proto::Activity::Span& q : p.spans()) {
    activity.spans.push_back({.kind = q.kind(), .begin = number(q.begin()), .seconds = number(q.seconds())});
  }
  for (const proto::Activity::Traffic& q : p.traffic()) {
    activity.traffic.push_back({.peer = q.peer(),
                                .sent = count(q.sent(), kMaxBytes),
                                .bandwidth = number(q.bandwidth()),
                                .latency = number(q.latency())});
  }
  for (const std::string& line : p.log()) {
    if (line.size() > kMaxLogLineBytes) refuse("a long line");
    activity.log.push_back(printable(line));
  }
  return activity;
}

}  // namespace

bool is_file_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxFileNameBytes) return false;
  char before = '/';
  for (const char c : name) {
    if ((c >= 0 && c < ' ') || c == 0x7f || c == '\\') return false;
    if (before == '/' && (c == '/' || c == '.')) return false;
    before = c;
  }
  return before != '/';
}

std::vector<std::byte> encode(const SwarmMessage& message) {
  proto::SwarmMessage out;
  std::visit([&](const auto& content) { write(content, out); }, message);
  std::vector<std::byte> bytes(out.ByteSizeLong());
  out.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

SwarmMessage decode_swarm_message(std::span<const std::byte> bytes) {
  proto::SwarmMessage message;
  if (bytes.size() > kMaxSwarmMessageBytes || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw WireError("a message of the swarm that cannot be read");
  }
  using Content = proto::SwarmMessage::ContentCase;
  switch (message.content_case()) {
    case Content::kIntroduction:
      return read(message.introduction());
    case Content::kAssignment:
      return read(message.assignment());
    case Content::kReady:
      return read(message.ready());
    case Content::kPlan:
      return read(message.plan());
    case Content::kLinked:
      return read(message.linked());
    case Content::kBegin:
      return read(message.begin());
    case Content::kStepReport:
      return read(message.step_report());
    case Content::kEvaluated:
      return read(message.evaluated());
    case Content::kEnded:
      return read(message.ended());
    case Content::kFailed:
      return read(message.failed());
    case Content::kStop:
      return read(message.stop());
    case Content::kSaved:
      return read(message.saved());
    case Content::kKept:
      return read(message.kept());
    case Content::kHalted:
      return read(message.halted());
    case Content::kEndAt:
      return read(message.end_at());
    case Content::kRestored:
      return read(message.restored());
    case Content::kPaused:
      return read(message.paused());
    case Content::kSuspected:
      return read(message.suspected());
    case Content::kMissed:
      return read(message.missed());
    case Content::kReturned:
      return read(message.returned());
    case Content::kKnown:
      return read(message.known());
    case Content::kHeld:
      return read(message.held());
    case Content::kCovered:
      return read(message.covered());
    case Content::kStandIn:
      return StandIn{};
    case Content::kHold:
      return read(message.hold());
    case Content::kHolding:
      return read(message.holding());
    case Content::kRelease:
      return read(message.release());
    case Content::kActivity:
      return read(message.activity());
    case Content::kLook:
      return Look{.measured = message.look().measured()};
    case Content::kShown:
      return read(message.shown());
    case Content::kSurvey:
      return read(message.survey());
    case Content::kSurveyed:
      return read(message.surveyed());
    case Content::CONTENT_NOT_SET:
      break;
  }
  refuse("no content");
}

}  // namespace rookery::wire
