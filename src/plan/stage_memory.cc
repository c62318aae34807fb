#include "plan/stage_memory.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/suggest.h"

namespace rookery::plan {
namespace {

constexpr Bytes kValue = 4;  // a float

constexpr std::array<std::pair<Versions, std::string_view>, 3> kNames = {
    {{Versions::kStash, "stash"}, {Versions::kLatest, "latest"}, {Versions::kRecompute, "recompute"}}};

}  // namespace

Versions parse_versions(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [versions, its_name] : kNames) {
    if (name == its_name) return versions;
    known.emplace_back(its_name);
  }
  throw InputError("pipeline.weights: there is no '{}'{}", name, did_you_mean(std::string(name), known));
}

std::string_view name_of(Versions versions) {
  return std::ranges::find(kNames, versions, &std::pair<Versions, std::string_view>::first)->second;
}

StageMemory stage_memory(const ModelProfile& model, Layers layers, const ScheduleOptions& options, StagePlace place,
                         const Keeping& keeping) {
  std::uint64_t parameters = 0, replicas = 0;
  Bytes activations = 0;
  for (std::size_t i = layers.begin; i < layers.end; ++i) {
    parameters += model[i].parameters;
    replicas += model[i].replicas;
    activations += model[i].activations;
  }
  if (layers.begin == 0) replicas = 0;  // their owner is here
  const auto on_their_way = static_cast<Bytes>(in_flight(options, place));
  const auto own = static_cast<Bytes>(parameters) * kValue, held = own + static_cast<Bytes>(replicas) * kValue;
  const Bytes in = layers.begin > 0 ? model[layers.begin - 1].border : 0;
  const Bytes out = layers.end < model.size() ? model[layers.end - 1].border : 0;

  StageMemory memory{.weights = held,
                     .gradients = held,
                     .optimizer = own * static_cast<Bytes>(keeping.optimizer_values),
                     .method = own * static_cast<Bytes>(keeping.method_values)};
  if (keeping.versions == Versions::kStash) {
    memory.versions = held * static_cast<Bytes>(staleness_bound(options, place));
  }
  memory.activations =
      keeping.versions == Versions::kRecompute ? activations + (on_their_way - 1) * in : on_their_way * activations;
  // An input that came while the last one is worked on, and an output that is being sent; the same with gradients.
  memory.borders = 2 * in + 2 * out;
  return memory;
}

}  // namespace rookery::plan
