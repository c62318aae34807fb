#include "train/peer_work.h"

#include <algorithm>
#include <set>

#include <boost/asio/post.hpp>

#include "base/error.h"
#include "base/log.h"
#include "observe/memory.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using net::LinkError;

LinkError coordinator_lost() { return {net::Failure::kClosed, "coordinator", "was lost"}; }

}  // namespace

PeerWork::PeerWork(Clock& network, PeerWorkOptions options)
    : network_(network), options_(std::move(options)), compute_(std::make_unique<LoopThread>()), telling_(network) {}

PeerWork::~PeerWork() {
  // Tensors go where they were made.
  boost::asio::post(compute_->executor(), [this] {
    stage_compute_.reset();
    trainee_.reset();
  });
  compute_.reset();
  std::error_code ignored;
  if (!options_.scratch.empty()) fs::remove_all(options_.scratch, ignored);
}

Task<wire::Ended> PeerWork::train(Part part, Report report) {
  part_ = std::move(part);
  report_ = std::move(report);
  is_new_ = !part_.plan.peers[part_.rank].here;
  traffic_before_ = traffic();
  std::exception_ptr failure;
  wire::Ended ended;
  try {
    clusters_.emplace(part_.plan, blueprint_->model->size());
    const config::Settings settings = config::changed(blueprint_->settings, part_.plan.settings);
    const bool may_change = clusters_->ranks.size() > 1 && can_change(settings);
    succession_ = std::make_unique<Succession>(
        Succession::Surroundings{.network = network_,
                                 .aside = aside_,
                                 .plan = part_.plan,
                                 .clusters = *clusters_,
                                 .rank = part_.rank,
                                 .link_to = [this](std::size_t rank) { return part_.links->at(rank); },
                                 .report = report_},
        may_change);
    if (halted_) succession_->stop(abandoned_);
    auto building = compute_->call([this, plan = part_.plan] { build_stage(plan); });  // which may change meanwhile
    co_await std::move(building);
    if (options_.show) shown_ = options_.show(trainee_->settings(), position_.step);
    wiring_ = std::make_unique<Wiring>(
        network_, compute_->executor(), part_.plan, *clusters_, part_.rank,
        [this](std::size_t rank) { return part_.links->at(rank); }, *stage_compute_);
    if (!options_.trace.empty()) {
      trace_ = std::make_unique<observe::Trace>(options_.trace, part_.rank, options_.name);
    }
    if (trainee_->settings().dashboard.listen != "off") begin_activity();
    wiring_->watch(trace_ ? trace_->rows("send") : BeginSpan(),
                   both(trace_ ? trace_->rows("round") : BeginSpan(), activity_ ? activity_->rounds() : BeginSpan()));
    if (may_change) {
      wiring_->let_change([this](std::size_t cluster) { return succession_->is_whole(cluster); });
    }
    wiring_->tell_suspects_to([this](std::size_t rank, const std::string& why) { suspect(rank, why); });
    wiring_->set_fault(options_.fault);
    wiring_->wait_while([this] { return succession_->is_away(); });
    if (settings.swarm.buddy_every.value_or(0) > 0 && clusters_->ranks.size() == 1) {
      succession_->keep_copies(8 * model_parameters_ + (1 << 20), is_new_);
    }
    if (abandoned_) abandon();
    auto working = compute_->run(work(wiring_->connections()));
    ended = co_await std::move(working);
  } catch (const LinkError& error) {
    failure = std::current_exception();
    leave(error);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    leave(LinkError(net::Failure::kCancelled, "", error.what()));
  }
  telling_.cancel();
  loans_.clear();
  if (succession_) {
    auto giving = succession_->end();
    co_await std::move(giving);
  }
  if (wiring_) wiring_->leave_cluster();  // results of rounds are there for others until the end
  auto waiting = wait_until_kept();
  co_await std::move(waiting);
  if (failure) std::rethrow_exception(failure);
  co_return ended;
}

void PeerWork::changed(const wire::Plan& plan) {
  if (!succession_) return void(part_.plan = plan);  // it could not begin
  std::set<std::size_t> changed;
  for (std::size_t rank = 0; rank < plan.peers.size(); ++rank) {
    if (plan.peers[rank].since != part_.plan.peers[rank].since) changed.insert(plan.peers[rank].cluster);
  }
  const std::uint32_t own = own_place().cluster;
  const bool was_whole = succession_->is_whole(own);
  const wire::Plan before = std::exchange(part_.plan, plan);
  for (const Heir& heir : succession_->changed(before)) {
    if (lend(heir)) continue;
    boost::asio::post(compute_->executor(), [this, heir] {
      heirs_.push_back(heir);
      // Where copies are equal, the others wait for it in the next step already; else what is handed on is what was
      // agreed last, and does not change before the next round.
      if (member_ != nullptr && static_cast<std::uint64_t>(position_.step) >= heir.from) hand_on(*member_);
    });
  }
  if (!wiring_) return;
  if (was_whole && !succession_->is_whole(own)) {
    succession_->pause();
    wiring_->cancel_cluster(LinkError(net::Failure::kClosed, "", "another stage of its cluster was lost"));
  }
  for (const std::size_t cluster : changed) wiring_->changed(cluster);
}

// Whoever waits for this peer in a round learns why it does not come.
void PeerWork::leave(const LinkError& reason) {
  if (wiring_) wiring_->cancel(reason);
}

void PeerWork::over() { wiring_.reset(); }

void PeerWork::cut_a_link() {
  for (std::size_t i = 0; part_.links != nullptr && i < part_.links->size(); ++i) {
    cut_ = (cut_ + 1) % part_.links->size();
    net::Link* link = part_.links->at(cut_);
    if (link == nullptr || link->has_ended()) continue;
    return link->close(LinkError(net::Failure::kClosed, "", "the link was cut"));
  }
}

void PeerWork::away() {
  coordinator_ = nullptr;
  if (succession_) succession_->set_away();
}

void PeerWork::returned(swarm::Files& coordinator) {
  coordinator_ = &coordinator;
  for (const Saving& saving : unkept_) offer(saving);
  if (succession_) succession_->returned();
}

// Others may be in another step: whoever waits for them in a round would wait for ever.
void PeerWork::abandon() {
  abandoned_ = true;
  if (succession_) succession_->stop(true);
  end_at(halt());
  leave(coordinator_lost());
  kept_.notify();
}

Task<wire::Ended> PeerWork::work(Connections connections) {
  const Time start = compute_->clock().now();
  Member member(compute_->clock(), *stage_compute_, wiring_->stage(), wiring_->schedule(), std::move(connections));
  struct Known {
    explicit Known(PeerWork& work, Member& member) : work_(work) { work.member_ = &member; }
    ~Known() { work_.member_ = nullptr; }
    PeerWork& work_;
  } known(*this, member);
  offer_loans(member);
  member.watch(both(trace_ ? trace_->row("compute") : BeginSpan(), activity_ ? activity_->computing() : BeginSpan()));
  if (position_.step > 0) load_position(member);
  std::exception_ptr failure;
  std::string culprit;
  bool took_part = false;  // to the end
  try {
    auto training = train_on(member);
    took_part = co_await std::move(training);
  } catch (const LinkError& error) {
    failure = std::current_exception();
    culprit = error.peer();
  } catch (const c10::Error& error) {  // whose what() has pages
    throw Error("libtorch failed: {}", error.what_without_backtrace());
  }
  if (failure) {
    position_.step = member.steps_done();
    remember(member);
    auto saving = save_own_copy(member, culprit);
    co_await std::move(saving);
    std::rethrow_exception(failure);
  }
  const double seconds = std::chrono::duration<double>(compute_->clock().now() - start).count();
  wire::Ended ended{.peak_memory = static_cast<std::uint64_t>(observe::peak_memory()),
                    .busy_share = seconds > 0 ? busy_seconds_ / seconds : 0,
                    .rounds = member.method().rounds(),
                    .rounds_failed = member.method().rounds_failed()};
  auto counting = ask_network<net::Traffic>([this] { return traffic(); });
  const net::Traffic all = co_await std::move(counting);
  ended.bytes_sent = all.sent;
  ended.bytes_received = all.received;
  ended.payload_sent = all.payload_sent;
  auto looking = ask_network<std::vector<wire::SurveyedLink>>([this] { return links_as_they_are(); });
  ended.links = co_await std::move(looking);
  ended.waited_forward = std::chrono::duration<double>(member.record().waited_forward).count();
  ended.waited_backward = std::chrono::duration<double>(member.record().waited_backward).count();
  for (const auto& [updates, micro_batches] : member.record().staleness) {
    ended.staleness.resize(updates + 1);
    ended.staleness[updates] = micro_batches;
  }
  ended.versions = member.most_versions();
  if (trainee_->settings().sync.method != "none" && took_part) ended.segments = member.digests();
  if (trainee_->settings().train.eval_batches > 0) {
    ended.entropy_floor = trainee_->data().entropy_floor(trainee_->evaluated_samples());
  }
  co_return ended;
}

// Takes steps to the end of the run. If a mate is lost, waits until somebody has taken its place, and goes on with what
// the cluster is given then. False if the run ended while it did not take part.
Task<bool> PeerWork::train_on(Member& member) {
  for (is_in_ = !is_new_;;) {
    std::exception_ptr failure;
    try {
      const bool enters = !is_in_;
      if (enters) {
        auto entering = enter(member);
        if (!co_await std::move(entering)) co_return false;
      }
      const std::int64_t first = position_.step;
      auto stepping = take_steps(member);
      co_await std::move(stepping);
      if (enters && position_.step == first) co_return false;  // the others have ended before it was to take part
      if (abandoned_) throw LinkError(coordinator_lost());
      auto ending = end(member);
      co_await std::move(ending);
      co_return true;
    } catch (const LinkError&) {
      failure = std::current_exception();
    }
    if (!is_in_) std::rethrow_exception(failure);
    auto asking = ask_network_for(succession_->is_broken(0));
    if (!co_await std::move(asking)) std::rethrow_exception(failure);
    is_in_ = false;
    position_.step = member.steps_done();
    spdlog::info("another stage of this cluster was lost after step {}: waiting for one to come", position_.step);
  }
}

}  // namespace rookery::train
