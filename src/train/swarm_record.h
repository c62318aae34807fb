#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include <nlohmann/json_fwd.hpp>

#include "base/clock.h"
#include "observe/jsonl.h"
#include "observe/metrics.h"
#include "swarm/coordinator.h"
#include "train/blueprint.h"
#include "train/checkpoint.h"
#include "train/ledger.h"
#include "train/run_directory.h"

namespace rookery::train {

struct SwarmRecordOptions {
  bool lines_of_peers = true;  // peers/NAME.jsonl
  bool tensorboard = true;
  bool changing = false;  // peers come and go: a step is done when all have done it who are there
};

// Writes down what a swarm does, in the directory of its run: a line per step of all peers together and of each alone,
// events, checkpoints, and the summary. Lives where the coordinator does.
class SwarmRecord final : public swarm::Watcher {
 public:
  // `began_at`: how far an earlier run had come. The blueprint outlives this.
  SwarmRecord(Clock& clock, const Blueprint& blueprint, RunDirectory directory, Position began_at,
              SwarmRecordOptions options = {});

  void add_sink(std::unique_ptr<observe::Sink> sink) { sinks_.add(std::move(sink)); }

  // What happens before and beside the steps is also said, in a sentence each.
  void tell_events_to(std::function<void(const std::string&)> tell) { tell_ = tell_plan_ = std::move(tell); }

  // Every event, as it is written.
  using Noted = std::function<void(const std::string& event, const std::string& peer, const std::string& text)>;
  void pass_notes_to(Noted noted) { noted_ = std::move(noted); }

  // The same for who holds what alone.
  void tell_plan_to(std::function<void(const std::string&)> tell) { tell_plan_ = std::move(tell); }

  void joined(const wire::Introduction& peer) override;
  void refused(const std::string& peer, const std::string& why) override;
  void left(const std::string& peer, const std::string& why) override;
  void ready(const std::string& peer, const wire::Ready& ready) override;
  void planned(const wire::Plan& plan) override;
  void replanned(const wire::Plan& plan) override;
  void began() override;
  void taken_up(const wire::Plan& plan) override;
  void returned(const std::string& peer) override;
  void stands_in(const std::string& peer) override { note("stands in", peer, ""); }
  void restores(const std::string& peer) override { note("restores", peer, ""); }
  void restored(const std::string& peer) override { note("restored", peer, ""); }
  void entered(const wire::PlannedPeer& peer) override;
  void stepped(const std::string& peer, const wire::StepReport& report) override;
  void evaluated(const std::string& peer, const wire::Evaluated& evaluation) override;
  void ended(const std::string& peer, const wire::Ended& summary) override;
  void suspected(const std::string& culprit, const std::string& by, const std::string& why) override;
  void expelled(const std::string& peer, const std::string& why) override;
  void stuck() override;
  void moves() override;
  void goes_back() override;
  void moved(std::uint64_t step) override;
  void missed(const std::string& who, const std::string& by, const std::string& why) override;
  void relieved(const std::string& peer) override;
  void lost(const std::string& peer, const std::string& why) override;
  bool keep(std::uint64_t step, const std::filesystem::path& folder) override;
  void saved(const std::string& peer, std::uint64_t step) override;

  // Another coordinator has expelled so many peers, and has written down who they are.
  void take_up_expelled(std::size_t how_many);

  // Where peers come and go: one trains after so many steps, and has this place; one does not, for now or for good.
  void begins(const wire::PlannedPeer& peer, std::int64_t steps_done);
  void pauses(const std::string& peer);

  void note(const char* event, const std::string& peer, const std::string& text);

  bool has_plan() const { return has_plan_; }
  bool has_begun() const { return has_begun_; }
  double seconds() const;                                     // since then
  std::int64_t steps_done() const { return position_.step; }  // by all
  double step_seconds() const;                                // in the mean so far
  double usual_step_seconds() const;                          // of late, whatever held up some of them

  // What a peer's links from others turned out to be, by their ranks; empty if it has not ended.
  std::vector<wire::SurveyedLink> links_of(const std::string& peer) const;

  std::optional<std::int64_t> saved_step() const { return saved_step_; }

  // After the last step: passes what is left on to the sinks, and writes summary.json if the run has come to its end.
  observe::Summary finish();

 private:
  struct Peer {
    std::unique_ptr<FileWriter> lines;
    Bytes own_memory = 0;  // before it held any layer
    wire::PlannedPeer place{};
    bool is_last = true;     // stage of its cluster, which has the loss
    bool is_active = false;  // has a place, and trains
    wire::StepReport last{};
    bool counts_bytes = true;  // else what it had sent before its next step is not known
    std::int64_t sent_before = 0, payload_before = 0, rounds_before = 0, rounds_failed_before = 0;  // by other plans
    double compute_seconds = 0, wait_seconds = 0;
    std::int64_t steps = 0;  // that these were for
    std::int64_t samples = 0, tokens = 0;
    std::uint64_t rounds_failed = 0;  // that there is an event of
    std::optional<wire::Ended> ended{};
    std::optional<double> eval_loss{};
  };

  // What is known of a step so far. By peer, so that sums do not depend on who was first.
  struct Step {
    struct Report {
      wire::StepReport report;
      observe::StepMetrics::Together together;
    };
    std::map<std::string, Report> reports{};
    std::map<std::string, wire::Evaluated> evaluations{};
    double seconds = 0;  // when the last report came
  };

  void write_event(const char* event, const std::string& peer, const std::string& text,
                   const nlohmann::ordered_json& more);
  void write_planned(const wire::Plan& plan, const std::string& why, const std::string& what);
  std::string cause_of(const wire::Plan& plan) const;
  void count_failed_rounds(const std::string& name, Peer& peer, std::uint64_t so_far);
  void forget(const std::string& peer);
  void say(const std::string& sentence) const;
  bool awaits_evaluation(std::int64_t step) const;
  void introduce(const wire::Plan& plan);
  void place(const wire::PlannedPeer& planned);
  void take(const wire::Plan& plan);
  void rewind(std::int64_t step);
  void forget_work_of(std::uint32_t cluster);
  void write_steps_until(std::int64_t step);
  bool is_complete(std::int64_t number, const Step& step) const;
  void write_complete_steps();
  void write_first_step();
  std::vector<bool> clusters_in(const Step& step) const;  // those that have done it
  observe::StepMetrics mean_of(const Step& step) const;
  std::optional<bool> identical_copies() const;
  static observe::PeerSummary::Stage stage_of(const Peer& peer);
  static std::optional<wire::Evaluated> mean_of(const std::map<std::string, wire::Evaluated>& evaluations);

  Clock& clock_;
  const Blueprint& blueprint_;
  config::Settings settings_;  // with what the plan decides, once there is one
  RunDirectory directory_;
  SwarmRecordOptions options_;
  std::deque<double> last_steps_;  // seconds of the newest
  Position position_, began_at_;
  Time start_;
  FileWriter events_;
  Ledger ledger_;
  observe::Sinks sinks_;
  std::function<void(const std::string&)> tell_, tell_plan_;
  Noted noted_;
  std::string cause_{};  // of the next plan, where that does not show it
  std::map<std::string, Peer> peers_;
  std::vector<std::string> expelled_;
  std::set<std::string> relieved_;  // stand-ins, who are lost next
  bool goes_back_ = false;
  std::map<std::uint32_t, std::int64_t> began_after_;  // which step, by cluster
  std::map<std::int64_t, Step> steps_;                 // that not everybody has done
  std::multiset<std::int64_t> progress_;               // steps that those have done who are active
  bool has_plan_ = false, has_begun_ = false, has_stages_ = false;
  std::size_t clusters_ = 0, places_ = 0;
  std::optional<double> predicted_step_seconds_;
  std::optional<std::int64_t> saved_step_;

  // Checkpoints of which some shards have come, by step, number of shards and saving; of keep().
  using Saving = std::tuple<std::int64_t, std::size_t, std::int64_t>;
  std::map<Saving, std::map<std::size_t, std::filesystem::path>> unfinished_;
  std::optional<double> eval_loss_, eval_accuracy_, consensus_distance_;
  std::map<std::string, wire::Evaluated> tests_;
};

// The last step of a run that has a line; 0 if none has.
std::int64_t last_step_of(const std::filesystem::path& metrics);

// How far a run had come after a step, by its lines: that of the step, or the last one before.
Position position_at(const std::filesystem::path& metrics, std::int64_t step);

}  // namespace rookery::train
