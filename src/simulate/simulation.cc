#include "simulate/simulation.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "plan/baselines.h"
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
  double busy = 0;
};

Simulation::Simulation(const config::Scenario& scenario, train::RunDirectory directory,
                       const std::filesystem::path& profiles)
    : options_(scenario.simulate),
      blueprint_(train::make_blueprint(settings_of(scenario))),
      directory_(std::move(directory)) {
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
      train::SwarmRecordOptions{.lines_of_peers = swarm_.peers.size() <= kMostShown, .tensorboard = false});
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
    train::check_method(settings, train::place_in(plan_, *clusters_, segment, 0));
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
  peers_.clear();
  cables_.reset();
}

void Simulation::set_up(std::size_t rank) {
  const wire::PlannedPeer& planned = plan_.peers[rank];
  const plan::Layers layers{planned.begin, planned.end};
  Peer& peer = *peers_.emplace_back(std::make_unique<Peer>(Peer{.rank = rank, .name = swarm_.peers[rank].name}));
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
  peer.member = std::make_unique<train::Member>(world_.clock(), *peer.compute, peer.wiring->stage(),
                                                peer.wiring->schedule(), peer.wiring->connections());
}

Outcome Simulation::run(const std::atomic<bool>& stop, const std::function<void()>& watch) {
  for (std::size_t rank = 0; rank < swarm_.peers.size(); ++rank) set_up(rank);
  record_->planned(plan_);
  record_->began();
  Outcome outcome;
  TaskGroup group(world_.executor());
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) group.spawn(live(rank));
  bool over = false;
  std::exception_ptr failure;
  const auto see_through = [&]() -> Task<> {
    try {
      auto joined = group.join();
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
    if (at_rest && !over)
      throw Error("the simulation came to rest before its end: somebody waits for what never comes");
  }
  if (failure) std::rethrow_exception(failure);
  outcome.summary = record_->finish();
  outcome.virtual_seconds = outcome.summary.wall_seconds;
  outcome.events = world_.events();
  outcome.trace = world_.trace();
  replace_file(directory_.summary(), observe::to_json(outcome.summary).dump(2) + "\n");
  return outcome;
}

// Everybody ends after the same step: the last that any of them has begun.
void Simulation::end_now() {
  end_ = begun_;
  for (const auto& peer : peers_) peer->member->wake();
}

pipeline::Admission Simulation::may_begin(std::uint64_t step) {
  if (end_ && step > *end_) return pipeline::Admission::kNever;
  begun_ = std::max(begun_, step);
  return pipeline::Admission::kNow;
}

void Simulation::stepped(Peer& peer, wire::StepReport report) {
  peer.busy += report.compute_seconds;
  const net::Traffic traffic = cables_->traffic(peer.rank);
  report.bytes_sent = traffic.sent;
  report.bytes_received = traffic.received;
  record_->stepped(peer.name, report);
}

// Whoever waits for a peer that cannot go on learns why.
Task<> Simulation::live(std::size_t rank) {
  Peer& peer = *peers_[rank];
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
  if (!failure) co_return;
  peer.wiring->cancel(net::LinkError(net::Failure::kCancelled, culprit, why));
  std::rethrow_exception(failure);
}

Task<> Simulation::train(Peer& peer) {
  const Time start = world_.clock().now();
  auto stepping = take_steps(peer);
  co_await std::move(stepping);
  auto settling = peer.member->settle();
  co_await std::move(settling);
  const config::Train& t = blueprint_.settings.train;
  if (t.eval_batches > 0 && peer.member->steps_done() == t.steps) {
    auto evaluating = evaluate(peer);
    co_await std::move(evaluating);
  }
  if (blueprint_.settings.sync.method != "none") {
    auto agreeing = peer.member->agree();
    co_await std::move(agreeing);
  }
  auto parting = peer.member->all_say(true);  // nobody leaves while a neighbour waits for what it has sent
  co_await std::move(parting);
  const net::Traffic traffic = cables_->traffic(peer.rank);
  wire::Ended ended{.rounds = peer.member->method().rounds(),
                    .bytes_sent = traffic.sent,
                    .bytes_received = traffic.received,
                    .payload_sent = traffic.payload_sent,
                    .waited_forward = seconds(peer.member->record().waited_forward),
                    .waited_backward = seconds(peer.member->record().waited_backward),
                    .versions = peer.member->most_versions()};
  const double lived = seconds(world_.clock().now() - start);
  ended.busy_share = lived > 0 ? peer.busy / lived : 0;
  for (const auto& [updates, micro_batches] : peer.member->record().staleness) {
    ended.staleness.resize(updates + 1);
    ended.staleness[updates] = micro_batches;
  }
  if (peer.trainee && t.eval_batches > 0) {
    ended.entropy_floor = peer.trainee->data().entropy_floor(peer.trainee->evaluated_samples());
  }
  record_->ended(peer.name, ended);
}

Task<> Simulation::take_steps(Peer& peer) {
  const config::Train& t = blueprint_.settings.train;
  for (std::int64_t done = 0; done < t.steps;) {
    const bool evaluates = t.eval_batches > 0 && t.eval_every > 0;
    const std::int64_t until = evaluates ? std::min(t.steps, (done / t.eval_every + 1) * t.eval_every) : t.steps;
    auto running = peer.member->run(
        until, [this](std::uint64_t step) { return may_begin(step); },
        [&](const wire::StepReport& report) { stepped(peer, report); });
    co_await std::move(running);
    done = peer.member->steps_done();
    if (done < until || done == t.steps) co_return;
    auto evaluating = evaluate(peer);
    const double loss = co_await std::move(evaluating);
    if (options_.until_loss > 0 && loss <= options_.until_loss) co_return;
  }
}

// The loss of the average of all copies, which everybody gets.
Task<double> Simulation::evaluate(Peer& peer) {
  const auto samples = peer.trainee->evaluated_samples();
  auto evaluating = peer.member->evaluate(data::Split::kEval, samples);
  const std::optional<train::Evaluation> evaluation = co_await std::move(evaluating);
  wire::Evaluated evaluated{.step = static_cast<std::uint64_t>(peer.member->steps_done()),
                            .split = "eval",
                            .loss = evaluation->report.loss,
                            .accuracy = evaluation->report.accuracy,
                            .consensus_distance = evaluation->consensus_distance};
  if (blueprint_.settings.sync.method == "none") {
    auto alone = peer.member->evaluate_own(data::Split::kEval, samples);
    const std::optional<train::LossReport> own = co_await std::move(alone);
    evaluated.loss = own->loss;
    evaluated.accuracy = own->accuracy;
    evaluated.own = true;
    if (peer.trainee->stage().is_last()) record_->evaluated(peer.name, evaluated);
  } else if (peer.rank == 0) {
    record_->evaluated(peer.name, evaluated);
  }
  co_return evaluation->report.loss;
}

}  // namespace rookery::simulate
