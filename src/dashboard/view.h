#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "dashboard/series.h"
#include "observe/activity.h"
#include "observe/metrics.h"

namespace rookery::dashboard {

using Json = nlohmann::ordered_json;

// What is known of a run, as those see it who look on: docs/dashboard.md has it field by field. Everything in it has a
// bound, however long the run and whatever others say. Times are seconds on one clock, that of whoever shows it.

enum class Phase { kGathering, kTraining, kPausing, kPaused, kEnded, kFailed };
const char* name_of(Phase phase);

struct RunView {
  std::string name{}, model{}, data{};
  std::int64_t parameters = 0;
  std::string method{}, schedule{};
  std::int64_t first_step = 0, step = 0, steps = 0;
  Phase phase = Phase::kGathering;
  std::string why{};
};

struct PlanView {
  std::uint32_t generation = 0;
  std::size_t clusters = 0;
  std::optional<double> predicted_step_seconds{}, measured_step_seconds{};
};

// How much more there is in a second of something that is known as a sum.
class Rate {
 public:
  void add(double seconds, std::uint64_t sum);
  double at(double seconds) const;  // nothing if nothing has come for a while

 private:
  double since_ = 0, until_ = 0, rate_ = 0;
  std::optional<std::uint64_t> before_;
};

struct PeerView {
  enum class State {
    kJoining,
    kReady,
    kTraining,
    kWaiting,
    kRestoring,
    kSilent,
    kLost,
    kLeft,
    kRefused,
    kExpelled,
    kEnded
  };

  struct Place {
    std::uint32_t cluster = 0, stage = 0, begin = 0, end = 0;
  };

  State state = State::kJoining;
  std::string why{};
  std::optional<Place> place{};
  std::string host{}, hardware{};
  std::uint32_t cores = 0;
  double speed = 1;
  bool stands_in = false;
  std::optional<std::uint64_t> resident{}, planned{}, limit{};
  std::optional<std::uint64_t>
      available{};        // with what was free on its computer when it came: the limit of who has none
  std::uint64_t own = 0;  // of that, what the program took before it held any layer
  std::uint64_t step = 0;
  std::optional<double> step_seconds{}, compute_seconds{}, wait_seconds{};
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  Rate sends{}, receives{};
  std::optional<std::uint64_t> staleness{};
  std::uint64_t rounds_failed = 0;
  std::deque<std::string> log{};

  bool is_gone() const { return state >= State::kLost; }

  // A step with these times: what is shown of them changes slowly.
  void stepped(double seconds, std::uint64_t number, double computed, double waited);
  void say(std::string line);
};
const char* name_of(PeerView::State state);

struct LinkView {
  std::string kind{};      // "pipeline", "ring" or "both"
  bool is_planned = true;  // else it is there only while it carries something: View::carried()
  Rate rate{};
  bool is_measured = false;                      // for the plan; else the rest is what its ends have seen it carry
  std::optional<double> bandwidth{}, latency{};  // bytes/s, seconds
};

struct EventView {
  std::uint64_t id = 0;
  double seconds = 0;
  std::int64_t step = 0;
  std::string event{}, peer{}, text{};
};

class View {
 public:
  static constexpr std::size_t kMostLinks = 1024;  // that are shown

  using Links = std::map<std::pair<std::string, std::string>, LinkView>;  // by the names of both ends
  using Spans = std::map<std::string, std::deque<observe::ActivitySpan>>;

  RunView run{};
  std::optional<PlanView> plan{};
  Links links{};

  // Is there from now on. Who is gone and has no place any more makes room if there are too many.
  PeerView& peer(const std::string& name);
  const std::map<std::string, PeerView>& peers() const { return peers_; }

  void add_step(const observe::StepMetrics& metrics);

  // So many bytes so far, from one peer to another. A link that no plan has is there from now on if that is much more
  // than before, until it has gone quiet.
  void carried(double seconds, const std::string& from, const std::string& to, std::uint64_t sum);

  // What a link seems to be able to do, for one that nobody has measured; what is not known is 0.
  void observed(const std::string& from, const std::string& to, double bandwidth, double latency);

  // What it did; as much of it as can be seen. What was long ago is forgotten, of all peers.
  void add_spans(const std::string& peer, std::vector<observe::ActivitySpan> spans, double seconds);

  void add_event(double seconds, const std::string& event, const std::string& peer, const std::string& text);

  const Series& series() const { return series_; }
  const Spans& spans() const { return spans_; }
  const std::deque<EventView>& events() const { return events_; }
  const std::optional<observe::StepMetrics>& last_step() const { return last_step_; }
  std::optional<double> eval_loss() const { return eval_loss_; }  // the last there was, as are these
  std::optional<double> consensus_distance() const { return consensus_distance_; }
  std::optional<double> drift() const { return drift_; }

 private:
  friend class Changes;

  void forget_old_spans(double seconds);

  std::map<std::string, PeerView> peers_;
  // What links that no plan has had carried, and when, before which nothing is shown.
  std::map<Links::key_type, std::pair<double, std::uint64_t>> unplanned_;
  Series series_;
  Spans spans_;
  std::map<std::string, observe::Thinning> thinning_;
  std::map<std::string, std::vector<observe::ActivitySpan>> new_spans_;  // since Changes last looked
  double forgot_spans_ = 0;                                              // when it last did
  std::deque<EventView> events_;
  std::uint64_t events_so_far_ = 0;
  std::optional<observe::StepMetrics> last_step_;
  std::deque<double> step_seconds_;  // of late
  std::optional<double> eval_loss_, consensus_distance_, drift_;
};

// All of it.
Json state_of(const View& view, double seconds);

// The same with the last step of the series alone, the last events, and no spans: for those who ask again and again.
Json brief_of(const View& view, double seconds);

// What has changed since it was last asked, for those who know what was there then.
class Changes {
 public:
  // Nothing if nothing has.
  std::optional<Json> since_last(View& view, double seconds);

  // Nobody has seen anything yet.
  void forget() { *this = Changes(); }

 private:
  void add_peers(const View& view, double seconds, Json& update);
  void add_series(const View& view, Json& update);
  void add_spans(View& view, Json& update);
  void add_events(const View& view, Json& update);

  std::string run_, plan_, links_, latest_;
  std::map<std::string, std::map<std::string, std::string>> peers_;  // each field as it was
  std::size_t rows_ = 0;
  std::uint64_t edition_ = 0, events_ = 0;
};

// For Prometheus, in its text format.
std::string metrics_of(const View& view, double seconds);

}  // namespace rookery::dashboard
