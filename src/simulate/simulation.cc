#include "simulate/simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "collective/handover.h"
#include "plan/baselines.h"
#include "plan/grid.h"
#include "simulate/modelled_compute.h"
#include "simulate/timed_compute.h"
#include "train/arrange.h"
#include "train/profile.h"
#include "train/setup.h"
#include "train/tensor_compute.h"

namespace rookery::simulate {
namespace {

constexpr std::size_t kMostShown = 200;  // peers that have lines of their own
constexpr double kPassShare = 0.25;      // of what an update takes: one pass over the parameters
constexpr Duration kSlice = std::chrono::seconds(1);
constexpr std::uint16_t kHandoverPurpose = 0x0400;
constexpr double kHandoverChunk = 256 * 1024;  // bytes

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

config::Settings settings_of(const config::Scenario& scenario) {
  config::Settings settings = scenario.settings;
  settings.train.checkpoint_every = 0;
  if (scenario.simulate.compute == "modelled") settings.train.eval_batches = 0;
  return settings;
}

// What layers take, with sizes; times as they were measured here, or as the scenario says.
train::Profile profile_of(const train::Blueprint& blueprint, const config::Simulate& options,
                          const std::filesystem::path& profiles) {
  train::Profile profile = train::known_profile(blueprint, profiles);
  plan::ModelProfile layers = train::layer_sizes(blueprint);
  double micro_batch = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].forward = profile.layers[i].forward;
    layers[i].backward = profile.layers[i].backward;
    micro_batch += layers[i].forward + layers[i].backward;
  }
  if (options.step_time.count() > 0) {
    const double wanted = seconds(options.step_time) / static_cast<double>(blueprint.settings.train.micro_batches);
    for (plan::LayerProfile& layer : layers) {
      layer.forward *= wanted / micro_batch;
      layer.backward *= wanted / micro_batch;
    }
    profile.update *= wanted / micro_batch;
  }
  profile.layers = std::move(layers);
  profile.jitter = 0;
  return profile;
}

// What the actions of a stage take, by the same model of a worker that plans are made with.
Tempo tempo_of(const plan::Job& job, const plan::Swarm& swarm, const plan::Candidate& candidate, std::size_t cluster,
               std::size_t stage) {
  const std::vector<std::size_t>& peers = candidate.clusters[cluster];
  const plan::Peer& peer = swarm.peers[peers[stage]];
  const plan::Layers layers = candidate.partitions[cluster].cut[stage];
  const plan::Worker worker = plan::workers_of(swarm, peers, candidate.schedule.micro_batches)[stage];
  const plan::ActionTimes all = plan::action_times(job.model, worker, layers, job.keeping.versions);
  plan::Worker plain = worker;
  plain.micro_batch_time.reset();
  Tempo tempo{.forward = all.forward, .jitter = peer.jitter};
  double sum = 0, parameters = 0;
  for (std::size_t layer = layers.begin; layer < layers.end; ++layer) {
    tempo.backward.push_back(plan::action_times(job.model, plain, {layer, layer + 1}, job.keeping.versions).backward);
    sum += tempo.backward.back();
    parameters += static_cast<double>(job.model[layer].parameters);
  }
  for (double& own : tempo.backward)
    own = sum > 0 ? own * all.backward / sum : all.backward / static_cast<double>(layers.size());
  tempo.update = peer.update * parameters;
  tempo.change = kPassShare * tempo.update;
  return tempo;
}

// Within which somebody gets on as long as those who were told to end can, however long a step takes.
Duration farewell_of(const plan::Prediction& expected) {
  constexpr double kLeast = 6 * 3600, kMost = 1e9, kSteps = 20;
  const double wanted = kSteps * (expected.step_seconds + expected.round_seconds);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::clamp(wanted, kLeast, kMost)));
}

wire::Plan named_plan(const plan::Swarm& swarm) {
  wire::Plan plan{.generation = 1};
  for (const plan::Peer& peer : swarm.peers) {
    wire::PlannedPeer& planned = plan.peers.emplace_back();
    planned.contact.name = peer.name;
    planned.host = peer.host;
  }
  return plan;
}

}  // namespace

// What a peer consists of.
struct Simulation::Peer {
  std::size_t rank = 0;
  std::string name{};
  std::unique_ptr<train::Trainee> trainee{};  // if it does the arithmetic
  std::unique_ptr<train::Compute> arithmetic{};
  std::unique_ptr<TimedCompute> compute{};
  std::unique_ptr<train::Wiring> wiring{};
  std::unique_ptr<train::Member> member{};
  Time since{};
  double busy = 0;
  bool is_new = false;  // has to begin with what others have
  bool is_gone = false;
  bool is_counted = false;  // its rounds are
};

Simulation::Simulation(const config::Scenario& scenario, train::RunDirectory directory,
                       const std::filesystem::path& profiles)
    : options_(scenario.simulate),
      blueprint_(train::make_blueprint(settings_of(scenario))),
      directory_(std::move(directory)) {
  if (!options_.chaos.empty()) chaos_ = train::parse_chaos(options_.chaos);
  const train::Profile profile = profile_of(blueprint_, options_, profiles);
  swarm_ = train::described_swarm(scenario.swarm, profile);
  job_ = train::job_of(blueprint_, profile.layers);
  plan_ = named_plan(swarm_);
  chosen_ = train::options_for(blueprint_, job_, swarm_).front();
  if (options_.formation != "planned") chosen_ = formed_otherwise(chosen_);
  train::write_plan(blueprint_.settings, chosen_, job_.model, plan_);
  blueprint_.settings = config::changed(std::move(blueprint_.settings), plan_.settings);
  job_.keeping =
      train::keeping_of(blueprint_.settings, chosen_.candidate.clusters.size(), chosen_.candidate.schedule.schedule);
  clusters_.emplace(plan_, blueprint_.model->size());

  check();
  moved_aside_ = directory_.prepare();
  replace_file(directory_.settings(), config::to_toml(blueprint_.settings));
  replace_file(directory_.root() / "scenario.toml", config::to_toml(scenario));
  record_ = std::make_unique<train::SwarmRecord>(
      world_.clock(), blueprint_, directory_, train::Position{},
      train::SwarmRecordOptions{
          .lines_of_peers = swarm_.peers.size() <= kMostShown, .tensorboard = false, .changing = changes()});
  attendance_ = std::make_unique<Attendance>(clusters_->ranks);
  cables_ = std::make_unique<Cables>(world_.clock(), swarm_,
                                     CablesOptions{.scale = options_.scale,
                                                   .heartbeat = options_.heartbeat,
                                                   .seed = static_cast<std::uint64_t>(scenario.settings.train.seed)});
}

// What members would refuse.
void Simulation::check() const {
  const config::Settings& settings = blueprint_.settings;
  train::check_device(settings.train);
  train::check_sync(settings, blueprint_.model->size());
  for (const plan::Segment& segment : clusters_->segments) {
    train::Place place = train::place_in(plan_, *clusters_, segment, 0);
    place.changing = changes();
    train::check_method(settings, place);
  }
  const config::Sync& sync = settings.sync;
  const bool warms_up = (sync.method == "diloco" || sync.method == "palsgd") && sync.warmup_steps > 0;
  if (replaces() && (sync.method == "allreduce" || sync.method == "none" || warms_up)) {
    throw InputError(
        "simulate.absence: nobody can take over in the middle of a run with this method; sync.method gossip and "
        "local-sgd can, diloco and palsgd with sync.warmup_steps = 0, and \"0s\" leaves places free");
  }
  if (changes() && clusters_->ranks.size() < 2) {
    throw InputError("peers that come and go need two clusters at least: one goes on with what another has lost");
  }
  if (changes() && options_.until_loss > 0) {
    throw InputError(
        "simulate.until_loss is for peers that stay: there is no loss of one model while some come and go");
  }
  if (chaos_ && options_.stay.count() > 0) {
    throw InputError("simulate.stay and simulate.chaos both say who is lost; leave one of them out");
  }
  if (options_.compute == "real" && options_.scale != 1) {
    throw InputError("simulate.scale is {}, but real arithmetic is done with all values: leave it at 1",
                     options_.scale);
  }
  const bool evaluates = settings.train.eval_batches > 0 && settings.train.eval_every > 0;
  if (options_.until_loss > 0 && (options_.compute != "real" || !evaluates || settings.sync.method == "none")) {
    throw InputError(
        "simulate.until_loss needs the loss of one model now and then: simulate.compute = \"real\", train.eval_every "
        "and train.eval_batches above 0, and a sync.method that is not \"none\"");
  }
  std::set<std::string> names;
  for (const plan::Peer& peer : swarm_.peers) {
    if (!wire::is_file_name(peer.name) || peer.name.find('/') != std::string::npos) {
      throw InputError("'{}' is no name for a peer: files are called by it", peer.name);
    }
    if (!names.insert(peer.name).second) throw InputError("two peers have the name '{}'", peer.name);
  }
}

// The same schedule and method with clusters and cuts as others would make them.
plan::Option Simulation::formed_otherwise(const plan::Option& planned) const {
  const plan::ScheduleOptions schedule = planned.candidate.schedule;
  config::Settings settings = blueprint_.settings;
  settings.sync.method = plan::name_of(planned.candidate.method.method);
  plan::Job job = job_;
  job.keeping = train::keeping_of(settings, 2, schedule.schedule);
  const plan::Forming forming{.job = job, .swarm = swarm_, .schedule = schedule, .keeping = job.keeping};
  plan::Option option{.candidate = options_.formation == "equal"
                                       ? plan::equal_shares(forming, planned.candidate.method)
                                       : plan::ravnest(forming, planned.candidate.method, job.seed),
                      .prediction = {}};
  option.prediction = plan::predict(job, swarm_, option.candidate);
  return option;
}

Simulation::~Simulation() {
  losses_.clear();
  arrivals_.clear();
  attendance_->close();
  abandoned_ = true;
  for (const auto& peer : peers_) {
    if (peer) peer->wiring->cancel(net::LinkError(net::Failure::kCancelled, "", "the simulation is over"));
  }
  cables_.reset();
  world_.run(world_.clock().now());  // those who were waiting end
  peers_.clear();
}

void Simulation::set_up(std::size_t rank) {
  const wire::PlannedPeer& planned = plan_.peers[rank];
  const plan::Layers layers{planned.begin, planned.end};
  peers_[rank] = std::make_shared<Peer>(Peer{.rank = rank, .name = swarm_.peers[rank].name});
  Peer& peer = *peers_[rank];
  peer.since = world_.clock().now();
  if (options_.compute == "real") {
    peer.trainee =
        std::make_unique<train::Trainee>(train::make_blueprint(blueprint_.settings), layers, job_.keeping.versions);
    peer.trainee->stage().initialize(static_cast<std::uint64_t>(blueprint_.settings.train.seed));
    peer.arithmetic = std::make_unique<train::TensorCompute>(*peer.trainee);
  } else {
    peer.arithmetic =
        std::make_unique<ModelledCompute>(blueprint_.settings, *blueprint_.model, job_.model, layers, options_.scale);
  }
  peer.compute = std::make_unique<TimedCompute>(
      world_.clock(), *peer.arithmetic, layers,
      tempo_of(job_, swarm_, chosen_.candidate, planned.cluster, planned.stage), peer.name);
  peer.wiring = std::make_unique<train::Wiring>(
      world_.clock(), world_.executor(), plan_, *clusters_, rank,
      [this, rank](std::size_t other) { return cables_->link(rank, other); }, *peer.compute);
  const bool robust = blueprint_.settings.sync.robust != "off" && clusters_->ranks.size() > 1;
  if (changes() || robust) {  // also where all stay, rounds that are robust are those of peers that may go
    peer.wiring->let_change([this](std::size_t cluster) { return attendance_->is_whole(cluster); });
  }
  peer.member = std::make_unique<train::Member>(world_.clock(), *peer.compute, peer.wiring->stage(),
                                                peer.wiring->schedule(), peer.wiring->connections());
}

Outcome Simulation::run(const std::atomic<bool>& stop, const std::function<void()>& watch) {
  const std::size_t count = swarm_.peers.size();
  peers_.resize(count);
  for (std::size_t rank = 0; rank < count; ++rank) set_up(rank);
  record_->planned(plan_);
  record_->began();
  Outcome outcome;
  lives_ = std::make_unique<TaskGroup>(world_.executor());
  for (const auto& peer : peers_) lives_->spawn(live(peer));
  for (std::size_t rank = 0; changes() && rank < count; ++rank) {
    first_names_.push_back(swarm_.peers[rank].name);
    losses_.push_back(std::make_unique<Alarm>(world_.clock()));
    arrivals_.push_back(std::make_unique<Alarm>(world_.clock()));
    successors_.push_back(0);
    if (!chaos_) expect_loss(rank);
  }
  if (chaos_) {
    blows_.emplace(*chaos_, count, static_cast<std::uint64_t>(blueprint_.settings.train.seed));
    next_blow_ = std::make_unique<Alarm>(world_.clock());
    expect_blow();
  }
  const Duration farewell = farewell_of(chosen_.prediction);
  bool over = false;
  std::exception_ptr failure;
  const auto see_through = [&]() -> Task<> {
    try {
      auto joined = lives_->join();
      co_await std::move(joined);
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    over = true;
  };
  TaskGroup watching(world_.executor());
  watching.spawn(see_through());
  Alarm alarm(world_.clock());
  if (options_.time.count() > 0) alarm.set(world_.clock().now() + options_.time, [this] { end_now(); });
  while (!over) {
    const bool at_rest = world_.run(world_.clock().now() + kSlice);
    if (watch) watch();
    if (stop && !end_) {
      outcome.interrupted = true;
      end_now();
    }
    if (end_ && world_.clock().now() > last_step_ + farewell) {
      throw Error("the simulation did not come to its end: somebody waits for what never comes");
    }
    if (at_rest && !over)
      throw Error("the simulation came to rest before its end: somebody waits for what never comes");
  }
  if (failure) std::rethrow_exception(failure);
  outcome.summary = record_->finish();
  outcome.virtual_seconds = outcome.summary.wall_seconds;
  outcome.events = world_.events();
  outcome.trace = world_.trace();
  outcome.lost = lost_;
  outcome.rounds_repeated = repeated_;
  outcome.summary.rounds_failed += failed_of_lost_;
  if (outcome.virtual_seconds > 0) {
    outcome.utilisation = computed_ / (static_cast<double>(count) * outcome.virtual_seconds);
  }
  replace_file(directory_.summary(), observe::to_json(outcome.summary).dump(2) + "\n");
  return outcome;
}

// Everybody ends after the same step: the last that any of them has begun.
void Simulation::end_now() {
  end_ = begun_;
  last_step_ = world_.clock().now();
  losses_.clear();
  arrivals_.clear();
  attendance_->close();
  for (const auto& peer : peers_) {
    if (peer) peer->member->wake();
  }
}

pipeline::Admission Simulation::may_begin(std::uint64_t step) {
  if (end_ && step > *end_) return pipeline::Admission::kNever;
  begun_ = std::max(begun_, step);
  return pipeline::Admission::kNow;
}

void Simulation::stepped(Peer& peer, wire::StepReport report) {
  if (peer.is_gone) return;  // it computes to the end of its interval, but not for anybody
  last_step_ = world_.clock().now();
  if (!attendance_->is_whole(plan_.peers[peer.rank].cluster)) return;  // somebody was lost, and so is this step
  peer.busy += report.compute_seconds;
  computed_ += report.compute_seconds;
  const net::Traffic traffic = cables_->traffic(peer.rank);
  report.bytes_sent = traffic.sent;
  report.bytes_received = traffic.received;
  record_->stepped(peer.name, report);
}

// Whoever waits for a peer that cannot go on learns why.
Task<> Simulation::live(std::shared_ptr<Peer> own) {
  Peer& peer = *own;
  std::exception_ptr failure;
  std::string why, culprit = peer.name;
  try {
    auto training = train(peer);
    co_await std::move(training);
  } catch (const net::LinkError& error) {
    failure = std::current_exception();
    why = error.text();
    if (!error.peer().empty()) culprit = error.peer();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    why = error.what();
  }
  if (!failure || peer.is_gone) co_return;
  peer.wiring->cancel(net::LinkError(net::Failure::kCancelled, culprit, why));
  std::rethrow_exception(failure);
}

Task<> Simulation::train(Peer& peer) {
  auto stepping = take_steps(peer);
  const bool is_whole = co_await std::move(stepping);
  if (abandoned_) co_return;
  if (is_whole) {
    losses_.clear();  // the first are done: nobody is lost any more
    auto settling = peer.member->settle();
    co_await std::move(settling);
  }
  const config::Train& t = blueprint_.settings.train;
  if (is_whole && t.eval_batches > 0 && peer.member->steps_done() == t.steps) {
    auto evaluating = evaluate(peer);
    co_await std::move(evaluating);
  }
  if (is_whole && blueprint_.settings.sync.method != "none" && !replaces()) {
    auto agreeing = peer.member->agree();
    co_await std::move(agreeing);
  }
  if (is_whole) {
    auto parting = peer.member->all_say(true);  // nobody leaves while a neighbour waits for what it has sent
    co_await std::move(parting);
  }
  const net::Traffic traffic = cables_->traffic(peer.rank);
  wire::Ended ended{.rounds = peer.member->method().rounds(),
                    .rounds_failed = peer.member->method().rounds_failed(),
                    .bytes_sent = traffic.sent,
                    .bytes_received = traffic.received,
                    .payload_sent = traffic.payload_sent,
                    .waited_forward = seconds(peer.member->record().waited_forward),
                    .waited_backward = seconds(peer.member->record().waited_backward),
                    .versions = peer.member->most_versions()};
  const double lived = seconds(world_.clock().now() - peer.since);
  ended.busy_share = lived > 0 ? peer.busy / lived : 0;
  for (const auto& [updates, micro_batches] : peer.member->record().staleness) {
    ended.staleness.resize(updates + 1);
    ended.staleness[updates] = micro_batches;
  }
  if (is_whole && peer.trainee && blueprint_.settings.sync.method != "none" && !replaces()) {
    ended.segments = peer.member->digests();
  }
  if (peer.trainee && t.eval_batches > 0) {
    ended.entropy_floor = peer.trainee->data().entropy_floor(peer.trainee->evaluated_samples());
  }
  repeated_ += peer.wiring->rounds_repeated();
  peer.is_counted = true;
  record_->ended(peer.name, ended);
}

// False if its cluster was not whole in the end.
Task<bool> Simulation::take_steps(Peer& peer) {
  const std::int64_t steps = blueprint_.settings.train.steps;
  for (bool is_whole = !peer.is_new;;) {
    if (!is_whole) {
      auto beginning = begin_again(peer);
      if (!co_await std::move(beginning)) co_return false;
    }
    try {
      auto stepping = take_steps_until(peer, steps);
      const bool is_done = co_await std::move(stepping);
      co_return is_done && attendance_->is_whole(plan_.peers[peer.rank].cluster);
    } catch (const net::LinkError&) {
      if (!changes() || peer.is_gone) throw;
      if (!replaces() && attendance_->is_whole(plan_.peers[peer.rank].cluster)) throw;
      if (!replaces()) co_return false;
      is_whole = false;
    }
  }
}

Task<bool> Simulation::take_steps_until(Peer& peer, std::int64_t end) {
  const config::Train& t = blueprint_.settings.train;
  for (std::int64_t done = peer.member->steps_done(); done < end;) {
    const bool evaluates = t.eval_batches > 0 && t.eval_every > 0;
    const std::int64_t until = evaluates ? std::min(end, (done / t.eval_every + 1) * t.eval_every) : end;
    auto running = peer.member->run(
        until, [this](std::uint64_t step) { return may_begin(step); },
        [&](const wire::StepReport& report) { stepped(peer, report); });
    co_await std::move(running);
    done = peer.member->steps_done();
    if (done < until || done == end) break;
    auto evaluating = evaluate(peer);
    const double loss = co_await std::move(evaluating);
    if (options_.until_loss > 0 && loss <= options_.until_loss) break;
  }
  co_return true;
}

// The loss of the average of all copies, which everybody gets.
Task<double> Simulation::evaluate(Peer& peer) {
  const auto samples = peer.trainee->evaluated_samples();
  wire::Evaluated evaluated{.step = static_cast<std::uint64_t>(peer.member->steps_done()), .split = "eval"};
  if (!replaces()) {
    auto evaluating = peer.member->evaluate(data::Split::kEval, samples);
    const std::optional<train::Evaluation> evaluation = co_await std::move(evaluating);
    evaluated.loss = evaluation->report.loss;
    evaluated.accuracy = evaluation->report.accuracy;
    evaluated.consensus_distance = evaluation->consensus_distance;
  }
  const double together = evaluated.loss;
  if (replaces() || blueprint_.settings.sync.method == "none") {
    auto alone = peer.member->evaluate_own(data::Split::kEval, samples);
    const std::optional<train::LossReport> own = co_await std::move(alone);
    evaluated.loss = own->loss;
    evaluated.accuracy = own->accuracy;
    evaluated.own = true;
    if (peer.trainee->stage().is_last()) record_->evaluated(peer.name, evaluated);
  } else if (plan_.peers[peer.rank].stage == 0) {
    record_->evaluated(peer.name, evaluated);
  }
  co_return together;
}

// Others like it come and go, each for as long as is drawn for it.
void Simulation::expect_loss(std::size_t rank) {
  Random random({static_cast<std::uint64_t>(blueprint_.settings.train.seed), word_of("stay"), rank, successors_[rank]});
  const std::chrono::duration<double> stay(-std::log1p(-random.uniform()) * seconds(options_.stay));
  losses_[rank]->set(world_.clock().now() + std::chrono::duration_cast<Duration>(stay),
                     [this, rank] { lose(rank, options_.absence); });
}

void Simulation::expect_blow() {
  const std::chrono::duration<double> at(blows_->next().at);  // since the beginning, when it was 0
  if (!std::isfinite(blows_->next().at)) return;
  next_blow_->set(Time(std::chrono::duration_cast<Duration>(at)), [this] {
    if (losses_.empty()) return;  // nobody is lost any more
    strike(blows_->next());
    blows_->pass();
    expect_blow();
  });
}

// As it goes with processes: whoever is silent for as long as links bear is lost, and joins again when it thaws; of two
// without a link one is, and joins again at once.
void Simulation::strike(const train::Blow& blow) {
  static constexpr Duration kNotice = std::chrono::milliseconds(1500), kJoinAgain = std::chrono::seconds(1);
  if (!peers_[blow.peer]) return;  // it is not there
  const Time now = world_.clock().now();
  switch (blow.kind) {
    case train::Blow::Kind::kKill:
      return lose(blow.peer, chaos_->rejoin);
    case train::Blow::Kind::kCut:
      return lose(blow.peer, kJoinAgain);
    case train::Blow::Kind::kFreeze:
      cables_->hold(blow.peer, now + chaos_->thaw);
      if (chaos_->thaw <= kNotice) return;
      losses_[blow.peer]->set(now + kNotice, [this, rank = blow.peer] { lose(rank, chaos_->thaw - kNotice); });
  }
}

// Those who have rounds with a cluster learn whether it is whole.
void Simulation::announce(std::size_t cluster) {
  ++plan_.generation;
  for (const std::size_t rank : clusters_->ranks[cluster]) plan_.peers[rank].since = plan_.generation;
  std::set<std::size_t> concerned = {cluster};
  const bool concerns_all = !replaces() || blueprint_.settings.sync.method == "gossip";
  for (std::size_t other = 0; concerns_all && other < clusters_->ranks.size(); ++other) concerned.insert(other);
  for (const auto& turn :
       plan::grid_turns(cluster, clusters_->ranks.size(), static_cast<std::size_t>(blueprint_.settings.sync.group))) {
    concerned.insert(turn.begin(), turn.end());
  }
  for (const std::size_t other : concerned) {
    for (const std::size_t rank : clusters_->ranks[other]) {
      if (peers_[rank]) peers_[rank]->wiring->changed(cluster);
    }
  }
}

void Simulation::lose(std::size_t rank, Duration absence) {
  if (!replaces() && is_last_whole(plan_.peers[rank].cluster)) return;  // somebody stays
  losses_[rank]->cancel();
  const std::shared_ptr<Peer> peer = std::exchange(peers_[rank], nullptr);
  const std::size_t cluster = plan_.peers[rank].cluster;
  ++lost_;
  record_->lost(swarm_.peers[rank].name, "");
  for (const std::size_t other : clusters_->ranks[cluster]) record_->pauses(swarm_.peers[other].name);
  attendance_->leave(rank);
  cables_->cut(rank);
  if (peer) {
    if (!peer->is_counted) {
      repeated_ += peer->wiring->rounds_repeated();
      failed_of_lost_ += static_cast<std::int64_t>(peer->member->method().rounds_failed());
    }
    peer->is_gone = true;
    peer->wiring->cancel(net::LinkError(net::Failure::kClosed, peer->name, "was lost"));
  }
  for (const std::size_t mate : attendance_->present(cluster)) {
    if (!peers_[mate]) continue;
    peers_[mate]->wiring->cancel_cluster(net::LinkError(net::Failure::kClosed, swarm_.peers[rank].name, "was lost"));
  }
  announce(cluster);
  if (!replaces()) return;
  arrivals_[rank]->set(world_.clock().now() + absence, [this, rank] { replace(rank); });
}

bool Simulation::is_last_whole(std::size_t cluster) const {
  for (std::size_t other = 0; other < clusters_->ranks.size(); ++other) {
    if (other != cluster && attendance_->is_whole(other)) return false;
  }
  return attendance_->is_whole(cluster);
}

// When all places of the cluster are taken, those who are new get what belongs to them.
void Simulation::replace(std::size_t rank) {
  const std::size_t cluster = plan_.peers[rank].cluster;
  swarm_.peers[rank].name = fmt::format("{}.{}", first_names_[rank], ++successors_[rank] + 1);
  plan_.peers[rank].contact.name = swarm_.peers[rank].name;
  record_->joined({.contact = {.name = swarm_.peers[rank].name}});
  attendance_->come(rank);
  if (!losses_.empty() && !chaos_) expect_loss(rank);
  if (!attendance_->is_complete(cluster)) return;
  for (const std::size_t own : clusters_->ranks[cluster]) {
    if (peers_[own]) continue;
    set_up(own);
    peers_[own]->is_new = true;
    lives_->spawn(live(peers_[own]));
  }
}

// Together with the other stages of its cluster, when all are there. False if the run ends before.
Task<bool> Simulation::begin_again(Peer& peer) {
  const config::Settings& settings = blueprint_.settings;
  const std::size_t cluster = plan_.peers[peer.rank].cluster;
  for (;;) {
    auto gathering = attendance_->gather(cluster);
    const std::optional<Attendance::Attempt> attempt = co_await std::move(gathering);
    if (peer.is_gone) throw net::LinkError(net::Failure::kClosed, peer.name, "was lost");
    if (!attempt) co_return false;
    bool has_failed = false;
    try {
      if (attempt->donor) {
        auto taking = take_over(peer, *attempt->donor);
        co_await std::move(taking);
      }
      auto meeting = attendance_->meet(cluster, attempt->number, [&] {
        starts_[cluster] = {.step = attempt->donor ? steps_of(*attempt->donor) : record_->steps_done(),
                            .generation = ++plan_.generation};
        for (const std::size_t rank : clusters_->ranks[cluster])
          record_->begins(plan_.peers[rank], starts_[cluster].step);
      });
      if (!co_await std::move(meeting)) continue;
      const Start start = starts_[cluster];
      const std::int64_t samples =
          start.step * static_cast<std::int64_t>(clusters_->ranks.size()) * settings.train.batch;
      auto beginning = peer.member->begin_again({.steps = start.step, .samples = samples},
                                                peer.wiring->cluster_connections(start.generation));
      co_await std::move(beginning);
      auto parting = attendance_->meet(cluster, attempt->number, [&] {
        attendance_->make_whole(cluster);
        // Rounds that others may have begun go on without it.
        for (const std::size_t rank : clusters_->ranks[cluster]) plan_.peers[rank].from = begun_;
        announce(cluster);
      });
      if (co_await std::move(parting)) co_return true;
    } catch (const net::LinkError&) {
      has_failed = true;
    }
    if (has_failed && !peer.is_gone) attendance_->give_up(cluster, attempt->number);
  }
}

// That a cluster has done; or, if it has just lost somebody itself, all others.
std::int64_t Simulation::steps_of(std::size_t cluster) const {
  const auto& first = peers_[clusters_->ranks[cluster].front()];
  return std::max(first ? first->member->steps_done() : 0, record_->steps_done());
}

// What the holders of its segments in another cluster have.
Task<> Simulation::take_over(Peer& peer, std::size_t donor) {
  const wire::PlannedPeer& own = plan_.peers[peer.rank];
  const collective::HandoverOptions options{
      .chunk_bytes = std::max<std::size_t>(1024, static_cast<std::size_t>(kHandoverChunk / options_.scale))};
  std::size_t ring = 0;
  for (std::size_t s = 0; s < clusters_->segments.size(); ++s) {
    const plan::Segment& segment = clusters_->segments[s];
    if (segment.stages[own.cluster] != own.stage) continue;
    const std::size_t other = clusters_->ranks[donor][segment.stages[donor]];
    if (!peers_[other]) throw net::LinkError(net::Failure::kClosed, swarm_.peers[other].name, "was lost");
    std::size_t theirs = 0;  // the place of the segment among theirs
    for (std::size_t before = 0; before < s; ++before) {
      theirs += clusters_->segments[before].stages[donor] == segment.stages[donor] ? 1 : 0;
    }
    std::vector<float> values;
    for (const std::span<float> part : peers_[other]->member->handed_on(theirs)) {
      values.insert(values.end(), part.begin(), part.end());
    }
    const std::size_t count = values.size();
    const net::ChannelId channel{.purpose = kHandoverPurpose, .index = ++handovers_};
    TaskGroup handing(world_.executor());
    handing.spawn(
        collective::hand_on(world_.clock(), *cables_->link(other, peer.rank), channel, std::move(values), options));
    std::exception_ptr failure;
    std::vector<float> taken;
    try {
      auto taking = collective::take_on(world_.clock(), *cables_->link(peer.rank, other), channel, count, options);
      taken = co_await std::move(taking);
    } catch (const net::LinkError&) {
      failure = std::current_exception();
    }
    try {
      auto handed = handing.join();
      co_await std::move(handed);
    } catch (const net::LinkError&) {
      // What it tells does not matter to the other one, which has it all, or knows better why not.
    }
    if (failure) std::rethrow_exception(failure);
    peer.member->method().recall();
    std::size_t from = 0;
    for (const std::span<float> part : peer.member->handed_on(ring)) {
      std::ranges::copy(std::span(taken).subspan(from, part.size()), part.begin());
      from += part.size();
    }
    ++ring;
  }
}

}  // namespace rookery::simulate
