#include "train/peer_work.h"

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/heap.h"
#include "base/log.h"
#include "collective/codec.h"
#include "observe/computer.h"
#include "observe/memory.h"
#include "tensor/allocator.h"
#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/make_method.h"
#include "train/profile.h"
#include "train/setup.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using net::LinkError;

std::vector<FlatState> state_of(sync::Method& method, const Stage& stage) {
  std::vector<FlatState> flat;
  for (const auto& state : method.state()) {
    const auto size = static_cast<std::int64_t>(state.values.size());
    flat.push_back({state.name, stage.first() + state.begin, at::from_blob(state.values.data(), {size})});
  }
  return flat;
}

constexpr Duration kBetweenActivities = std::chrono::seconds(1);
constexpr double kSpansPerSecond = 100;

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

Task<wire::Ready> PeerWork::prepare(wire::Assignment assignment, swarm::Files& coordinator) {
  coordinator_ = &coordinator;
  config::Settings settings = config::parse(assignment.settings, "the run's settings");
  if (options_.threads > 0) settings.train.threads = options_.threads;
  if (options_.device) settings.train.device = *options_.device;
  auto finding = find_data(settings.data, assignment.data);
  settings.data = co_await std::move(finding);
  std::optional<fs::path> checkpoint;
  if (!assignment.checkpoint.empty()) {
    auto fetching = fetch_all(assignment.checkpoint, options_.scratch / "resume");
    checkpoint = co_await std::move(fetching);
  }
  auto building = compute_->run(build(std::move(settings), std::move(checkpoint)));
  co_return co_await std::move(building);
}

// Where the data is on this computer: where the run says, in the cache, or in the cache once it was fetched.
Task<config::Data> PeerWork::find_data(config::Data data, std::vector<wire::FileFacts> files) {
  if (files.empty()) co_return data;
  const auto is_here = [&] {
    std::map<std::string, fs::path> here;
    for (const DataFile& file : data_files(data)) here[file.name] = file.path;
    for (const wire::FileFacts& file : files) {
      const auto found = here.find(file.name);
      if (found == here.end() || swarm::facts_of(found->second, file.name) != file) return false;
    }
    return here.size() == files.size();
  };
  bool found = false;
  auto looking = compute_->call([&] {  // large files take a while
    try {
      found = is_here();
    } catch (const std::exception&) {
      // It is not, or cannot be read.
    }
  });
  co_await std::move(looking);
  if (found) co_return data;
  std::string all;
  for (const wire::FileFacts& file : files) all += fmt::format("{} {}\n", file.name, file.digest);
  const fs::path folder = options_.cache / digest(std::as_bytes(std::span(all)));
  auto fetching = fetch_all(std::move(files), folder);
  co_return relocated(data, co_await std::move(fetching));
}

Task<fs::path> PeerWork::fetch_all(std::vector<wire::FileFacts> files, fs::path folder) {
  for (const wire::FileFacts& file : files) {
    const fs::path path = folder / file.name;
    if (fs::exists(path) && fs::file_size(path) == file.size) continue;  // files there are whole
    spdlog::info("fetching {} ({})", file.name, format_bytes(static_cast<Bytes>(file.size)));
    auto fetching = coordinator_->fetch(file, path);
    co_await std::move(fetching);
  }
  co_return folder;
}

Task<wire::Ready> PeerWork::build(config::Settings settings, std::optional<fs::path> checkpoint) {
  use_threads(settings.train.threads);
  check_device(settings.train);
  if (options_.memory > 0) use_small_arenas();
  warm_up();
  blueprint_ = make_blueprint(std::move(settings));
  wire::Ready ready{.data = blueprint_->data_fingerprint,
                    .model = fingerprint(*blueprint_->model),
                    .parameters = static_cast<std::uint64_t>(blueprint_->model->parameter_count()),
                    .about = observe::describe_computer(),
                    .resident = static_cast<std::uint64_t>(observe::resident_memory()),
                    .speed = options_.pace.speed,
                    .step_time = std::chrono::duration<double>(options_.pace.step_time).count(),
                    .cores = std::max(1u, std::thread::hardware_concurrency())};
  model_parameters_ = ready.parameters;
  if (const auto own = static_cast<Bytes>(ready.resident); options_.memory > 0 && own >= options_.memory) {
    throw InputError("has too little memory: the program alone takes {}, but it may use {}", format_bytes(own),
                     format_bytes(options_.memory));
  }
  checkpoint_ = std::move(checkpoint);
  if (checkpoint_) {
    verify_checkpoint(*checkpoint_);
    check_identity(read_checkpoint_info(*checkpoint_), blueprint_->settings, blueprint_->data_fingerprint);
  }
  const Profile profile = current_profile(*blueprint_, options_.profiles);
  ready.resident = static_cast<std::uint64_t>(observe::resident_memory());  // without what is free again
  for (const plan::LayerProfile& layer : profile.layers) ready.layers.push_back({layer.forward, layer.backward});
  ready.update = profile.update;
  ready.byte_cost = profile.byte_cost;
  ready.jitter = options_.pace.jitter > 0 ? options_.pace.jitter : profile.jitter;
  co_return ready;
}

// Takes memory for the layers that the plan gives to this peer, and no others.
void PeerWork::build_stage(const wire::Plan& plan) {
  const wire::PlannedPeer& own = plan.peers.at(part_.rank);
  blueprint_->settings = config::changed(std::move(blueprint_->settings), plan.settings);
  const plan::Versions versions = plan::parse_versions(blueprint_->settings.pipeline.weights);
  trainee_ = std::make_unique<Trainee>(std::move(*blueprint_), plan::Layers{own.begin, own.end}, versions);
  const config::Train& t = trainee_->settings().train;
  Pace::Options pace = options_.pace;
  pace.micro_batches = static_cast<std::uint64_t>(t.micro_batches);
  pace.updates = schedule_of(trainee_->settings(), clusters_->have_stages(), 0).updates();
  pace_.emplace(pace, static_cast<std::uint64_t>(t.seed), options_.name);
  stage_compute_.emplace(*trainee_);
  stage_compute_->keep_pace(*pace_);
  if (!checkpoint_) return trainee_->stage().initialize(static_cast<std::uint64_t>(t.seed));
  const CheckpointInfo info = read_checkpoint_info(*checkpoint_);
  load_checkpoint(info, trainee_->stage());
  resumed_ = position_ = info.position;
  position_.samples = position_.tokens = 0;
  const std::lock_guard lock(gate_.mutex);
  gate_.begun = static_cast<std::uint64_t>(position_.step);
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

// Takes steps to the end of the run. If a mate is lost, waits until somebody has taken its place, and goes on with what
// the cluster is given then. False if the run ended while it did not take part.
Task<bool> PeerWork::train_on(Member& member) {
  for (bool is_in = !is_new_;;) {
    std::exception_ptr failure;
    try {
      const bool enters = !is_in;
      if (enters) {
        auto entering = enter(member);
        if (!co_await std::move(entering)) co_return false;
      }
      is_in = true;
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
    if (!is_in) std::rethrow_exception(failure);
    auto asking = ask_network_for(succession_->is_broken(0));
    if (!co_await std::move(asking)) std::rethrow_exception(failure);
    is_in = false;
    position_.step = member.steps_done();
    spdlog::info("another stage of this cluster was lost after step {}: waiting for one to come", position_.step);
  }
}

// Whoever is new, or has somebody new in its cluster, waits until it may have what others have, fetches it, and begins
// with it. False if the run ends before.
Task<bool> PeerWork::enter(Member& member) {
  for (std::uint32_t last = 0;;) {
    auto waiting = ask_network_for(succession_->wait_for_place(last));
    const std::optional<Inheritance> inheritance = co_await std::move(waiting);
    if (!inheritance) co_return false;
    last = inheritance->since;
    std::exception_ptr failure;
    try {
      auto taking = take_over(member, *inheritance);
      if (co_await std::move(taking)) co_return true;
    } catch (const LinkError&) {
      failure = std::current_exception();
    }
    if (!failure) continue;  // somebody else was lost
    auto asking = ask_network_for(succession_->is_broken(last));
    if (!co_await std::move(asking)) std::rethrow_exception(failure);
  }
}

// False if the cluster is not to be whole in this way after all.
Task<bool> PeerWork::take_over(Member& member, Inheritance inheritance) {
  const bool equal = inheritance.from > 0;
  Succession::Estates estates = estates_of(member, equal);
  auto inheriting = ask_network_for(inheritance.rewinds ? succession_->go_back(std::move(estates), inheritance)
                                                        : succession_->inherit(std::move(estates), inheritance.since));
  const Succession::Estates inherited = co_await std::move(inheriting);
  for (std::size_t i = 0; i < inherited.size(); ++i) {
    const std::vector<float>& values = inherited[i].values;
    std::size_t begin = 0;
    for (const std::span<float> part : member.handed_on(i, equal)) {
      std::ranges::copy(std::span(values).subspan(begin, part.size()), part.begin());
      begin += part.size();
    }
    if (equal) trainee_->stage().optimizer().set_steps(std::llround(values.back()));
  }
  if (!equal) {  // all stages begin with fresh moments, as those who are new have to
    for (const std::span<float> moment : stage_compute_->moments()) std::ranges::fill(moment, 0.0f);
    trainee_->stage().optimizer().set_steps(0);
  }
  saved_ = std::int64_t{inheritance.since} << 32;  // what they save from now on belongs together
  auto placing = ask_network_for(take_place(inheritance.since));
  std::optional<Entry> entry = co_await std::move(placing);
  if (!entry) co_return false;
  const auto from = static_cast<std::int64_t>(entry->from);
  const auto clusters = static_cast<std::int64_t>(wiring_->clusters());
  const std::int64_t batch = trainee_->settings().train.batch;
  resumed_ = {.step = entry->first_step, .samples = entry->first_sample};
  position_.step = from;
  position_.samples = (from - entry->first_step) * batch;
  {
    const std::lock_guard lock(gate_.mutex);
    gate_.begun = std::max(gate_.begun, entry->from);
  }
  const Member::Start start{
      .steps = from, .samples = entry->first_sample + (from - entry->first_step) * clusters * batch, .equal = equal};
  auto beginning = member.begin_again(start, std::move(entry->connections));
  co_await std::move(beginning);
  hand_on(member);  // others may have come meanwhile, for whom all wait in the next step
  co_return true;
}

// What is handed on of a ring: that of the method, and how many steps the optimizer has done.
std::vector<float> PeerWork::estate_of(Member& member, std::size_t ring, bool equal) const {
  const auto parts = member.handed_on(ring, equal);
  std::size_t all = 1;
  for (const std::span<float> part : parts) all += part.size();
  std::vector<float> values;
  reserve_large(values, all);  // it may be much, and others wait meanwhile
  for (const std::span<float> part : parts) values.insert(values.end(), part.begin(), part.end());
  values.push_back(static_cast<float>(trainee_->stage().optimizer().steps()));
  return values;
}

// What this peer has of all that, be it from its life before.
Succession::Estates PeerWork::estates_of(Member& member, bool equal) const {
  Succession::Estates estates;
  for (std::size_t i = 0; i < member.rings().size(); ++i) {
    Succession::Estate& estate = estates.emplace_back(
        Succession::Estate{.segment = member.rings()[i].segment, .values = estate_of(member, i, equal)});
    if (equal || !options_.keepsake) continue;
    const plan::Layers layers = member.rings()[i].layers;
    auto known = options_.keepsake->extract(std::pair(layers.begin, layers.end));
    if (known && known.mapped().size() == estate.values.size()) estate.values = std::move(known.mapped());
  }
  return estates;
}

// Where copies are equal, everything has changed by the time it comes again.
void PeerWork::remember(Member& member) {
  if (!options_.keepsake || trainee_->settings().sync.method == "allreduce") return;
  for (Succession::Estate& estate : estates_of(member, false)) {
    const plan::Layers layers = clusters_->segments[estate.segment].layers;
    (*options_.keepsake)[{layers.begin, layers.end}] = std::move(estate.values);
  }
}

// The cluster is whole: how this peer begins. Stages know each other by the generation in which it was handed on.
Task<std::optional<PeerWork::Entry>> PeerWork::take_place(std::uint32_t since) {
  auto taking = succession_->take_place(since);
  if (!co_await std::move(taking)) co_return std::nullopt;
  co_return Entry{.from = own_place().from,
                  .first_step = static_cast<std::int64_t>(part_.plan.first_step),
                  .first_sample = static_cast<std::int64_t>(part_.plan.first_sample),
                  .connections = wiring_->cluster_connections(since)};
}

// After some steps, if the stages of this cluster have copies of each other.
void PeerWork::keep_copy(Member& member) {
  const auto every = static_cast<std::uint64_t>(trainee_->settings().swarm.buddy_every.value_or(0));
  const auto step = static_cast<std::uint64_t>(position_.step);
  if (every == 0 || step % every != 0 || clusters_->ranks.size() > 1) return;
  Snapshot snapshot;
  for (std::size_t i = 0; i < member.rings().size(); ++i) {
    std::vector<float> own = estate_of(member, i, true);
    if (snapshot.empty()) {
      snapshot = std::move(own);
    } else {
      snapshot.insert(snapshot.end(), own.begin(), own.end());
    }
  }
  boost::asio::post(network_.executor(), [this, step, every, snapshot = std::move(snapshot)]() mutable {
    succession_->keep(step, every, std::move(snapshot));
  });
}

void PeerWork::covered(std::uint64_t step) {
  if (succession_) succession_->covered(step);
}

// After a step: those who have come since get what there is to be handed on.
void PeerWork::hand_on(Member& member) {
  std::erase_if(heirs_, [&](const Heir& heir) {
    const auto step = static_cast<std::uint64_t>(position_.step);
    const bool equal = heir.from > 0;
    if (step < heir.from || !(equal || member.has_agreed())) return false;
    for (std::size_t i = 0; i < member.rings().size(); ++i) {
      const std::size_t segment = member.rings()[i].segment;
      if (clusters_->segments[segment].stages[heir.cluster] != heir.stage) continue;
      if (equal && step > heir.from) {  // too late
        boost::asio::post(network_.executor(), [this, heir, segment] { succession_->disappoint(heir, segment); });
        continue;
      }
      boost::asio::post(network_.executor(), [this, heir, segment, values = estate_of(member, i, equal)]() mutable {
        succession_->give(heir, segment, std::move(values));
      });
    }
    return true;
  });
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

std::uint64_t PeerWork::halt() {
  halted_ = true;
  if (succession_) succession_->stop(false);
  const std::lock_guard lock(gate_.mutex);
  // A cluster that is whole again begins after those steps whatever happens.
  if (succession_ && succession_->is_whole(own_place().cluster)) gate_.begun = std::max(gate_.begun, own_place().from);
  gate_.halted = true;
  return gate_.begun;
}

void PeerWork::end_at(std::uint64_t step) {
  {
    const std::lock_guard lock(gate_.mutex);
    gate_.end = std::max(step, gate_.begun);
  }
  boost::asio::post(compute_->executor(), [this] {
    if (member_ != nullptr) member_->wake();
  });
}

std::uint64_t PeerWork::hold() {
  const std::lock_guard lock(gate_.mutex);
  if (succession_ && succession_->is_whole(own_place().cluster)) gate_.begun = std::max(gate_.begun, own_place().from);
  gate_.hold_after = gate_.begun;
  return gate_.begun;
}

void PeerWork::release(std::optional<std::uint64_t> save_after, bool holds_again) {
  {
    const std::lock_guard lock(gate_.mutex);
    if (save_after && *save_after > gate_.saved) gate_.save_after = save_after;
    gate_.hold_after = holds_again ? save_after : std::nullopt;
  }
  boost::asio::post(compute_->executor(), [this] {
    if (member_ != nullptr) member_->wake();
  });
}

void PeerWork::kept(std::uint64_t step) {
  if (!unkept_.empty() && unkept_.front().step == step) {
    for (const wire::FileFacts& file : unkept_.front().facts) {
      if (coordinator_ != nullptr) coordinator_->withdraw(file);
    }
    unkept_.pop_front();
    --unfetched_;
  }
  kept_.notify();
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
  member.watch(both(trace_ ? trace_->row("compute") : BeginSpan(), activity_ ? activity_->computing() : BeginSpan()));
  if (position_.step > 0) {  // of a checkpoint
    member.resume(position_.step, resumed_.samples);
    load_method_state(read_checkpoint_info(*checkpoint_), state_of(member.method(), trainee_->stage()));
    fs::remove_all(options_.scratch);
  }
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

Task<> PeerWork::take_steps(Member& member) {
  const config::Train& t = trainee_->settings().train;
  const auto next_after = [](std::int64_t step, std::int64_t every) {
    return every > 0 ? (step / every + 1) * every : std::numeric_limits<std::int64_t>::max();
  };
  while (position_.step < t.steps) {
    const std::int64_t evaluation = t.eval_batches > 0 ? next_after(position_.step, t.eval_every) : t.steps;
    const std::int64_t until = std::min({t.steps, evaluation, next_after(position_.step, t.checkpoint_every)});
    auto running = member.run(
        until, [this](std::uint64_t step) { return may_begin(step); },
        [&](const wire::StepReport& report) {
          stepped(report);
          hand_on(member);
          keep_copy(member);
        });
    co_await std::move(running);
    const bool is_asked_to_save = is_to_save();
    if ((position_.step < until && !is_asked_to_save) || position_.step == t.steps) co_return;  // the run is to end
    if (t.eval_batches > 0 && due(position_.step, t.eval_every)) {
      auto evaluating = evaluate(member, data::Split::kEval, trainee_->evaluated_samples());
      co_await std::move(evaluating);
    }
    if (due(position_.step, t.checkpoint_every) || is_asked_to_save) {
      auto saving = save(member, false);
      co_await std::move(saving);
    }
  }
}

void PeerWork::stepped(const wire::StepReport& report) {
  position_.step = static_cast<std::int64_t>(report.step);
  position_.samples += static_cast<std::int64_t>(report.samples);
  position_.tokens += static_cast<std::int64_t>(report.tokens);
  position_.seconds += report.compute_seconds + report.wait_seconds;
  if (!report.pulled) position_.loss = report.loss;
  busy_seconds_ += report.compute_seconds;
  tell(report);
}

pipeline::Admission PeerWork::may_begin(std::uint64_t step) {
  const std::lock_guard lock(gate_.mutex);
  if (gate_.save_after && step > *gate_.save_after) return pipeline::Admission::kNever;
  if (gate_.halted && !(gate_.end && step <= *gate_.end)) {
    return gate_.end ? pipeline::Admission::kNever : pipeline::Admission::kLater;
  }
  if (!gate_.halted && gate_.hold_after && step > *gate_.hold_after) return pipeline::Admission::kLater;
  gate_.begun = std::max(gate_.begun, step);
  return pipeline::Admission::kNow;
}

// After this step, because somebody has asked for it. What it was asked for before it took part is not for it to do.
bool PeerWork::is_to_save() {
  const std::lock_guard lock(gate_.mutex);
  const auto step = static_cast<std::uint64_t>(position_.step);
  if (!gate_.save_after || step < *gate_.save_after) return false;
  const std::uint64_t asked = *std::exchange(gate_.save_after, std::nullopt);
  gate_.saved = std::max(gate_.saved, asked);
  return step == asked;
}

Task<> PeerWork::end(Member& member) {
  auto finishing = finish(member);
  co_await std::move(finishing);
  auto saving = save(member, true);
  co_await std::move(saving);
  auto parting = member.all_say(true);  // nobody leaves while a neighbour waits for what it has sent
  co_await std::move(parting);
}

// The copies become one, and what it is worth is found out.
Task<> PeerWork::finish(Member& member) {
  const config::Train& t = trainee_->settings().train;
  auto settling = member.settle();
  co_await std::move(settling);
  if (t.eval_batches > 0 && position_.step == t.steps) {
    auto evaluating = evaluate(member, data::Split::kEval, trainee_->evaluated_samples());
    co_await std::move(evaluating);
    auto testing = evaluate(member, data::Split::kTest, kMaxTestSamples);
    co_await std::move(testing);
  }
  if (trainee_->settings().sync.method == "none") co_return;
  auto agreeing = member.agree();
  co_await std::move(agreeing);
}

Task<> PeerWork::evaluate(Member& member, data::Split split, std::uint64_t samples) {
  wire::Evaluated evaluated{.step = static_cast<std::uint64_t>(position_.step),
                            .split = split == data::Split::kEval ? "eval" : "test"};
  const bool alone = trainee_->settings().sync.method == "none";
  auto evaluating = member.evaluate(split, samples, &halted_);
  const std::optional<Evaluation> evaluation = co_await std::move(evaluating);
  if (!evaluation) co_return;  // the run is to end
  LossReport report = evaluation->report;
  if (alone) {
    auto evaluating_own = member.evaluate_own(split, samples, &halted_);
    const std::optional<LossReport> own = co_await std::move(evaluating_own);
    if (!own) co_return;
    report = *own;
  }
  evaluated.loss = report.loss;
  evaluated.accuracy = report.accuracy;
  evaluated.consensus_distance = evaluation->consensus_distance;
  evaluated.own = alone;
  if (alone ? trainee_->stage().is_last() : wiring_->stage().is_first()) tell(evaluated);
}

// The average of all copies, of which the stages of the first cluster each write their part; without a method that
// makes them one, the first copy. While the one before is still on its way there is no other, but for the last.
Task<> PeerWork::save(Member& member, bool last) {
  auto looking = is_of_first_cluster("", false, position_.step);
  bool writes = co_await std::move(looking);
  if (!last) {
    auto asking = member.all_say(unfetched_ == 0);
    writes = co_await std::move(asking) && writes;
  }
  const auto write = [&] {
    if (writes) write_checkpoint(member);
  };
  if (trainee_->settings().sync.method == "none") {
    write();
    co_return;
  }
  auto saving = member.with_average(write, last);
  co_await std::move(saving);
}

// When a peer was lost: of those who are left and have a whole copy, the one with the lowest rank saves it. Stages of a
// pipeline may be in different steps by then, and what they have does not make a whole.
Task<> PeerWork::save_own_copy(Member& member, std::string culprit) {
  if (abandoned_) co_return;
  auto asking = is_of_first_cluster(culprit, true, position_.step);
  if (!co_await std::move(asking)) co_return;
  try {
    write_checkpoint(member);
  } catch (const std::exception& error) {
    spdlog::error("this copy could not be saved: {}", error.what());
  }
}

void PeerWork::write_checkpoint(Member& member) {
  const auto clusters = static_cast<std::int64_t>(wiring_->clusters());
  const plan::StagePlace place = wiring_->stage();
  Position position = position_;  // all do as much as this one, or almost
  position.samples = resumed_.samples + position_.samples * clusters;
  position.tokens = resumed_.tokens + position_.tokens * clusters;
  const CheckpointInfo info{.path = {},
                            .position = position,
                            .optimizer_steps = trainee_->stage().optimizer().steps(),
                            .data = trainee_->data_fingerprint(),
                            .text = trainee_->data().tokenizer() != nullptr,
                            .clusters = clusters,
                            .batch = trainee_->settings().train.batch,
                            .updates = static_cast<std::int64_t>(wiring_->schedule().updates()),
                            .saving = saved_++,
                            .made_with = identity(trainee_->settings()),
                            .shards = {{place.stage, place.stages, trainee_->stage().layers()}}};
  save_checkpoint(options_.scratch, info, trainee_->stage(), state_of(member.method(), trainee_->stage()), 1);
  Saving saving{.step = static_cast<std::uint64_t>(position.step)};
  for (const fs::directory_entry& entry : fs::directory_iterator(*newest_checkpoint(options_.scratch))) {
    saving.facts.push_back(swarm::facts_of(entry.path(), entry.path().filename().string()));
    saving.files.push_back(std::make_shared<NamelessFile>(entry.path()));
  }
  fs::remove_all(options_.scratch);
  ++unfetched_;
  boost::asio::post(network_.executor(), [this, saving] {
    unkept_.push_back(saving);
    offer(saving);
  });
}

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

Task<bool> PeerWork::is_of_first_cluster(std::string culprit, bool whole_copy, std::int64_t step) {
  return ask_network<bool>([=, this] {
    const auto first = first_cluster(culprit, whole_copy, step);
    return first == part_.plan.peers[part_.rank].cluster;
  });
}

void PeerWork::tell(const wire::SwarmMessage& message) {
  boost::asio::post(network_.executor(), [this, message] { pass_on(message); });
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

void PeerWork::suspect(std::size_t rank, const std::string& why) {
  const wire::PlannedPeer& culprit = part_.plan.peers[rank];
  if (!culprit.here) return;  // the coordinator knows already
  spdlog::warn("{} {}", culprit.contact.name, why);
  report_(wire::Suspected{.culprit = culprit.contact.name, .text = why});
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

void PeerWork::begin_activity() {
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  activity_ = std::make_unique<observe::Activity>(seconds);
  telling_.set(network_.now() + kBetweenActivities, [this] { tell_activity(); });
}

// What those see who look on.
void PeerWork::tell_activity() {
  telling_.set(network_.now() + kBetweenActivities, [this] { tell_activity(); });
  wire::Activity message{.resident = static_cast<std::uint64_t>(observe::resident_memory())};
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  for (const observe::ActivitySpan& span : observe::thinned(activity_->take(), kSpansPerSecond)) {
    if (message.spans.size() == wire::kMaxDoneSpans) break;
    message.spans.push_back({.kind = static_cast<std::uint32_t>(span.kind),
                             .begin = std::max(0.0, now - span.begin),
                             .seconds = span.end - span.begin});
  }
  for (std::size_t rank = 0; rank < part_.links->size(); ++rank) {
    const net::Link* link = part_.links->at(rank);
    if (link == nullptr || link->has_ended()) continue;
    message.traffic.push_back({.peer = static_cast<std::uint32_t>(rank), .sent = training_traffic(*link).sent});
  }
  message.log = log_lines_after(logged_, wire::kMaxLogLines);
  report_(message);
}

// If the coordinator is there: else it learns of it when it is again.
void PeerWork::offer(const Saving& saving) {
  if (coordinator_ == nullptr) return;
  for (std::size_t i = 0; i < saving.facts.size(); ++i) {
    coordinator_->offer(saving.facts[i], saving.files[i]->path());
  }
  report_(wire::Saved{.step = saving.step, .files = saving.facts});
}

// Of those of which nobody is gone.
std::optional<std::uint32_t> PeerWork::first_cluster(const std::string& culprit, bool whole_copy,
                                                     std::int64_t step) const {
  const auto lives = [&](std::size_t rank) {
    const wire::PlannedPeer& peer = part_.plan.peers[rank];
    if (!peer.here || peer.contact.name == culprit ||
        peer.from >= static_cast<std::uint64_t>(std::max<std::int64_t>(1, step))) {
      return false;
    }
    const net::Link* link = part_.links->at(rank);
    return rank == part_.rank || (link != nullptr && !link->has_ended());
  };
  for (std::size_t c = 0; c < clusters_->ranks.size(); ++c) {
    if (whole_copy && clusters_->ranks[c].size() > 1) continue;
    if (std::ranges::all_of(clusters_->ranks[c], lives)) return static_cast<std::uint32_t>(c);
  }
  return {};
}

Task<> PeerWork::wait_until_kept() {
  while (!unkept_.empty() && !abandoned_) {
    auto waiting = kept_.wait();
    co_await std::move(waiting);
  }
}

}  // namespace rookery::train
