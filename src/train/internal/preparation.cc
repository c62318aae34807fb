#include <algorithm>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "observe/computer.h"
#include "observe/memory.h"
#include "tensor/allocator.h"
#include "train/checkpoint.h"
#include "train/peer_work.h"
#include "train/profile.h"
#include "train/setup.h"
#include "train/trial.h"

namespace rookery::train {

namespace fs = std::filesystem;

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
  profile_ = current_profile(*blueprint_, options_.profiles);
  ready.resident = static_cast<std::uint64_t>(observe::resident_memory());  // without what is free again
  ready.available = static_cast<std::uint64_t>(observe::available_memory());
  for (const plan::LayerProfile& layer : profile_.layers) ready.layers.push_back({layer.forward, layer.backward});
  ready.update = profile_.update;
  ready.byte_cost = profile_.byte_cost;
  ready.hop = profile_.hop;
  ready.jitter = options_.pace.jitter > 0 ? options_.pace.jitter : profile_.jitter;
  co_return ready;
}

Task<double> PeerWork::try_out() {
  constexpr Bytes kMost = 256 << 20;
  double crowding = 0;
  auto trying = compute_->call([&] {
    const Bytes own = options_.memory > 0 ? (options_.memory - observe::resident_memory()) / 2 : kMost;
    try {
      crowding = train::try_out(*blueprint_, profile_, std::min(own, kMost)).value_or(0);
    } catch (const std::exception& error) {
      spdlog::warn("what others take from it could not be tried: {}", error.what());  // it can do without
    }
    observe::forget_peak_memory();
  });
  co_await std::move(trying);
  if (crowding == 0) co_return 0;
  spdlog::info("computes {:.2f} times as long in training, beside all others, as layer by layer", crowding);
  co_return crowding;
}

// What these layers take in a step at full speed, as each was measured.
std::chrono::nanoseconds PeerWork::measured_step(plan::Layers layers, plan::Versions versions,
                                                 std::int64_t micro_batches) const {
  const int forwards = versions == plan::Versions::kRecompute ? 2 : 1;
  double seconds = 0;
  for (std::size_t i = layers.begin; i < layers.end; ++i) {
    seconds += forwards * profile_.layers[i].forward + profile_.layers[i].backward;
  }
  const std::chrono::duration<double> step(seconds * static_cast<double>(micro_batches));
  return std::max(std::chrono::nanoseconds(1), std::chrono::duration_cast<std::chrono::nanoseconds>(step));
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
  if (pace.step_time.count() == 0 && (pace.speed < 1 || pace.jitter > 0)) {
    pace.step_time = measured_step({own.begin, own.end}, versions, t.micro_batches);
  }
  pace_.emplace(pace, static_cast<std::uint64_t>(t.seed), options_.name);
  stage_compute_.emplace(*trainee_);
  stage_compute_->keep_pace(*pace_);
  if (!checkpoint_) {
    if (is_new_) return trainee_->stage().begin_empty();
    return trainee_->stage().initialize(static_cast<std::uint64_t>(t.seed));
  }
  const CheckpointInfo info = read_checkpoint_info(*checkpoint_);
  load_checkpoint(info, trainee_->stage());
  resumed_ = position_ = info.position;
  position_.samples = position_.tokens = 0;
  const std::lock_guard lock(gate_.mutex);
  gate_.begun = static_cast<std::uint64_t>(position_.step);
}

}  // namespace rookery::train
