#include "train/swarm_run.h"

#include <algorithm>
#include <cmath>

#include <boost/asio/post.hpp>

#include "base/error.h"
#include "base/log.h"
#include "net/tcp/route.h"
#include "net/tcp/tcp_transport.h"
#include "train/arrange.h"
#include "train/make_method.h"
#include "train/moving.h"
#include "train/setup.h"
#include "train/wiring.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookAgain(100);

// Throws InputError if those who hold a segment cannot have the method.
void check_rings(const config::Settings& settings, const wire::Plan& plan, std::size_t layers) {
  const Clusters clusters(plan, layers);
  for (const plan::Segment& segment : clusters.segments) {
    check_method(settings, place_in(plan, clusters, segment, 0));
  }
}

// What can be known before anybody has come: where each has a copy of its own, and local peers are where their tables
// say, that is everything.
void check(const config::Settings& settings, std::size_t layers, bool local) {
  check_sync(settings, layers);
  check_arrangement(settings, layers);
  schedule_of(settings, false, 0);
  const auto has_limit = [](const config::Peer& peer) { return peer.memory.has_value(); };
  const bool has_copies = !settings.pipeline.stages && !std::ranges::any_of(settings.peers, has_limit) &&
                          (!settings.swarm.clusters || settings.swarm.clusters->count == settings.swarm.peers);
  const bool depends_on_hosts = settings.sync.method == "gossip" && settings.sync.topology == "alternating-exp-ring";
  if (!has_copies || (depends_on_hosts && !local)) return;
  wire::Plan plan;
  for (std::size_t i = 0; i < static_cast<std::size_t>(settings.swarm.peers); ++i) {
    const std::string host = i < settings.peers.size() ? settings.peers[i].host : "";
    plan.peers.push_back({.cluster = static_cast<std::uint32_t>(i),
                          .host = host.empty() ? "here" : host,
                          .end = static_cast<std::uint32_t>(layers)});
  }
  check_rings(settings, plan, layers);
}

// How many steps somebody may begin before it hears of a plan.
std::uint64_t steps_ahead(double step_seconds) {
  constexpr double kNews = 2;  // seconds that they take
  return static_cast<std::uint64_t>(std::clamp(std::ceil(kNews / std::max(step_seconds, 1e-3)), 3.0, 1000.0));
}

std::vector<swarm::OfferedFile> offered(const std::vector<DataFile>& files) {
  std::vector<swarm::OfferedFile> result;
  if (files.size() > wire::kMaxFiles) {
    throw InputError("data.source: consists of {} files, but peers can be given at most {}; join some of them",
                     files.size(), wire::kMaxFiles);
  }
  for (const DataFile& file : files) {
    if (!wire::is_file_name(file.name))
      throw InputError("{}: peers cannot be given a file of this name", file.path.string());
    result.push_back({swarm::facts_of(file.path, file.name), file.path});
  }
  return result;
}

std::vector<swarm::OfferedFile> offered(const fs::path& folder) {
  std::vector<DataFile> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files.push_back({entry.path().filename().string(), entry.path()});
  }
  return offered(files);
}

// The peers and their links, as the coordinator before this one has kept them; how fast they compute, they say
// themselves. Nobody if that cannot be read.
plan::Swarm links_before(const fs::path& file) {
  try {
    config::DescribedSwarm description = config::load_peers(file);
    for (config::DescribedPeer& peer : description.peers) peer.micro_batch_time = {};
    return described_swarm(description, Profile{});
  } catch (const Error& error) {
    spdlog::warn("what was measured before cannot be used: {}", error.what());
    return {};
  }
}

// Of a run that is there already: nobody else may have it. Looked at first, because data and models take their time.
std::unique_ptr<Journal> journal_of(const RunDirectory& directory, bool local) {
  if (local || !fs::exists(directory.coordinator())) return nullptr;
  return std::make_unique<Journal>(directory.coordinator());
}

}  // namespace

SwarmRun::SwarmRun(config::Settings settings, RunDirectory directory, bool resume, const SwarmRunOptions& options)
    : directory_(std::move(directory)),
      journal_(journal_of(directory_, options.local)),
      blueprint_(make_blueprint(std::move(settings))),
      local_(options.local) {
  check(blueprint_.settings, blueprint_.model->size(), options.local);
  check_device(blueprint_.settings.train);
  data_files_ = offered(data_files(blueprint_.settings.data));
  if (!resume && !options.takes_up) journal_.reset();  // the run is moved aside, with its journal
  if (options.takes_up) {
    if (!journal_) throw InputError("{}: there is no run to take up", directory_.root().string());
    before_ = journal_->last();
    if (!before_ || !before_->memory.begun)
      throw InputError("{}: there is no run to take up", directory_.root().string());
    measured_ = links_before(directory_.measured_peers());
    began_at_ = position_at(directory_.metrics(), last_step_of(directory_.metrics()));
  }
  const auto checkpoint = resume ? newest_checkpoint(directory_.checkpoints()) : std::nullopt;
  if (checkpoint) {
    verify_checkpoint(*checkpoint);
    const CheckpointInfo info = read_checkpoint_info(*checkpoint);
    check_identity(info, blueprint_.settings, blueprint_.data_fingerprint);
    began_at_ = position_at(directory_.metrics(), info.position.step);
    checkpoint_ = offered(*checkpoint);
    resumed_ = info;
  }

  transport_ = net::make_tcp_transport(world_.clock());
  std::optional<net::Identity> identity;
  if (journal_) identity = journal_->identity();
  if (!identity) identity = net::Identity::generate();
  ticket_ = ticket_of(*identity);
  net::HostOptions host{.name = "coordinator", .encrypt = options.encrypt};
  host.admission = {.secret = ticket_.secret};
  host_ = std::make_unique<net::Host>(world_.clock(), *transport_, *identity, host);
  host_->listen(before_ && options.listen.empty() ? before_->listen : options.listen, [](const net::Guest& guest) {
    if (!guest.ticket) throw net::LinkError(net::Failure::kRefused, guest.name, "come with the ticket");
  });
  ticket_.addresses = options.advertise;
  if (ticket_.addresses.empty()) ticket_.addresses = net::dialable_addresses(host_->address(), wire::kMaxAddresses);

  if (resume || options.takes_up) {
    observe::truncate_after(directory_.metrics(), began_at_.step);
  } else {
    moved_aside_ = directory_.prepare();
  }
  if (!options.takes_up) replace_file(directory_.settings(), config::to_toml(blueprint_.settings));
  if (!local_ && !options.takes_up) {
    if (!journal_) journal_ = std::make_unique<Journal>(directory_.coordinator());
    journal_->keep(*identity);
    journal_->forget();  // the plan of the run before
  }
  record_ = std::make_unique<SwarmRecord>(world_.clock(), blueprint_, directory_, began_at_);
  if (before_) record_->take_up_expelled(before_->memory.expelled.size());
  watchers_.add(*record_);
}

SwarmRun::~SwarmRun() { host_->close(); }

void SwarmRun::keep_measured() const {
  try {
    replace_file(directory_.measured_peers(), config::to_toml(description_of(measured_)));
  } catch (const Error& error) {
    spdlog::warn("what was measured cannot be kept: {}", error.what());
  }
}

// What a coordinator asks about training, of which it knows nothing itself.
swarm::CoordinatorOptions SwarmRun::coordinator_options() {
  swarm::CoordinatorOptions options{.settings = config::to_toml(blueprint_.settings),
                                    .peers = static_cast<std::size_t>(blueprint_.settings.swarm.peers),
                                    .data = blueprint_.data_fingerprint,
                                    .model = fingerprint(*blueprint_.model),
                                    .parameters = static_cast<std::uint64_t>(blueprint_.model->parameter_count()),
                                    .only_these = local_,
                                    .data_files = data_files_,
                                    .checkpoint = checkpoint_,
                                    .incoming = directory_.incoming()};
  options.show = show_;
  // From the file, which is whole at any time: what is measured is written where long work is done.
  options.measured = [this] {
    const fs::path file = directory_.measured_peers();
    return record_->has_plan() && fs::exists(file) ? read_file(file) : "";
  };
  if (journal_) {
    options.remember = [this](const swarm::Memory& memory) { journal_->keep({memory, host_->address()}); };
  }
  if (before_) {
    options.taken_up = before_->memory;
    options.known_step = static_cast<std::uint64_t>(began_at_.step);
    decided_ = config::changed(blueprint_.settings, before_->memory.plan.settings);
  }
  options.arrange = [this](wire::Plan& plan, const std::vector<swarm::Means>& means) {
    measured_ = swarm_of(means, local_);
    has_measured_ = true;
    arrange(blueprint_, measured_, plan);
    keep_measured();
    decided_ = config::changed(blueprint_.settings, plan.settings);
    check_rings(decided_, plan, blueprint_.model->size());
    if (resumed_) {
      plan.first_step = static_cast<std::uint64_t>(resumed_->position.step);
      plan.first_sample = static_cast<std::uint64_t>(resumed_->position.samples);
      const Clusters clusters(plan, blueprint_.model->size());
      const plan::ScheduleOptions schedule = schedule_of(decided_, clusters.have_stages(), 0);
      check_pulls(*resumed_, decided_, static_cast<std::int64_t>(clusters.ranks.size()),
                  static_cast<std::int64_t>(schedule.updates()));
    }
  };
  options.suspicions_last = [this] {
    constexpr std::uint64_t kRounds = 100;
    return kRounds * (has_intervals(decided_.sync) ? static_cast<std::uint64_t>(interval_of(decided_.sync)) : 1);
  };
  options.goes_on = [this](const wire::Plan& plan) {
    const Clusters clusters(plan, blueprint_.model->size());
    const auto is_whole = [&](const std::vector<std::size_t>& ranks) {
      return std::ranges::all_of(ranks, [&](std::size_t rank) { return plan.peers[rank].here; });
    };
    return can_change(decided_) && std::ranges::any_of(clusters.ranks, is_whole);
  };
  options.rewinds = [this](const wire::Plan& plan) {
    const Clusters clusters(plan, blueprint_.model->size());
    if (clusters.ranks.size() > 1 || decided_.swarm.buddy_every.value_or(0) == 0) return false;
    const std::vector<std::size_t>& ranks = clusters.ranks.front();
    for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
      const std::size_t next = ranks[(stage + 1) % ranks.size()];
      if (!plan.peers[ranks[stage]].here && !plan.peers[next].here) return false;  // with its copy
    }
    return true;
  };
  // Where all wait for each other in every step, a copy on fewer computers would only slow down the others.
  options.stands_in = [this](const wire::Plan& plan, std::size_t place, std::size_t by) {
    const Clusters clusters(plan, blueprint_.model->size());
    const auto is_whole = [&](const std::vector<std::size_t>& ranks) {
      return std::ranges::all_of(ranks, [&](std::size_t rank) { return plan.peers[rank].here; });
    };
    const bool waits = decided_.sync.method == "allreduce" && std::ranges::any_of(clusters.ranks, is_whole);
    return !waits && plan.peers[by].cluster == plan.peers[place].cluster;
  };
  options.fits = [this](const wire::Plan& plan, std::size_t rank, const swarm::Means& means) {
    const wire::PlannedPeer& place = plan.peers[rank];
    return !means.memory || place.memory == 0 || *means.memory >= place.memory;
  };
  options.enter = [this](wire::PlannedPeer& place, std::uint64_t step, bool restored) {
    // Where copies are equal, all are so after the same step, from which the others wait for the cluster that is whole
    // again. Else it takes its time, and takes part in rounds that nobody can have begun yet.
    const std::uint64_t soon = step + steps_ahead(record_->usual_step_seconds());
    const config::Sync& sync = decided_.sync;
    const bool warms_up =
        (sync.method == "diloco" || sync.method == "palsgd") && soon <= static_cast<std::uint64_t>(sync.warmup_steps);
    const bool equal = sync.method == "allreduce" || warms_up;
    if (!restored) place.from = equal ? soon : 0;
    if (restored && place.from == 0) place.from = soon;
    if (restored || equal) place.here = true;
    place.restores = !restored;
    return std::max(soon, place.from) < static_cast<std::uint64_t>(decided_.train.steps);
  };
  options.moves = [this](const wire::Plan& plan, const std::vector<swarm::Means>& present, std::uint64_t step) {
    return is_worth_moving(plan, present, step);
  };
  options.goes_back = [this](const wire::Plan& plan) {
    if (!can_move(blueprint_.settings, decided_)) return false;
    try {
      const auto checkpoint = newest_checkpoint(directory_.checkpoints());
      return checkpoint && read_checkpoint_info(*checkpoint).position.step > static_cast<std::int64_t>(plan.first_step);
    } catch (const Error& error) {
      spdlog::warn("what was saved cannot be read: {}", error.what());
      return false;
    }
  };
  options.anew = [this](std::uint64_t ended) { return begin_anew(ended); };
  options.aside = [this](std::function<void()> work) { return aside_.call(std::move(work)); };
  return options;
}

bool SwarmRun::is_worth_moving(const wire::Plan& plan, const std::vector<swarm::Means>& present,
                               std::uint64_t step) const {
  if (measured_.peers.empty()) return false;  // the links are not known
  const auto steps_left = static_cast<double>(decided_.train.steps) - static_cast<double>(step);
  return train::is_worth_moving({.blueprint = blueprint_,
                                 .decided = decided_,
                                 .measured = measured_,
                                 .local = local_,
                                 .plan = plan,
                                 .present = present,
                                 .seconds_left = steps_left * step_seconds_});
}

// All have ended, and go on from what they have saved.
std::optional<swarm::Anew> SwarmRun::begin_anew(std::uint64_t ended) {
  resumed_.reset();  // if whoever was to save was lost, and nobody had before
  checkpoint_.clear();
  if (const auto checkpoint = newest_checkpoint(directory_.checkpoints(), static_cast<std::int64_t>(ended))) {
    resumed_ = read_checkpoint_info(*checkpoint);
    checkpoint_ = offered(*checkpoint);
  }
  const std::int64_t step = resumed_ ? resumed_->position.step : 0;
  if (step >= decided_.train.steps) return std::nullopt;
  blueprint_.settings.sync.method = decided_.sync.method;  // what is saved is of that one
  return swarm::Anew{.settings = config::to_toml(blueprint_.settings),
                     .checkpoint = checkpoint_,
                     .step = static_cast<std::uint64_t>(step)};
}

void SwarmRun::ask_for(Wish wish) {
  boost::asio::post(world_.executor(), [this, wish] {
    if (coordinator_ == nullptr) return;
    if (wish == Wish::kHold) coordinator_->hold();
    if (wish == Wish::kRelease) coordinator_->release();
    if (wish == Wish::kSave) coordinator_->save();
  });
}

RunOutcome SwarmRun::train(const std::atomic<bool>& stop, const std::function<void()>& watch,
                           const std::function<void(double seconds)>& meanwhile) {
  fs::remove_all(directory_.incoming());
  swarm::Coordinator coordinator(world_.clock(), *host_, coordinator_options(), watchers_);
  coordinator_ = &coordinator;
  bool over = false;
  std::exception_ptr trouble;
  const auto obey = [&]() -> Task<> {
    while (!over && !stop && !trouble) {
      auto sleeping = world_.clock().sleep_for(kLookAgain);
      co_await std::move(sleeping);
      try {
        if (watch && !over && !record_->has_plan()) watch();
        if (meanwhile && !over && record_->has_begun()) meanwhile(record_->seconds());
        step_seconds_ = record_->step_seconds();
      } catch (const Error&) {
        trouble = std::current_exception();
      }
    }
    if (!over) coordinator.stop(trouble ? "a local peer could not be started" : "interrupted");
  };
  const auto see_through = [&]() -> Task<> {
    TaskGroup group(world_.executor());
    group.spawn(obey());
    std::exception_ptr failure;
    try {
      auto running = coordinator.run();
      co_await std::move(running);
    } catch (const std::exception&) {
      failure = std::current_exception();
    }
    over = true;
    coordinator_ = nullptr;
    if (trouble) failure = trouble;
    auto joined = group.join();
    co_await std::move(joined);
    if (failure) std::rethrow_exception(failure);
  };
  std::exception_ptr failure;
  try {
    world_.run(see_through());
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  world_.run(aside_.call([] {}));  // what is still being kept
  std::error_code ignored;
  fs::remove_all(directory_.incoming(), ignored);
  for (std::size_t i = 0; has_measured_ && i < measured_.peers.size(); ++i) {
    learn(measured_, i, record_->links_of(measured_.peers[i].name));
  }
  if (has_measured_) keep_measured();
  RunOutcome outcome{.summary = record_->finish()};
  outcome.interrupted = outcome.summary.steps < blueprint_.settings.train.steps;
  if (!failure) return outcome;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (!record_->saved_step()) throw;
    throw Error("{}; the model is saved as it was after step {}, and --resume goes on from there", error.what(),
                *record_->saved_step());
  }
}

}  // namespace rookery::train
