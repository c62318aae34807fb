#include "train/profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "measure/byte_cost.h"
#include "measure/hop_time.h"
#include "model/profile.h"
#include "tensor/allocator.h"
#include "train/setup.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kRepetitions = 5;
constexpr double kMostJitter = 0.5;
constexpr std::chrono::seconds kPatience(60);  // with others who measure the same
constexpr std::int64_t kMaxProfileBytes = 16 << 20;

double seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

double middle_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Layers of the same size are alike: each takes what the middle one of them was measured to take. Cuts then do not
// follow the noise.
void even_out(plan::ModelProfile& profile) {
  const auto size_of = [](const plan::LayerProfile& layer) {
    return std::tuple(layer.parameters, layer.replicas, layer.activations, layer.border, layer.gradients);
  };
  std::map<decltype(size_of(profile[0])), std::vector<plan::LayerProfile*>> alike;
  for (plan::LayerProfile& layer : profile) alike[size_of(layer)].push_back(&layer);
  for (auto& [size, layers] : alike) {
    for (double plan::LayerProfile::*const time : {&plan::LayerProfile::forward, &plan::LayerProfile::backward}) {
      std::vector<double> times;
      for (const plan::LayerProfile* layer : layers) times.push_back(layer->*time);
      const double middle = middle_of(std::move(times));
      for (plan::LayerProfile* layer : layers) layer->*time = middle;
    }
  }
}

// A micro-batch of samples that are as long as can be: what memory has to do for.
Batch longest_batch(const Blueprint& blueprint) {
  const config::Settings& settings = blueprint.settings;
  return model::random_batch(blueprint.data->info().problem, fitted_model(settings, blueprint.data->info()),
                             settings.train.batch / settings.train.micro_batches, 1);
}

bool are_alike(const Batch& one, const Batch& other) {
  return std::ranges::equal(one.inputs, other.inputs,
                            [](const at::Tensor& a, const at::Tensor& b) { return a.sizes() == b.sizes(); });
}

// One micro-batch, or several where samples differ in length.
std::vector<Batch> typical_batches(const Blueprint& blueprint) {
  constexpr std::uint64_t kMost = 16;
  std::vector<Batch> batches;
  for (std::uint64_t number = 0; number < kMost; ++number) batches.push_back(typical_batch(blueprint, number));
  const bool differ = std::ranges::any_of(batches, [&](const Batch& b) { return !are_alike(b, batches.front()); });
  if (!differ) batches.resize(1);
  return batches;
}

double variance_of(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double mean = 0, variance = 0;
  for (const double value : values) mean += value / count;
  for (const double value : values) variance += std::pow(value - mean, 2) / count;
  return variance;
}

// What it takes to make a micro-batch.
double measured_batch(const Blueprint& blueprint) {
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) {
    const auto start = model::computing_time();
    const Batch made = typical_batch(blueprint, 0);
    times.push_back(seconds(model::computing_time() - start));
  }
  return middle_of(std::move(times));
}

// What the first so many layers take, as a mean over these micro-batches; the first one with making them.
Profile measured(const Blueprint& blueprint, const std::vector<Batch>& batches, int repetitions,
                 std::size_t layers = std::numeric_limits<std::size_t>::max()) {
  Profile profile;
  const auto many = static_cast<double>(batches.size());
  std::vector<double> takes;  // each micro-batch
  double noise = 0;
  for (const Batch& batch : batches) {
    const std::vector<model::LayerCost> costs = model::profile(*blueprint.model, batch, repetitions, layers);
    profile.layers.resize(costs.size());
    takes.push_back(0);
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const model::LayerCost& cost = costs[i];
      plan::LayerProfile& layer = profile.layers[i];
      layer.parameters = static_cast<std::uint64_t>(cost.parameters);
      layer.replicas = static_cast<std::uint64_t>(cost.tied);
      layer.forward += seconds(cost.forward) / many;
      layer.backward += seconds(cost.backward) / many;
      layer.activations = std::max(layer.activations, cost.activation_bytes * batch.samples);
      layer.border = std::max(layer.border, cost.output_bytes * batch.samples);
      layer.gradients = std::max(layer.gradients, cost.gradient_bytes * batch.samples);
      takes.back() += seconds(cost.forward + cost.backward);
      noise += std::pow(seconds(cost.deviation), 2) / many;
    }
  }
  if (repetitions > 0) profile.layers.front().forward += measured_batch(blueprint);
  const double mean = std::accumulate(takes.begin(), takes.end(), 0.0) / many;
  // Of a step's micro-batches some are long and some are short.
  const double unlike = variance_of(takes) / static_cast<double>(blueprint.settings.train.micro_batches);
  if (mean > 0) profile.jitter = std::min(kMostJitter, std::sqrt(noise + unlike) / mean);
  return profile;
}

// Again and again, because a computer that does other things too is faster at one moment than at another.
Profile measured_for_a_while(const Blueprint& blueprint) {
  constexpr std::chrono::milliseconds kWhile(1000);
  constexpr std::size_t kMost = 25;
  const std::vector<Batch> batches = typical_batches(blueprint);
  const auto start = std::chrono::steady_clock::now();
  std::vector<Profile> all;
  do {
    all.push_back(measured(blueprint, batches, kRepetitions));
  } while (all.size() < kMost && std::chrono::steady_clock::now() - start < kWhile);
  Profile usual = all.front();
  const auto middle = [&](auto value_of) {
    std::vector<double> values;
    for (const Profile& profile : all) values.push_back(value_of(profile));
    return middle_of(std::move(values));
  };
  usual.jitter = middle([](const Profile& profile) { return profile.jitter; });
  for (std::size_t i = 0; i < usual.layers.size(); ++i) {
    usual.layers[i].forward = middle([&](const Profile& profile) { return profile.layers[i].forward; });
    usual.layers[i].backward = middle([&](const Profile& profile) { return profile.layers[i].backward; });
  }
  return usual;
}

// What the first layers take now, as a share of what they are known to take.
double pace_of(const Blueprint& blueprint, const Profile& known) {
  constexpr std::size_t kLayers = 3;
  constexpr int kRepetitionsOfALook = 3;
  double now = 0, then = 0;
  const Profile look = measured(blueprint, typical_batches(blueprint), kRepetitionsOfALook, kLayers);
  for (std::size_t i = 0; i < look.layers.size(); ++i) {
    now += look.layers[i].forward + look.layers[i].backward;
    then += known.layers[i].forward + known.layers[i].backward;
  }
  return then > 0 ? now / then : std::numeric_limits<double>::infinity();
}

// The layer with most parameters of those that do not take much memory; else the smallest.
std::size_t typical_layer(const plan::ModelProfile& layers) {
  constexpr std::uint64_t kMuch = 2'000'000;
  const auto order = [](const plan::LayerProfile& layer) {
    const auto parameters = static_cast<double>(layer.parameters);
    return layer.parameters <= kMuch ? parameters : 1 / parameters;
  };
  return static_cast<std::size_t>(std::ranges::max_element(layers, {}, order) - layers.begin());
}

// Norm, update and clearing.
double measured_update(const Blueprint& blueprint, const plan::ModelProfile& layers) {
  const model::Model& model = *blueprint.model;
  const std::size_t layer = typical_layer(layers);
  const std::uint64_t parameters = layers[layer].parameters;
  if (parameters == 0) return 0;
  ParameterStore store(model.parameters(layer, layer + 1), model.buffers(layer, layer + 1));
  store.initialize(1);
  store.zero_gradients();
  const auto optimizer = make_optimizer(optimizer_options(blueprint.settings.train), store);
  constexpr Bytes kBytesOfAParameter = 16;  // weight, gradient and moments
  model::Others others(model.parameter_count() * kBytesOfAParameter);
  constexpr int kUpdates = 3 * kRepetitions;
  std::vector<double> times;
  for (int i = 0; i <= kUpdates; ++i) {
    others.pass();
    const auto start = model::computing_time();
    const double scale = clip_scale(gradient_norm(store), blueprint.settings.train.clip);
    optimizer->step(1e-3, scale);
    store.zero_gradients();
    if (i > 0) times.push_back(seconds(model::computing_time() - start));
  }
  return middle_of(std::move(times)) / static_cast<double>(store.values().numel());
}

fs::path file_of(const Blueprint& blueprint, const fs::path& folder) {
  const config::Train& t = blueprint.settings.train;
  const std::string all =
      fmt::format("with hops {} {} {} {} {} {} {} {}", fingerprint(*blueprint.model), t.batch / t.micro_batches,
                  at::get_num_threads(), t.device, t.optimizer, blueprint.settings.model.dropout > 0,
                  blueprint.data_fingerprint, blueprint.settings.data.augment);
  return folder / (digest(std::as_bytes(std::span(all))) + ".json");
}

// Times that were kept, if there are any.
std::optional<Profile> recall(const Blueprint& blueprint, const fs::path& file) {
  if (!fs::exists(file)) return std::nullopt;
  try {
    const json kept = json::parse(read_file(file, kMaxProfileBytes));
    const auto &forward = kept.at("forward"), &backward = kept.at("backward"), &sizes = kept.at("activations");
    const std::size_t layers = blueprint.model->size();
    if (forward.size() != layers || backward.size() != layers || sizes.size() != layers) return std::nullopt;
    Profile profile{.layers = plan::ModelProfile(layers)};
    for (std::size_t i = 0; i < layers; ++i) {
      profile.layers[i].forward = std::max(0.0, forward[i].get<double>());
      profile.layers[i].backward = std::max(0.0, backward[i].get<double>());
      profile.layers[i].activations = std::max<Bytes>(0, sizes[i].get<Bytes>());
    }
    profile.update = std::max(0.0, kept.at("update").get<double>());
    profile.byte_cost = std::max(0.0, kept.at("byte_cost").get<double>());
    profile.hop = std::max(0.0, kept.at("hop").get<double>());
    profile.jitter = std::clamp(kept.at("jitter").get<double>(), 0.0, kMostJitter);
    return profile;
  } catch (const std::exception& error) {
    spdlog::warn("{} is damaged, and measured anew: {}", file.string(), error.what());
    return std::nullopt;
  }
}

void keep(const fs::path& file, const Profile& profile) {
  json kept = {{"update", profile.update}, {"byte_cost", profile.byte_cost}, {"hop", profile.hop}, {"jitter", profile.jitter}};
  for (const plan::LayerProfile& layer : profile.layers) {
    kept["forward"].push_back(layer.forward);
    kept["backward"].push_back(layer.backward);
    kept["activations"].push_back(layer.activations);
  }
  try {
    fs::create_directories(file.parent_path());
    replace_file(file, kept.dump() + "\n");
  } catch (const std::exception& error) {
    spdlog::warn("what was measured cannot be kept: {}", error.what());
  }
}

Profile measure_and_keep(const Blueprint& blueprint, const fs::path& file) {
  const Profile profile = measure_profile(blueprint);
  keep(file, profile);
  return profile;
}

}  // namespace

Batch typical_batch(const Blueprint& blueprint, std::uint64_t number) {
  const config::Train& t = blueprint.settings.train;
  const auto samples = static_cast<std::uint64_t>(t.batch / t.micro_batches);
  const data::Sampler sampler(1, blueprint.data->size(data::Split::kTrain));
  std::vector<data::Sampler::Place> places;
  for (std::uint64_t i = 0; i < samples; ++i) places.push_back(sampler.at(number * samples + i));
  return blueprint.data->batch(data::Split::kTrain, places);
}

Profile measure_profile(const Blueprint& blueprint) {
  Profile profile = measured_for_a_while(blueprint);
  even_out(profile.layers);
  profile.update = measured_update(blueprint, profile.layers);
  profile.byte_cost = measure::byte_cost();
  profile.hop = measure::hop_time();
  return profile;
}

plan::ModelProfile layer_sizes(const Blueprint& blueprint) {
  return measured(blueprint, {longest_batch(blueprint)}, 0).layers;
}

Profile known_profile(const Blueprint& blueprint, const fs::path& folder) {
  const fs::path file = file_of(blueprint, folder);
  const std::optional<Profile> kept = recall(blueprint, file);
  return kept ? *kept : measure_and_keep(blueprint, file);
}

Profile current_profile(const Blueprint& blueprint, const fs::path& folder) {
  constexpr double kNoticeable = 1.1;
  const fs::path file = file_of(blueprint, folder);
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  const FileLock alone(fs::path(file) += ".lock", kPatience);
  std::optional<Profile> profile = recall(blueprint, file);
  if (profile) {
    const double pace = pace_of(blueprint, *profile);
    if (pace > kNoticeable || pace < 1 / kNoticeable) profile.reset();
  }
  if (!profile) profile = measure_and_keep(blueprint, file);
  trim_tensor_memory();
  return *profile;
}

}  // namespace rookery::train
