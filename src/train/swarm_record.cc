#include "train/swarm_record.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "observe/tensorboard.h"
#include "train/make_method.h"
#include "train/setup.h"
#include "train/wiring.h"

namespace rookery::train {
namespace {

using Json = nlohmann::ordered_json;

double rate(std::int64_t amount, double seconds) { return seconds > 0 ? static_cast<double>(amount) / seconds : 0; }

std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";  // others choose names and reasons
}

}  // namespace

SwarmRecord::SwarmRecord(Clock& clock, const Blueprint& blueprint, RunDirectory directory, Position began_at,
                         SwarmRecordOptions options)
    : clock_(clock),
      blueprint_(blueprint),
      settings_(blueprint.settings),
      directory_(std::move(directory)),
      options_(options),
      position_(began_at),
      began_at_(began_at),
      start_(clock.now()),
      events_(directory_.events(), FileWriter::Mode::kAppend),
      ledger_(options.changing ? std::filesystem::path() : directory_.ledger(), began_at.step) {
  sinks_.add(std::make_unique<observe::JsonlSink>(directory_.metrics()));
  if (!options_.tensorboard) return;
  sinks_.add(std::make_unique<observe::TensorBoardSink>(
      directory_.tensorboard(), observe::TensorBoardSink::Options{.first_step = began_at.step}));
}

void SwarmRecord::note(const char* event, const std::string& peer, const std::string& text) {
  write_event(event, peer, text, Json::object());
}

void SwarmRecord::write_event(const char* event, const std::string& peer, const std::string& text, const Json& more) {
  Json object = {{"seconds", std::chrono::duration<double>(clock_.now() - start_).count() + began_at_.seconds},
                 {"step", position_.step},
                 {"event", event}};
  if (!peer.empty()) object["peer"] = peer;
  if (!text.empty()) object["text"] = text;
  object.update(more);
  events_.write(line_of(object));
  spdlog::info("{} {} {}", event, peer, text);
  if (noted_) noted_(event, peer, text);
}

void SwarmRecord::say(const std::string& sentence) const {
  if (tell_) tell_(sentence);
}

void SwarmRecord::joined(const wire::Introduction& peer) { note("joined", peer.contact.name, ""); }

// Others of the same name may have had a place before.
void SwarmRecord::forget(const std::string& name) {
  const auto found = peers_.find(name);
  if (found != peers_.end() && found->second.place.contact.name.empty()) peers_.erase(found);
}

void SwarmRecord::refused(const std::string& peer, const std::string& why) {
  forget(peer);
  note("refused", peer, why);
  say(fmt::format("{} was not admitted: {}", peer, why));
}

void SwarmRecord::left(const std::string& peer, const std::string& why) {
  forget(peer);
  note("left", peer, why);
  say(fmt::format("{} has left: {}", peer, why));
}

void SwarmRecord::ready(const std::string& peer, const wire::Ready& ready) {
  peers_[peer].own_memory = static_cast<Bytes>(ready.resident);
  note("ready", peer, "");
  say(fmt::format("{} is ready ({} of {})", peer, peers_.size(), settings_.swarm.peers));
}

void SwarmRecord::suspected(const std::string& culprit, const std::string& by, const std::string& why) {
  note("suspected", culprit, fmt::format("{}, says {}", why, by));
}

void SwarmRecord::expelled(const std::string& peer, const std::string& why) {
  note("expelled", peer, why);
  expelled_.push_back(peer);
}

void SwarmRecord::take_up_expelled(std::size_t how_many) {
  std::ifstream events(directory_.events());
  std::vector<std::string> names;
  for (std::string line; std::getline(events, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == "expelled") names.push_back(event.value("peer", ""));
  }
  const std::size_t first = names.size() - std::min(names.size(), how_many);  // those of earlier runs come before
  expelled_.assign(names.begin() + static_cast<std::ptrdiff_t>(first), names.end());
}

void SwarmRecord::relieved(const std::string& peer) {
  note("relieved", peer, "stood in, and somebody has come for its place");
  relieved_.insert(peer);
}

// The others of its cluster cannot go on, either.
void SwarmRecord::lost(const std::string& peer, const std::string& why) {
  const bool is_relieved = relieved_.erase(peer) > 0;
  if (!is_relieved) note("lost", peer, why);
  cause_ = fmt::format("{} was {}", peer, is_relieved ? "relieved" : "lost");
  if (options_.changing) return;  // see pauses()
  say(fmt::format("{} {}: {}", peer, is_relieved ? "has gone" : "was lost", why));
  const auto found = peers_.find(peer);
  if (found == peers_.end() || !found->second.is_active) return;  // it had not begun
  const std::uint32_t cluster = found->second.place.cluster;
  forget_work_of(cluster);
  for (const auto& [name, other] : peers_) {
    if (other.place.cluster == cluster) pauses(name);
  }
}

// What the others do not know of a cluster since its last rounds; a lone one goes back to its own copies.
void SwarmRecord::forget_work_of(std::uint32_t cluster) {
  if (!has_intervals(settings_.sync) || clusters_ < 2) return;
  std::int64_t done = 0;
  for (const auto& [name, peer] : peers_) {
    const bool is_one = peer.is_active && peer.place.cluster == cluster && peer.is_last;
    if (is_one) done = static_cast<std::int64_t>(peer.last.step);
  }
  const std::int64_t known = std::max(known_steps(settings_.sync, done), began_after_[cluster]);
  if (known < done) ledger_.forgot({.cluster = cluster, .first_step = known + 1, .last_step = done});
}

void SwarmRecord::planned(const wire::Plan& plan) {
  if (!plan.settings.empty()) {
    settings_ = config::changed(settings_, plan.settings);
    replace_file(directory_.settings(), config::to_toml(settings_));  // so that the run goes on with the same
  }
  introduce(plan);
  take(plan);
  began_after_.clear();
  for (const wire::PlannedPeer& planned : plan.peers) {
    place(planned);
    began_after_[planned.cluster] = position_.step;
    Peer& peer = peers_[planned.contact.name];
    peer.is_active = true;
    peer.last.step = static_cast<std::uint64_t>(position_.step);
    progress_.insert(position_.step);
  }
}

// Another generation, with the same places.
void SwarmRecord::replanned(const wire::Plan& plan) { write_planned(plan, cause_of(plan), ""); }

std::string SwarmRecord::cause_of(const wire::Plan& plan) const {
  if (!cause_.empty()) return cause_;
  for (const wire::PlannedPeer& peer : plan.peers) {
    if (peer.came == plan.generation) return fmt::format("{} has come", peer.contact.name);
  }
  const auto changed = std::ranges::find(plan.peers, plan.generation, &wire::PlannedPeer::since);
  if (changed == plan.peers.end()) return "";
  return fmt::format("cluster {} {}", changed->cluster, changed->restores ? "gets what it lacks" : "is whole again");
}

void SwarmRecord::write_planned(const wire::Plan& plan, const std::string& why, const std::string& what) {
  Json more = {{"generation", plan.generation}, {"reason", why}};
  if (!what.empty() && plan.step_seconds > 0) more["predicted_step_seconds"] = plan.step_seconds;
  write_event("planned", "",
              fmt::format("generation {}{}{}{}{}", plan.generation, why.empty() ? "" : ", as ", why,
                          what.empty() ? "" : ": ", what),
              more);
  cause_.clear();
}

void SwarmRecord::stuck() {
  note("stuck", "", "nobody gets on, though all are there: rounds begin anew");
  cause_ = "nobody got on";
}

void SwarmRecord::moves() {
  note("moves", "", "everybody stops for another plan");
  say("another plan is worth it: everybody stops, saves, and joins again");
}

void SwarmRecord::goes_back() {
  note("goes back", "", "no whole copy is left: all go on from what was saved last, by another plan");
  say("no whole copy is left: everybody joins again, and goes on from what was saved last");
  goes_back_ = true;
}

// What they did by the plan before stays what it was.
void SwarmRecord::moved(std::uint64_t step) {
  const auto number = static_cast<std::int64_t>(step);
  write_steps_until(number);
  rewind(number);
  cause_ = std::exchange(goes_back_, false) ? "no whole copy was left" : "another plan is better";
  progress_.clear();
  for (auto& [name, peer] : peers_) {
    peer.is_active = false;
    peer.sent_before += static_cast<std::int64_t>(peer.ended ? peer.ended->bytes_sent : peer.last.bytes_sent);
    peer.last = {};
    peer.rounds_failed = 0;
    if (!peer.ended) continue;
    peer.payload_before += static_cast<std::int64_t>(peer.ended->payload_sent);
    peer.rounds_before += static_cast<std::int64_t>(peer.ended->rounds);
    peer.rounds_failed_before += static_cast<std::int64_t>(peer.ended->rounds_failed);
    peer.ended.reset();
  }
}

void SwarmRecord::take(const wire::Plan& plan) {
  const Clusters clusters(plan, blueprint_.model->size());
  clusters_ = clusters.ranks.size();
  has_stages_ = clusters.have_stages();
  if (plan.step_seconds > 0 && !predicted_step_seconds_) predicted_step_seconds_ = plan.step_seconds;
  places_ = plan.peers.size();
  has_plan_ = true;
}

// What peers have sent so far is not known: it counts from their next steps on.
void SwarmRecord::taken_up(const wire::Plan& plan) {
  take(plan);
  start_ = clock_.now();
  has_begun_ = true;
  note("taken up", "", fmt::format("generation {}, after step {}", plan.generation, began_at_.step));
  const Clusters clusters(plan, blueprint_.model->size());
  for (const std::vector<std::size_t>& ranks : clusters.ranks) {
    const bool is_whole = std::ranges::all_of(ranks, [&](std::size_t rank) { return plan.peers[rank].here; });
    for (const std::size_t rank : ranks) {
      const wire::PlannedPeer& planned = plan.peers[rank];
      if (planned.empty) continue;
      place(planned);
      if (!is_whole) continue;
      Peer& peer = peers_[planned.contact.name];
      peer.is_active = true;
      peer.last.step = static_cast<std::uint64_t>(std::max(began_at_.step, static_cast<std::int64_t>(planned.from)));
      peer.counts_bytes = false;
      progress_.insert(static_cast<std::int64_t>(peer.last.step));
    }
  }
}

void SwarmRecord::returned(const std::string& peer) {
  note("returned", peer, "");
  say(fmt::format("{} is back", peer));
}

void SwarmRecord::missed(const std::string& who, const std::string& by, const std::string& why) {
  note("missed", who, fmt::format("{}, says {}", why, by));
}

void SwarmRecord::place(const wire::PlannedPeer& planned) {
  Peer& peer = peers_[planned.contact.name];
  peer.place = planned;
  peer.is_last = planned.end == blueprint_.model->size();
  if (!options_.lines_of_peers || peer.lines) return;
  std::filesystem::create_directories(directory_.peers());
  const auto path = directory_.peers() / (planned.contact.name + ".jsonl");
  observe::truncate_after(path, began_at_.step);
  peer.lines = std::make_unique<FileWriter>(path, FileWriter::Mode::kAppend);
  const Position earlier = position_at(path, began_at_.step);
  peer.last.step = static_cast<std::uint64_t>(began_at_.step);
  peer.samples = earlier.samples;
  peer.tokens = earlier.tokens;
}

// A cluster goes back to what it was: what came after that is taken back, and done again.
void SwarmRecord::rewind(std::int64_t step) {
  steps_.clear();
  if (position_.step > step) {
    ledger_.rewound(position_.step, step);
    note("rewound", "", fmt::format("to step {}: steps {} to {} are done again", step, step + 1, position_.step));
    observe::truncate_after(directory_.metrics(), step);
    const double seconds = position_.seconds;
    position_ = position_at(directory_.metrics(), step);
    position_.seconds = seconds;
  }
  for (auto& [name, peer] : peers_) {
    if (!peer.lines) continue;
    const auto path = directory_.peers() / (name + ".jsonl");
    observe::truncate_after(path, step);
    const Position own = position_at(path, step);
    peer.samples = own.samples;
    peer.tokens = own.tokens;
  }
}

void SwarmRecord::entered(const wire::PlannedPeer& planned) {
  if (planned.rewinds) rewind(static_cast<std::int64_t>(planned.from));
  const bool is_new = !peers_[planned.contact.name].lines;
  begins(planned, static_cast<std::int64_t>(planned.from));
  say(fmt::format("{} {} from step {} on", planned.contact.name, is_new ? "has come, and trains" : "trains again",
                  planned.from + 1));
}

void SwarmRecord::begins(const wire::PlannedPeer& planned, std::int64_t steps_done) {
  pauses(planned.contact.name);
  // What its cluster had done of later steps went with whoever was lost, and is done again.
  for (auto& [number, step] : steps_) {
    if (number <= steps_done) continue;
    std::erase_if(step.reports,
                  [&](const auto& report) { return peers_.at(report.first).place.cluster == planned.cluster; });
  }
  place(planned);
  began_after_[planned.cluster] = steps_done;
  Peer& peer = peers_[planned.contact.name];
  peer.is_active = true;
  peer.last.step = static_cast<std::uint64_t>(steps_done);
  progress_.insert(steps_done);
  note("began", planned.contact.name, fmt::format("after step {}", steps_done));
}

void SwarmRecord::pauses(const std::string& name) {
  const auto found = peers_.find(name);
  if (found == peers_.end() || !found->second.is_active) return;
  found->second.is_active = false;
  const auto done = progress_.find(static_cast<std::int64_t>(found->second.last.step));
  if (done != progress_.end()) progress_.erase(done);
  write_complete_steps();
}

// Who holds what, in the record and, where it is not the same for all, in words.
void SwarmRecord::introduce(const wire::Plan& plan) {
  const Clusters clusters(plan, blueprint_.model->size());
  std::vector<std::string> copies;
  for (std::size_t c = 0; c < clusters.ranks.size(); ++c) {
    std::vector<std::string> stages;
    for (const std::size_t rank : clusters.ranks[c]) {
      const wire::PlannedPeer& peer = plan.peers[rank];
      stages.push_back(clusters.ranks[c].size() == 1
                           ? peer.contact.name
                           : fmt::format("{} (layers {} to {})", peer.contact.name, peer.begin, peer.end - 1));
    }
    copies.push_back(fmt::format("{}", fmt::join(stages, " → ")));
  }
  const std::string often =
      has_intervals(settings_.sync) ? fmt::format(" every {} steps", interval_of(settings_.sync)) : "";
  const std::string by = settings_.sync.method + often;
  const std::string kept = copies.size() > 1 ? fmt::format(", kept one by {}", by) : "";
  const std::string schedule(plan::name_of(schedule_of(settings_, clusters.have_stages(), 0).schedule));
  const auto expected =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(plan.step_seconds));
  const std::string what = clusters.have_stages() ? fmt::format("{} segments, {}: {}", clusters.segments.size(),
                                                                schedule, fmt::join(copies, "; "))
                                                  : fmt::format("a copy on each of {}", fmt::join(copies, ", "));
  const std::string lasts =
      plan.step_seconds > 0 ? fmt::format("; a step is expected to take {}", format_duration(expected)) : "";
  write_planned(plan, cause_.empty() ? "all are here" : cause_, what + kept + lasts);
  if (!tell_plan_) return;
  for (std::size_t c = 0; clusters.have_stages() && c < copies.size(); ++c) {
    tell_plan_(fmt::format("cluster {}: {}", c, copies[c]));
  }
  if (plan.step_seconds > 0) {
    tell_plan_(fmt::format("planned: {}{}{}a step is expected to take {}",
                           copies.size() > 1 ? fmt::format("copies are kept one by {}, ", by) : "",
                           clusters.have_stages() ? schedule : "", clusters.have_stages() ? " schedule, " : "",
                           format_duration(expected)));
  }
}

double SwarmRecord::step_seconds() const {
  const auto steps = static_cast<double>(position_.step - began_at_.step);
  if (steps == 0) return predicted_step_seconds_.value_or(0);
  return (position_.seconds - began_at_.seconds) / std::max(1.0, steps);
}

double SwarmRecord::usual_step_seconds() const {
  if (last_steps_.empty()) return step_seconds();
  std::vector<double> steps(last_steps_.begin(), last_steps_.end());
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle);
  return *middle;
}

void SwarmRecord::began() {
  if (!std::exchange(has_begun_, true)) start_ = clock_.now();
  note("began", "", "");
}

double SwarmRecord::seconds() const { return std::chrono::duration<double>(clock_.now() - start_).count(); }

bool SwarmRecord::awaits_evaluation(std::int64_t step) const {
  const config::Train& t = settings_.train;
  if (t.eval_batches == 0) return false;
  return step == t.steps || due(step, t.eval_every);
}

void SwarmRecord::stepped(const std::string& name, const wire::StepReport& report) {
  Peer& peer = peers_.at(name);
  if (!peer.is_active) return;  // another stage of its cluster was lost, and so is this step
  const auto step_number = static_cast<std::int64_t>(report.step);
  if (report.step != peer.last.step + 1 || step_number > settings_.train.steps) {
    throw wire::WireError("reported step {} after step {}", report.step, peer.last.step);
  }
  if (!std::exchange(peer.counts_bytes, true)) {
    peer.last.bytes_sent = report.bytes_sent;
    peer.last.bytes_received = report.bytes_received;
    peer.rounds_failed = report.rounds_failed;
  }
  count_failed_rounds(name, peer, report.rounds_failed);
  const auto sent = static_cast<std::int64_t>(report.bytes_sent - std::min(report.bytes_sent, peer.last.bytes_sent));
  const auto received =
      static_cast<std::int64_t>(report.bytes_received - std::min(report.bytes_received, peer.last.bytes_received));
  if (const auto done = progress_.find(step_number - 1); done != progress_.end()) progress_.erase(done);
  progress_.insert(step_number);
  peer.last = report;
  peer.compute_seconds += report.compute_seconds;
  peer.wait_seconds += report.wait_seconds;
  ++peer.steps;
  peer.samples += static_cast<std::int64_t>(report.samples);
  peer.tokens += static_cast<std::int64_t>(report.tokens);

  const double seconds = std::chrono::duration<double>(clock_.now() - start_).count() + began_at_.seconds;
  const observe::StepMetrics::Together own{.compute_seconds = report.compute_seconds,
                                           .wait_seconds = report.wait_seconds,
                                           .bytes_sent = sent,
                                           .bytes_received = received};
  observe::StepMetrics alone{.step = step_number,
                             .loss = report.loss,
                             .seconds = seconds,
                             .step_seconds = report.compute_seconds + report.wait_seconds,
                             .samples = peer.samples,
                             .tokens = peer.tokens,
                             .lr = report.lr,
                             .grad_norm = report.grad_norm,
                             .together = own,
                             .drift = report.drift};
  if (has_stages_) alone.staleness_max = static_cast<std::int64_t>(report.staleness);
  Json line = observe::to_json(alone);
  if (report.pulled || !peer.is_last) line.erase("loss");
  if (report.pulled) {
    line.erase("grad_norm");
    line["pulled"] = true;
  }
  if (peer.lines) peer.lines->write(line_of(line));

  Step& step = steps_[step_number];
  step.reports[name] = {report, own};
  step.seconds = seconds;
  write_complete_steps();
}

// The count begins anew with another process.
void SwarmRecord::count_failed_rounds(const std::string& name, Peer& peer, std::uint64_t so_far) {
  if (so_far > peer.rounds_failed) note("round failed", name, fmt::format("{} so far", so_far));
  peer.rounds_failed = so_far;
}

void SwarmRecord::evaluated(const std::string& name, const wire::Evaluated& evaluation) {
  if (evaluation.split == "test") {
    tests_[name] = evaluation;
    return;
  }
  if (evaluation.own) peers_.at(name).eval_loss = evaluation.loss;
  const auto number = static_cast<std::int64_t>(evaluation.step);
  if (number > settings_.train.steps) throw wire::WireError("has evaluated step {}, which does not exist", number);
  if (number <= position_.step) {  // a run that had come to its end was resumed
    eval_loss_ = evaluation.loss;
    eval_accuracy_ = evaluation.accuracy;
    consensus_distance_ = evaluation.consensus_distance;
    return;
  }
  steps_[static_cast<std::int64_t>(evaluation.step)].evaluations[name] = evaluation;
  write_complete_steps();
}

// All who are to do it have, and evaluations have come: where peers come and go, each has its own, before its next
// step.
bool SwarmRecord::is_complete(std::int64_t number, const Step& step) const {
  if (number != position_.step + 1) return false;
  if (options_.changing) {
    return !progress_.empty() &&
           (awaits_evaluation(number) ? *progress_.begin() > number : *progress_.begin() >= number);
  }
  if (progress_.empty() || *progress_.begin() < number) return false;
  const std::size_t evaluations = settings_.sync.method == "none" ? clusters_ : 1;
  return !awaits_evaluation(number) || step.evaluations.size() >= evaluations || *progress_.begin() > number;
}

void SwarmRecord::write_complete_steps() {
  while (!steps_.empty() && is_complete(steps_.begin()->first, steps_.begin()->second)) write_first_step();
}

void SwarmRecord::write_first_step() {
  observe::StepMetrics metrics = mean_of(steps_.begin()->second);
  metrics.step = steps_.begin()->first;
  constexpr std::size_t kOfLate = 15;
  last_steps_.push_back(metrics.seconds - position_.seconds);
  if (last_steps_.size() > kOfLate) last_steps_.pop_front();
  position_.step = metrics.step;
  position_.samples += metrics.samples;
  position_.tokens += metrics.tokens;
  position_.seconds = metrics.seconds;
  position_.loss = metrics.loss;
  metrics.samples = position_.samples;
  metrics.tokens = position_.tokens;
  if (metrics.eval_loss) {
    eval_loss_ = metrics.eval_loss;
    eval_accuracy_ = metrics.eval_accuracy;
    consensus_distance_ = metrics.consensus_distance;
  }
  sinks_.step(metrics);
  ledger_.done(metrics.step, clusters_in(steps_.begin()->second));
  steps_.erase(steps_.begin());
}

std::vector<bool> SwarmRecord::clusters_in(const Step& step) const {
  std::vector<bool> has_done(clusters_);
  for (const auto& [name, own] : step.reports) {
    const Peer& peer = peers_.at(name);
    if (peer.is_last) has_done.at(peer.place.cluster) = true;
  }
  return has_done;
}

// Samples and tokens are those of this step alone.
observe::StepMetrics SwarmRecord::mean_of(const Step& step) const {
  observe::StepMetrics mean{.seconds = step.seconds, .together = observe::StepMetrics::Together{}};
  const auto peers = static_cast<double>(step.reports.size());
  double losses = 0;
  std::map<std::uint32_t, double> squares, drifts;  // of each cluster
  for (const auto& [name, own] : step.reports) {
    const Peer& peer = peers_.at(name);
    const wire::StepReport& report = own.report;
    mean.step_seconds = std::max(mean.step_seconds, report.compute_seconds + report.wait_seconds);
    mean.samples += static_cast<std::int64_t>(report.samples);
    mean.tokens += static_cast<std::int64_t>(report.tokens);
    mean.lr = std::max(mean.lr, report.lr);
    mean.together->compute_seconds += report.compute_seconds / peers;
    mean.together->wait_seconds += report.wait_seconds / peers;
    mean.together->bytes_sent += own.together.bytes_sent;
    mean.together->bytes_received += own.together.bytes_received;
    if (has_stages_) {
      mean.staleness_max = std::max(mean.staleness_max.value_or(0), static_cast<std::int64_t>(report.staleness));
    }
    if (report.drift) drifts[peer.place.cluster] += *report.drift * *report.drift;
    if (report.pulled) continue;
    squares[peer.place.cluster] += report.grad_norm * report.grad_norm;
    if (!peer.is_last) continue;
    mean.loss += report.loss;
    ++losses;
  }
  mean.loss = losses > 0 ? mean.loss / losses : position_.loss;  // where everybody pulled, there is none
  for (const auto& [cluster, sum] : squares) mean.grad_norm += std::sqrt(sum) / static_cast<double>(squares.size());
  for (const auto& [cluster, sum] : drifts) {
    mean.drift = mean.drift.value_or(0) + std::sqrt(sum) / static_cast<double>(drifts.size());
  }
  if (const auto evaluation = mean_of(step.evaluations)) {
    mean.eval_loss = evaluation->loss;
    mean.eval_accuracy = evaluation->accuracy;
    mean.consensus_distance = evaluation->consensus_distance;
  }
  return mean;
}

std::optional<wire::Evaluated> SwarmRecord::mean_of(const std::map<std::string, wire::Evaluated>& evaluations) {
  if (evaluations.empty()) return std::nullopt;
  if (!evaluations.begin()->second.own) return evaluations.begin()->second;  // all say the same
  const auto count = static_cast<double>(evaluations.size());
  wire::Evaluated mean;
  for (const auto& [name, evaluation] : evaluations) {
    mean.loss += evaluation.loss / count;
    mean.accuracy += evaluation.accuracy / count;
    mean.consensus_distance += evaluation.consensus_distance / count;
  }
  return mean;
}

// Whoever came, but had not begun to train when the run ended, has no part in it.
void SwarmRecord::ended(const std::string& peer, const wire::Ended& summary) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  count_failed_rounds(peer, found->second, summary.rounds_failed);
  found->second.ended = summary;
}

std::vector<wire::SurveyedLink> SwarmRecord::links_of(const std::string& peer) const {
  const auto found = peers_.find(peer);
  const bool has_ended = found != peers_.end() && found->second.ended;
  return has_ended ? found->second.ended->links : std::vector<wire::SurveyedLink>();
}

// On another thread: nothing that others change is touched here.
bool SwarmRecord::keep(std::uint64_t step, const std::filesystem::path& folder) {
  const CheckpointInfo info = read_checkpoint_info(folder);
  const Shard& shard = info.shards.at(0);
  if (shard.of > places_) throw InputError("{}: has more shards than there are peers", folder.string());
  const auto forget = [&](auto saving) {
    for (const auto& [number, path] : saving->second) std::filesystem::remove_all(path);
    return unfinished_.erase(saving);
  };
  const auto saving = unfinished_.try_emplace({info.position.step, shard.of, info.saving}).first;
  saving->second[shard.number] = folder;
  if (saving->second.size() < shard.of) {
    constexpr std::size_t kMost = 4;  // those before it will never be whole
    for (auto oldest = unfinished_.begin(); unfinished_.size() > kMost && oldest != saving;) oldest = forget(oldest);
    return false;
  }
  make_durable(directory_.metrics());  // a checkpoint must not outlive the lines before it
  std::vector<std::filesystem::path> folders;
  for (const auto& [number, path] : saving->second) folders.push_back(path);
  const auto number = static_cast<std::int64_t>(step);
  take_checkpoint(directory_.checkpoints(), folders, number, settings_.train.keep_checkpoints);
  unfinished_.erase(saving);
  for (auto older = unfinished_.begin(); older != unfinished_.end() && std::get<0>(older->first) < number;) {
    older = forget(older);
  }
  return true;
}

void SwarmRecord::saved(const std::string& peer, std::uint64_t step) {
  saved_step_ = static_cast<std::int64_t>(step);
  note("checkpoint", peer, fmt::format("at step {}", step));
}

observe::PeerSummary::Stage SwarmRecord::stage_of(const Peer& peer) {
  observe::PeerSummary::Stage stage{
      .cluster = peer.place.cluster, .stage = peer.place.stage, .begin = peer.place.begin, .end = peer.place.end};
  if (peer.place.memory > 0) stage.planned_memory_bytes = static_cast<Bytes>(peer.place.memory);
  if (!peer.ended) return stage;
  stage.waited_forward_seconds = peer.ended->waited_forward;
  stage.waited_backward_seconds = peer.ended->waited_backward;
  stage.staleness.assign(peer.ended->staleness.begin(), peer.ended->staleness.end());
  stage.versions = static_cast<std::int64_t>(peer.ended->versions);
  return stage;
}

// Nothing if there was only one, or not everybody has said what it has.
std::optional<bool> SwarmRecord::identical_copies() const {
  std::map<std::uint32_t, std::set<std::string>> different;
  std::map<std::uint32_t, std::size_t> copies;
  for (const auto& [name, peer] : peers_) {
    if (!peer.is_active) continue;
    if (!peer.ended || peer.ended->segments.empty()) return {};
    for (const wire::SegmentDigest& segment : peer.ended->segments) {
      different[segment.segment].insert(segment.digest);
      ++copies[segment.segment];
    }
  }
  const std::size_t clusters = copies.empty() ? 0 : copies.begin()->second;
  if (clusters < 2 || std::ranges::any_of(copies, [&](const auto& entry) { return entry.second != clusters; })) {
    return {};
  }
  return std::ranges::all_of(different, [](const auto& entry) { return entry.second.size() == 1; });
}

// Those of which anything is known.
void SwarmRecord::write_steps_until(std::int64_t last) {
  while (!steps_.empty() && steps_.begin()->first == position_.step + 1 && steps_.begin()->first <= last &&
         !steps_.begin()->second.reports.empty()) {
    write_first_step();
  }
}

observe::Summary SwarmRecord::finish() {
  // Where a peer was lost, the last steps are those that are in the checkpoint, though not everybody has reported them.
  if (options_.changing) {
    if (!progress_.empty()) write_steps_until(*progress_.begin());
  } else if (saved_step_) {
    write_steps_until(*saved_step_);
  }
  double computed = 0, waited = 0;  // in steps, as in a run of one peer
  std::int64_t taken = 0;           // steps, by all peers: not everybody was there all the time
  for (const auto& [name, peer] : peers_) {
    computed += peer.compute_seconds;
    waited += peer.wait_seconds;
    taken += peer.steps;
  }
  const std::int64_t steps = position_.step - began_at_.step;
  const double usual = taken > 0 ? (computed + waited) / static_cast<double>(taken) : 0;
  const double seconds = options_.changing ? position_.seconds - began_at_.seconds : usual * static_cast<double>(steps);
  observe::Summary summary{.final_loss = position_.loss,
                           .eval_loss = eval_loss_,
                           .eval_accuracy = eval_accuracy_,
                           .steps = position_.step,
                           .samples = position_.samples,
                           .tokens = position_.tokens,
                           .tokens_per_second = rate(position_.tokens - began_at_.tokens, seconds),
                           .samples_per_second = rate(position_.samples - began_at_.samples, seconds),
                           .wall_seconds = position_.seconds,
                           .parameters = blueprint_.model->parameter_count()};
  if (const auto test = mean_of(tests_)) {
    summary.test_loss = test->loss;
    summary.test_accuracy = test->accuracy;
  }
  if (clusters_ > 0) summary.arrangement = arrangement_of(settings_, clusters_, has_stages_);
  summary.bytes_sent = summary.payload_bytes_sent = 0;
  summary.rounds = 0;
  for (const auto& [name, peer] : peers_) {
    observe::PeerSummary& own = summary.peers.emplace_back(observe::PeerSummary{.name = name});
    own.bytes_sent =
        peer.sent_before + static_cast<std::int64_t>(peer.ended ? peer.ended->bytes_sent : peer.last.bytes_sent);
    *summary.bytes_sent += *own.bytes_sent;
    *summary.payload_bytes_sent += peer.payload_before;
    summary.rounds_failed += peer.rounds_failed_before;
    summary.rounds = std::max(*summary.rounds, peer.rounds_before);
    own.own_memory_bytes = peer.own_memory;
    own.wait_seconds = peer.wait_seconds;
    own.eval_loss = peer.eval_loss;
    if (has_stages_) own.stage = stage_of(peer);
    if (!peer.ended) continue;
    own.peak_memory_bytes = static_cast<Bytes>(peer.ended->peak_memory);
    own.busy_share = peer.ended->busy_share;
    *summary.payload_bytes_sent += static_cast<std::int64_t>(peer.ended->payload_sent);
    summary.rounds = std::max(*summary.rounds, peer.rounds_before + static_cast<std::int64_t>(peer.ended->rounds));
    summary.rounds_failed += static_cast<std::int64_t>(peer.ended->rounds_failed);
    summary.peak_memory_bytes = std::max(summary.peak_memory_bytes, own.peak_memory_bytes);
    if (peer.ended->entropy_floor) summary.entropy_floor = peer.ended->entropy_floor;
  }
  summary.exposed_communication_share = computed + waited > 0 ? waited / (computed + waited) : 0;
  summary.consensus_distance = consensus_distance_;
  summary.identical_copies = identical_copies();
  summary.expelled = expelled_;
  summary.predicted_step_seconds = predicted_step_seconds_;
  if (steps > 0) {
    summary.measured_step_seconds = seconds / static_cast<double>(steps);
  }
  summary.left_out = ledger_.left_out();
  summary.forgotten = ledger_.forgotten();
  summary.repeated = ledger_.repeated();
  if (settings_.sync.method != "palsgd") summary.samples_left_out = ledger_.steps_left_out() * settings_.train.batch;
  const bool was_finished = steps == 0 && std::filesystem::exists(directory_.summary());
  if (position_.step == settings_.train.steps && !was_finished) {
    replace_file(directory_.summary(), observe::to_json(summary).dump(2) + "\n");
  }
  sinks_.finish(summary);
  return summary;
}

std::int64_t last_step_of(const std::filesystem::path& metrics) {
  std::int64_t step = 0;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object()) step = object.value("step", step);
  }
  return step;
}

Position position_at(const std::filesystem::path& metrics, std::int64_t step) {
  Position position;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object() || object.value("step", std::numeric_limits<std::int64_t>::max()) > step) continue;
    const auto number = [&](const char* key) {
      const auto found = object.find(key);
      return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    position.samples = static_cast<std::int64_t>(number("samples"));
    position.tokens = static_cast<std::int64_t>(number("tokens"));
    position.seconds = number("seconds");
    position.loss = number("loss");
  }
  position.step = step;
  return position;
}

}  // namespace rookery::train
