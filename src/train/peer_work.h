#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <boost/asio/co_spawn.hpp>

#include "base/file.h"
#include "base/loop_thread.h"
#include "base/signal.h"
#include "observe/activity.h"
#include "observe/metrics.h"
#include "observe/trace.h"
#include "swarm/peer.h"
#include "sync/faulty_rounds.h"
#include "train/checkpoint.h"
#include "train/member.h"
#include "train/profile.h"
#include "train/succession.h"
#include "train/tensor_compute.h"
#include "train/trainee.h"
#include "train/wiring.h"

namespace rookery::train {

// What a peer knew of the model that all agreed on when it was displaced: in its next life it fetches only what has
// changed since. By the first and last layers of segments.
using Keepsake = std::map<std::pair<std::size_t, std::size_t>, std::vector<float>>;

struct PeerWorkOptions {
  std::string name;
  std::int64_t threads = 0;                // that compute; 0: as the run says
  std::optional<std::string> device{};     // instead of the run's
  Pace::Options pace{};                    // that it keeps
  sync::Fault fault = sync::Fault::kNone;  // that it has
  Bytes memory = 0;                        // that it may use; 0: all there is
  std::filesystem::path cache;             // where data that was fetched is kept,
  std::filesystem::path profiles;          // and what layers take on this computer
  // Where its own steps are shown, made when it is known what is trained, and after which step.
  std::function<std::unique_ptr<observe::Sink>(const config::Settings&, std::int64_t steps_done)> show{};
  std::filesystem::path scratch;         // for checkpoints on their way; nothing stays there
  std::filesystem::path trace{};         // where what it does is written, for observe::join_traces(); empty: nowhere
  std::shared_ptr<Keepsake> keepsake{};  // of the life before, and for the next one; may be left out
};

// Training as a peer's work in a swarm: a Member on a thread of its own, and rounds over the links of the network
// thread, where everything here is called.
class PeerWork final : public swarm::Work {
 public:
  PeerWork(Clock& network, PeerWorkOptions options);
  ~PeerWork() override;

  Task<wire::Ready> prepare(wire::Assignment assignment, swarm::Files& coordinator) override;
  Task<double> try_out() override;
  Task<wire::Ended> train(Part part, Report report) override;
  void changed(const wire::Plan& plan) override;
  std::uint64_t halt() override;
  void end_at(std::uint64_t step) override;
  std::uint64_t hold() override;
  void release(std::optional<std::uint64_t> save_after, bool holds_again) override;
  void kept(std::uint64_t step) override;
  void covered(std::uint64_t step) override;
  void away() override;
  void returned(swarm::Files& coordinator) override;
  void abandon() override;
  void over() override;

  // One of its links to others ends, as if the network had broken it; each time another one.
  void cut_a_link();

 private:
  // How far the compute thread may go; both threads look at it.
  struct Gate {
    std::mutex mutex;
    std::uint64_t begun = 0;
    bool halted = false;
    std::optional<std::uint64_t> end;
    std::optional<std::uint64_t> hold_after;  // for now
    std::optional<std::uint64_t> save_after;  // then there is a checkpoint, before anything else
    std::uint64_t saved = 0;                  // the last step of which that was so
  };

  // How a peer begins whose cluster is whole (again).
  struct Entry {
    std::uint64_t from = 0;                         // after so many steps
    std::int64_t first_step = 0, first_sample = 0;  // of the run
    ClusterConnections connections{};
  };

  // A checkpoint that the coordinator has not fetched yet.
  struct Saving {
    std::uint64_t step = 0;
    std::vector<wire::FileFacts> facts{};
    std::vector<std::shared_ptr<const NamelessFile>> files{};
  };

  Task<config::Data> find_data(config::Data data, std::vector<wire::FileFacts> files);
  Task<std::filesystem::path> fetch_all(std::vector<wire::FileFacts> files, std::filesystem::path folder);

  // On the compute thread.
  Task<wire::Ready> build(config::Settings settings, std::optional<std::filesystem::path> checkpoint);
  std::chrono::nanoseconds measured_step(plan::Layers layers, plan::Versions versions,
                                         std::int64_t micro_batches) const;
  void build_stage(const wire::Plan& plan);
  Task<wire::Ended> work(Connections connections);
  Task<> take_steps(Member& member);
  Task<bool> train_on(Member& member);
  Task<bool> enter(Member& member);
  Task<bool> take_over(Member& member, Inheritance inheritance);
  void offer_loans(const Member& member);
  void hand_on(Member& member);
  std::vector<float> estate_of(Member& member, std::size_t ring, bool equal) const;
  Succession::Estates estates_of(Member& member, bool equal, std::vector<std::vector<float>>& gathered) const;
  void begin_with(Member& member, const Succession::Estates& estates, bool equal);
  void remember(Member& member);
  void keep_copy(Member& member);
  Task<> save_own_copy(Member& member, std::string culprit);
  pipeline::Admission may_begin(std::uint64_t step);
  bool is_to_save();
  void stepped(const wire::StepReport& report);
  Task<> end(Member& member);
  Task<> finish(Member& member);
  Task<> evaluate(Member& member, data::Split split, std::uint64_t samples);
  Task<> save(Member& member, bool last);
  void load_position(Member& member);
  void write_checkpoint(Member& member);
  Task<bool> is_of_first_cluster(std::string culprit, bool whole_copy, std::int64_t step);
  template <typename T>
  Task<T> ask_network(std::function<T()> question);
  template <typename T>
  Task<T> ask_network_for(Task<T> task);
  void tell(const wire::SwarmMessage& message);

  // On the network thread.
  Task<std::optional<Entry>> take_place(std::uint32_t since);
  bool lend(const Heir& heir);
  void leave(const net::LinkError& reason);
  net::Traffic traffic() const;
  std::uint64_t carried(const net::Link& link) const;
  std::vector<wire::SurveyedLink> links_as_they_are() const;
  void suspect(std::size_t rank, const std::string& why);
  void pass_on(wire::SwarmMessage message);
  void show(const wire::StepReport& report);
  void offer(const Saving& saving);
  void begin_activity();
  void tell_activity();
  const wire::PlannedPeer& own_place() const { return part_.plan.peers.at(part_.rank); }
  std::optional<std::uint32_t> first_cluster(const std::string& culprit, bool whole_copy, std::int64_t step) const;
  Task<> wait_until_kept();

  Clock& network_;
  PeerWorkOptions options_;
  std::unique_ptr<LoopThread> compute_;

  // Of the compute thread. Made by prepare(),
  std::optional<Blueprint> blueprint_;
  Profile profile_;                                  // of the computer, when it was prepared
  std::optional<std::filesystem::path> checkpoint_;  // to start from
  std::size_t model_parameters_ = 0;
  // and when there is a plan.
  std::unique_ptr<Trainee> trainee_;
  Position resumed_;   // how far all copies together had come
  Position position_;  // of this copy; samples and tokens since then
  std::optional<Pace> pace_;
  std::optional<TensorCompute> stage_compute_;
  double busy_seconds_ = 0;
  std::int64_t saved_ = 0;                  // checkpoints, or parts of them
  Member* member_ = nullptr;                // while it trains
  std::vector<Heir> heirs_;                 // who have not got anything yet
  std::atomic<std::size_t> unfetched_ = 0;  // checkpoints; counted by both threads
  std::atomic<bool> halted_ = false, abandoned_ = false;
  bool is_new_ = false;  // came when the run had begun
  bool is_in_ = false;   // takes part, as all of its cluster do

  // Of the network thread.
  swarm::Files* coordinator_ = nullptr;
  Part part_;
  Report report_;
  std::unique_ptr<observe::Sink> shown_;
  observe::StepMetrics so_far_;  // what was shown last
  std::uint64_t shown_bytes_ = 0;
  net::Traffic traffic_before_;                               // what links had carried when it began to train,
  std::map<const net::Link*, std::uint64_t> carried_before_;  // and what each had, of payload
  std::deque<Saving> unkept_;
  Signal kept_;
  std::unique_ptr<observe::Trace> trace_;
  std::unique_ptr<observe::Activity> activity_;  // if somebody may look on,
  observe::Thinning thinning_;
  Alarm telling_;                                                       // which is told now and then,
  std::uint64_t logged_ = 0;                                            // with the lines of the log that are new
  std::optional<Clusters> clusters_;                                    // of the plan
  std::unique_ptr<Wiring> wiring_;                                      // while it trains
  std::size_t cut_ = 0;                                                 // rank of whoever was cut off last
  LoopThread aside_;                                                    // for what takes long, and is not training
  std::unique_ptr<Succession> succession_;                              // once there is a plan
  std::map<std::size_t, std::shared_ptr<const sync::Lendable>> loans_;  // by segment

  Gate gate_;
};

template <typename T>
Task<T> PeerWork::ask_network(std::function<T()> question) {
  const auto answer = [](std::function<T()> asked) -> Task<T> { co_return asked(); };
  auto asking = boost::asio::co_spawn(network_.executor(), answer(std::move(question)), kAwaitable);
  co_return co_await std::move(asking);
}

template <typename T>
Task<T> PeerWork::ask_network_for(Task<T> task) {
  return boost::asio::co_spawn(network_.executor(), std::move(task), kAwaitable);
}

}  // namespace rookery::train
