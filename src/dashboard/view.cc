#include "dashboard/view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

namespace rookery::dashboard {
namespace {

constexpr std::size_t kMostPeers = 2048;
constexpr std::size_t kMostEvents = 500;
constexpr std::size_t kMostLogLines = 20;
constexpr std::size_t kLongestLine = 300;
constexpr double kSpansShown = 1000;  // in a second, of all peers
constexpr double kSpanSeconds = 60;   // that are remembered
constexpr std::size_t kMostSpans = 4000;
constexpr double kRateSeconds = 1;                  // over which a rate is taken
constexpr double kNothingNew = 5;                   // seconds, after which there is no rate any more
constexpr std::uint64_t kWorthShowing = 64 * 1024;  // bytes over a link that no plan has
constexpr std::size_t kMostUnplanned = 64 * 1024;   // of which it is remembered what they carried

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Shown digits are fewer than a double has; shorter numbers are sent faster.
Json rounded(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  if (*value == 0) return 0;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::abs(*value))));
  const double result = std::round(*value * scale) / scale;
  return std::isfinite(result) ? Json(result) : Json(*value);
}

Json json_of(const RunView& run) {
  return {{"name", run.name},
          {"model", run.model},
          {"data", run.data},
          {"parameters", run.parameters},
          {"method", run.method},
          {"schedule", run.schedule},
          {"first_step", run.first_step},
          {"step", run.step},
          {"steps", run.steps},
          {"phase", name_of(run.phase)},
          {"why", run.why}};
}

Json json_of(const PlanView& plan) {
  return {{"generation", plan.generation},
          {"clusters", plan.clusters},
          {"predicted_step_seconds", rounded(plan.predicted_step_seconds)},
          {"measured_step_seconds", rounded(plan.measured_step_seconds)}};
}

Json json_of(const std::string& name, const PeerView& peer, double seconds) {
  Json object = {{"name", name}, {"state", name_of(peer.state)}, {"why", peer.why}};
  object["cluster"] = peer.place ? Json(peer.place->cluster) : Json(nullptr);
  object["stage"] = peer.place ? Json(peer.place->stage) : Json(nullptr);
  object["layers"] = peer.place ? Json::array({peer.place->begin, peer.place->end}) : Json(nullptr);
  object["host"] = peer.host;
  object["hardware"] = peer.hardware;
  object["cores"] = peer.cores;
  object["speed"] = peer.speed;
  object["stands_in"] = peer.stands_in;
  object["memory"] = {{"resident", or_null(peer.resident)},
                      {"planned", or_null(peer.planned)},
                      {"limit", or_null(peer.limit)},
                      {"available", or_null(peer.available)}};
  object["step"] = peer.step;
  object["step_seconds"] = rounded(peer.step_seconds);
  object["compute_seconds"] = rounded(peer.compute_seconds);
  object["wait_seconds"] = rounded(peer.wait_seconds);
  object["bytes_sent"] = peer.bytes_sent;
  object["bytes_received"] = peer.bytes_received;
  object["send_rate"] = std::round(peer.sends.at(seconds));
  object["receive_rate"] = std::round(peer.receives.at(seconds));
  object["staleness"] = or_null(peer.staleness);
  object["rounds_failed"] = peer.rounds_failed;
  object["log"] = peer.log;
  return object;
}

Json json_of(const View::Links& links, double seconds) {
  Json list = Json::array();
  for (const auto& [ends, link] : links) {
    const double rate = link.rate.at(seconds);
    if (!link.is_planned && rate == 0) continue;
    const bool is_measured = link.bandwidth && *link.bandwidth > 0;
    list.push_back({{"from", ends.first},
                    {"to", ends.second},
                    {"kind", link.kind},
                    {"rate", std::round(rate)},
                    {"bandwidth", rounded(link.bandwidth)},
                    {"latency", rounded(link.latency)},
                    {"use", is_measured ? rounded(rate / *link.bandwidth) : Json(nullptr)}});
  }
  return list;
}

Json json_of(const Row& row) {
  Json list = Json::array();
  for (std::size_t column = 0; column < row.size(); ++column) {
    list.push_back(column == 0 ? Json(static_cast<std::int64_t>(*row[0])) : rounded(row[column]));
  }
  return list;
}

Json json_of(const Series& series) {
  Json rows = Json::array();
  for (const Row& row : series.rows()) rows.push_back(json_of(row));
  return {{"columns", kColumns}, {"stride", series.stride()}, {"rows", std::move(rows)}};
}

Json latest_of(const View& view) {
  const std::optional<Row>& latest = view.series().latest();
  return latest ? json_of(*latest) : Json(nullptr);
}

Json json_of(const auto& spans) {
  const auto milliseconds = [](double seconds) { return std::round(1000 * seconds) / 1000; };
  Json list = Json::array();
  for (const observe::ActivitySpan& span : spans) {
    list.push_back(Json::array({observe::name_of(span.kind), milliseconds(span.begin), milliseconds(span.end)}));
  }
  return list;
}

Json json_of(const EventView& event) {
  return {{"id", event.id},     {"seconds", std::round(1000 * event.seconds) / 1000},
          {"step", event.step}, {"event", event.event},
          {"peer", event.peer}, {"text", event.text}};
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

const char* name_of(Phase phase) {
  static constexpr std::array<const char*, 6> kNames = {"gathering", "training", "pausing",
                                                        "paused",    "ended",    "failed"};
  return kNames[static_cast<std::size_t>(phase)];
}

const char* name_of(PeerView::State state) {
  static constexpr std::array<const char*, 11> kNames = {
      "joining", "ready", "training", "waiting", "restoring", "silent", "lost", "left", "refused", "expelled", "ended"};
  return kNames[static_cast<std::size_t>(state)];
}

void Rate::add(double seconds, std::uint64_t sum) {
  if (!before_ || sum < *before_) {  // the beginning, or another one
    before_ = sum;
    since_ = until_ = seconds;
    return;
  }
  until_ = seconds;
  if (seconds - since_ < kRateSeconds) return;
  rate_ = static_cast<double>(sum - *before_) / (seconds - since_);
  since_ = seconds;
  before_ = sum;
}

double Rate::at(double seconds) const { return seconds - until_ < kNothingNew ? rate_ : 0; }

void PeerView::stepped(double seconds, std::uint64_t number, double computed, double waited) {
  constexpr double kNew = 0.2;  // what the newest step counts for
  const auto follow = [](std::optional<double>& shown, double value) {
    shown = shown ? *shown + kNew * (value - *shown) : value;
  };
  step = number;
  follow(compute_seconds, computed);
  follow(wait_seconds, waited);
  follow(step_seconds, computed + waited);
  sends.add(seconds, bytes_sent);
  receives.add(seconds, bytes_received);
}

void PeerView::say(std::string line) {
  if (line.size() > kLongestLine) line.resize(kLongestLine);
  log.push_back(std::move(line));
  if (log.size() > kMostLogLines) log.pop_front();
}

PeerView& View::peer(const std::string& name) {
  const auto found = peers_.find(name);
  if (found != peers_.end()) return found->second;
  if (peers_.size() >= kMostPeers) {
    const auto useless =
        std::ranges::find_if(peers_, [](const auto& entry) { return entry.second.is_gone() && !entry.second.place; });
    if (useless != peers_.end()) {
      spans_.erase(useless->first);
      new_spans_.erase(useless->first);
      thinning_.erase(useless->first);
      peers_.erase(useless);
    }
  }
  return peers_[name];
}

void View::carried(double seconds, const std::string& from, const std::string& to, std::uint64_t sum) {
  const auto is_quiet = [&](const auto& entry) {
    return !entry.second.is_planned && entry.second.rate.at(seconds) == 0;
  };
  if (const auto link = links.find({from, to}); link != links.end()) {
    link->second.rate.add(seconds, sum);
    if (link->second.is_planned) return;
    unplanned_[{from, to}] = {seconds, sum};
    if (is_quiet(*link)) links.erase(link);
    return;
  }
  if (unplanned_.size() >= kMostUnplanned) unplanned_.clear();
  auto& [since, before] = unplanned_.try_emplace({from, to}, seconds, sum).first->second;
  if (sum < before || (seconds > since + kNothingNew && sum - before < kWorthShowing)) {
    since = seconds, before = sum;  // it has begun anew, or carries next to nothing
  }
  if (sum - before < kWorthShowing) return;
  if (links.size() >= kMostLinks) std::erase_if(links, is_quiet);
  if (links.size() >= kMostLinks) return;
  LinkView& link = links[{from, to}] = {.kind = "ring", .is_planned = false};
  link.rate.add(std::min(since, seconds - kRateSeconds), before);
  link.rate.add(seconds, sum);
  since = seconds, before = sum;
}

void View::observed(const std::string& from, const std::string& to, double bandwidth, double latency) {
  const auto found = links.find({from, to});
  if (found == links.end() || found->second.is_measured) return;
  if (bandwidth > 0) found->second.bandwidth = bandwidth;
  if (latency > 0) found->second.latency = latency;
}

// The median of the last ones: one in which there was a pause counts no more than others.
void View::add_step(const observe::StepMetrics& metrics) {
  constexpr std::size_t kLastSteps = 31;
  if (plan && last_step_ && metrics.step == last_step_->step + 1) {
    step_seconds_.push_back(metrics.seconds - last_step_->seconds);
    if (step_seconds_.size() > kLastSteps) step_seconds_.pop_front();
    std::vector<double> sorted(step_seconds_.begin(), step_seconds_.end());
    std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
    plan->measured_step_seconds = sorted[sorted.size() / 2];
  }
  series_.add(metrics);
  run.step = metrics.step;
  last_step_ = metrics;
  if (metrics.eval_loss) eval_loss_ = metrics.eval_loss;
  if (metrics.consensus_distance) consensus_distance_ = metrics.consensus_distance;
  if (metrics.drift) drift_ = metrics.drift;
}

void View::add_spans(const std::string& name, std::vector<observe::ActivitySpan> added, double seconds) {
  const double each =
      std::clamp(kSpansShown / static_cast<double>(std::max<std::size_t>(1, peers_.size())), 4.0, 100.0);
  std::erase_if(added, [&](const auto& span) { return span.end < seconds - kSpanSeconds; });
  forget_old_spans(seconds);
  if (added.empty()) return;
  added = thinning_[name](std::move(added), each);
  std::deque<observe::ActivitySpan>& known = spans_[name];
  known.insert(known.end(), added.begin(), added.end());
  while (known.size() > kMostSpans) known.pop_front();
  std::vector<observe::ActivitySpan>& fresh = new_spans_[name];
  fresh.insert(fresh.end(), added.begin(), added.end());
  if (fresh.size() > kMostSpans) fresh.resize(kMostSpans);
}

// Of all: who has gone says nothing more. Once in a while, as there may be many. Those that nobody has asked for go,
// too.
void View::forget_old_spans(double seconds) {
  if (seconds < forgot_spans_ + 1) return;
  forgot_spans_ = seconds;
  const auto is_old = [&](const observe::ActivitySpan& span) { return span.end < seconds - kSpanSeconds; };
  for (auto& [name, known] : spans_) std::erase_if(known, is_old);
  for (auto& [name, fresh] : new_spans_) std::erase_if(fresh, is_old);
  const auto is_empty = [](const auto& entry) { return entry.second.empty(); };
  std::erase_if(spans_, is_empty);
  std::erase_if(new_spans_, is_empty);
  std::erase_if(thinning_, [&](const auto& entry) { return !spans_.contains(entry.first); });
}

void View::add_event(double seconds, const std::string& event, const std::string& peer_name, const std::string& text) {
  events_.push_back({.id = ++events_so_far_,
                     .seconds = seconds,
                     .step = run.step,
                     .event = event,
                     .peer = peer_name,
                     .text = text.substr(0, kLongestLine)});
  if (events_.size() > kMostEvents) events_.pop_front();
}

Json state_of(const View& view, double seconds) {
  Json state = {{"type", "state"}, {"protocol", 1}, {"seconds", seconds}, {"run", json_of(view.run)}};
  state["plan"] = view.plan ? json_of(*view.plan) : Json(nullptr);
  Json& peers = state["peers"] = Json::array();
  for (const auto& [name, peer] : view.peers()) peers.push_back(json_of(name, peer, seconds));
  state["links"] = json_of(view.links, seconds);
  state["series"] = json_of(view.series());
  state["latest"] = latest_of(view);
  Json& spans = state["spans"] = Json::object();
  for (const auto& [name, own] : view.spans()) spans[name] = json_of(own);
  Json& events = state["events"] = Json::array();
  for (const EventView& event : view.events()) events.push_back(json_of(event));
  return state;
}

Json brief_of(const View& view, double seconds) {
  constexpr std::size_t kLastEvents = 20;
  Json state = {{"type", "brief"}, {"protocol", 1}, {"seconds", seconds}, {"run", json_of(view.run)}};
  state["plan"] = view.plan ? json_of(*view.plan) : Json(nullptr);
  Json& peers = state["peers"] = Json::array();
  for (const auto& [name, peer] : view.peers()) peers.push_back(json_of(name, peer, seconds));
  state["series"] = {{"columns", kColumns}, {"stride", view.series().stride()}, {"rows", Json::array()}};
  if (view.series().latest()) state["series"]["rows"].push_back(latest_of(view));
  state["eval_loss"] = rounded(view.eval_loss());
  state["consensus_distance"] = rounded(view.consensus_distance());
  state["drift"] = rounded(view.drift());
  Json& events = state["events"] = Json::array();
  const std::size_t skipped = view.events().size() - std::min(view.events().size(), kLastEvents);
  for (std::size_t i = skipped; i < view.events().size(); ++i) events.push_back(json_of(view.events()[i]));
  return state;
}

std::optional<Json> Changes::since_last(View& view, double seconds) {
  Json update = {{"type", "update"}, {"seconds", seconds}};
  const std::size_t nothing = update.size();
  const auto add = [&](const char* key, Json value, std::string& before) {
    std::string text = text_of(value);
    if (text == before) return;
    before = std::move(text);
    update[key] = std::move(value);
  };
  add("run", json_of(view.run), run_);
  if (view.plan) add("plan", json_of(*view.plan), plan_);
  add("links", json_of(view.links, seconds), links_);
  add_peers(view, seconds, update);
  add_series(view, update);
  if (view.series().latest()) add("latest", latest_of(view), latest_);
  add_spans(view, update);
  add_events(view, update);
  if (update.size() == nothing) return std::nullopt;
  return update;
}

void Changes::add_peers(const View& view, double seconds, Json& update) {
  Json list = Json::array();
  for (const auto& [name, peer] : view.peers()) {
    std::map<std::string, std::string>& before = peers_[name];
    Json changed = {{"name", name}};
    const Json object = json_of(name, peer, seconds);
    for (const auto& [key, value] : object.items()) {
      std::string text = text_of(value);
      std::string& was = before[key];
      if (text == was) continue;
      was = std::move(text);
      changed[key] = value;
    }
    if (changed.size() > 1) list.push_back(std::move(changed));
  }
  if (!list.empty()) update["peers"] = std::move(list);
  std::erase_if(peers_, [&](const auto& entry) { return !view.peers().contains(entry.first); });
}

void Changes::add_series(const View& view, Json& update) {
  const Series& series = view.series();
  if (series.edition() != edition_) {
    update["series"] = json_of(series);
  } else if (series.rows().size() > rows_) {
    Json rows = Json::array();
    for (std::size_t i = rows_; i < series.rows().size(); ++i) rows.push_back(json_of(series.rows()[i]));
    update["series"] = {{"rows", std::move(rows)}};
  }
  edition_ = series.edition();
  rows_ = series.rows().size();
}

void Changes::add_spans(View& view, Json& update) {
  Json spans = Json::object();
  for (const auto& [name, own] : view.new_spans_) {
    if (!own.empty()) spans[name] = json_of(own);
  }
  view.new_spans_.clear();
  if (!spans.empty()) update["spans"] = std::move(spans);
}

void Changes::add_events(const View& view, Json& update) {
  Json events = Json::array();
  for (const EventView& event : view.events()) {
    if (event.id > events_) events.push_back(json_of(event));
  }
  if (!view.events().empty()) events_ = view.events().back().id;
  if (!events.empty()) update["events"] = std::move(events);
}

}  // namespace rookery::dashboard
