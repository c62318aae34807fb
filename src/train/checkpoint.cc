#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tensor/safetensors.h"
#include "wire/swarm_message.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 3;
constexpr const char* kModel = "model";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kMethod = "sync";
constexpr const char* kIndexFile = "index.json";
constexpr const char* kIndexDigest = "sha256";  // of the index without this entry
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporarySuffix = ".tmp";

// Whole checkpoints by their step, oldest first. Folders with other names are none of ours.
std::vector<std::pair<std::int64_t, fs::path>> all_checkpoints(const fs::path& checkpoints) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  if (!fs::is_directory(checkpoints)) return found;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || !name.starts_with(kPrefix)) continue;
    std::int64_t step = 0;
    const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (error == std::errc{} && end == name.data() + name.size()) found.emplace_back(step, entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string file_name(const char* what, const Shard& shard) {
  if (shard.of == 1) return fmt::format("{}.safetensors", what);
  return fmt::format("{}-{:05}-of-{:05}.safetensors", what, shard.number + 1, shard.of);
}

json file_facts(const fs::path& path) {
  if (!fs::exists(path)) throw InputError("{}: is missing; the checkpoint is damaged", path.string());
  return {{"bytes", fs::file_size(path)}, {"sha256", digest_of_file(path)}};
}

json to_json(const CheckpointInfo& info) {
  const Position& p = info.position;
  json shards = json::array();
  for (const Shard& shard : info.shards) {
    shards.push_back({{"number", shard.number}, {"of", shard.of}, {"layers", {shard.layers.begin, shard.layers.end}}});
  }
  return {{"format", kFormat},
          {"step", p.step},
          {"samples", p.samples},
          {"tokens", p.tokens},
          {"seconds", p.seconds},
          {"loss", p.loss},
          {"optimizer_steps", info.optimizer_steps},
          {"data", info.data},
          {"text", info.text},
          {"clusters", info.clusters},
          {"batch", info.batch},
          {"updates", info.updates},
          {"saving", info.saving},
          {"made_with", info.made_with},
          {"shards", shards}};
}

std::string index_digest(json index) {
  index.erase(kIndexDigest);
  const std::string text = index.dump();
  return digest(std::as_bytes(std::span(text)));
}

// Others may have written it: what is nested deeply would be copied and printed level by level.
bool is_nested_deeply(std::string_view text) {
  constexpr int kDeepest = 8;
  int depth = 0;
  for (const char c : text) {  // brackets within strings count, too; those that open there seldom close
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kDeepest) return true;
  }
  return false;
}

json read_index(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kIndexFile;
  constexpr Bytes kLimit = 1 << 20;
  const std::string text = read_file(path, kLimit);
  json index = is_nested_deeply(text) ? json() : json::parse(text, nullptr, false);
  if (!index.is_object() || index.value(kIndexDigest, json()) != index_digest(index)) {
    throw InputError("{}: the checkpoint is damaged", path.string());
  }
  return index;
}

// What an interrupted save left behind.
void remove_temporaries(const fs::path& checkpoints) {
  if (!fs::is_directory(checkpoints)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kTemporarySuffix)) fs::remove_all(entry.path());
  }
}

std::vector<NamedTensor> model_tensors(const ParameterStore& store) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& entry : store.entries()) tensors.push_back({entry.spec().name, entry.tensor()});
  return tensors;
}

std::vector<FlatState> optimizer_state(const Stage& stage) {
  std::vector<FlatState> state;
  for (const Optimizer::NamedState& own : stage.optimizer().state()) {
    state.push_back({own.name, stage.first(), own.values});
  }
  return state;
}

void write_index(const fs::path& folder, const CheckpointInfo& info, const json& files) {
  json index = to_json(info);
  index["files"] = files;
  index[kIndexDigest] = index_digest(index);
  FileWriter file(folder / kIndexFile);
  file.write(index.dump(2) + "\n");
  file.finish();
  make_durable(folder);
}

void write_shard(const fs::path& folder, const CheckpointInfo& info, const Stage& stage,
                 std::span<const FlatState> method_state) {
  json files;
  const auto write = [&](const char* what, const std::vector<NamedTensor>& tensors,
                         const std::map<std::string, std::string>& metadata = {}) {
    const std::string name = file_name(what, info.shards.at(0));
    write_safetensors(folder / name, tensors, metadata);
    files[name] = file_facts(folder / name);
  };
  const auto named = [](const FlatState& state) {
    return NamedTensor{fmt::format("{}.{}", state.name, state.first), state.values};
  };
  write(kModel, model_tensors(stage.store()), {{"format", "pt"}});
  std::vector<NamedTensor> state;
  for (const FlatState& own : optimizer_state(stage)) state.push_back(named(own));
  write(kOptimizer, state);
  state.clear();
  for (const FlatState& own : method_state) state.push_back(named(own));
  if (!state.empty()) write(kMethod, state);
  write_index(folder, info, files);
}

fs::path folder_of(const fs::path& checkpoints, std::int64_t step) {
  return checkpoints / fmt::format("{}{}", kPrefix, step);
}

// Gives a whole folder its name, and lets the oldest go.
void put_in_place(const fs::path& checkpoints, const fs::path& folder, std::int64_t step, std::int64_t keep) {
  const fs::path final_name = folder_of(checkpoints, step);
  fs::remove_all(final_name);  // the same step, saved before a resume
  fs::rename(folder, final_name);
  make_durable(checkpoints);
  auto all = all_checkpoints(checkpoints);
  for (; all.back().first > step; all.pop_back()) fs::remove_all(all.back().second);  // the run has gone back before it
  const auto surplus = static_cast<std::int64_t>(all.size()) - std::max<std::int64_t>(1, keep);
  for (std::int64_t i = 0; i < surplus; ++i) fs::remove_all(all[static_cast<std::size_t>(i)].second);
}

// The files of one kind, of all shards that have one.
std::vector<std::unique_ptr<SafetensorsFile>> open_all(const CheckpointInfo& info, const char* what) {
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (const Shard& shard : info.shards) {
    const fs::path path = info.path / file_name(what, shard);
    if (fs::exists(path)) files.push_back(std::make_unique<SafetensorsFile>(path));
  }
  return files;
}

// Copies from one piece of a flat vector what another one wants of it. Returns how many values that are.
std::size_t copy_overlap(const SafetensorsFile& file, const SafetensorsFile::Entry& entry, const FlatState& wanted) {
  const std::string prefix = wanted.name + ".";
  if (!entry.name.starts_with(prefix) || entry.shape.size() != 1) return 0;
  const std::string_view number = std::string_view(entry.name).substr(prefix.size());
  std::size_t first = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), first);
  if (error != std::errc{} || end != number.data() + number.size()) return 0;
  const auto size = static_cast<std::size_t>(entry.shape[0]), wants = static_cast<std::size_t>(wanted.values.numel());
  const std::size_t from = std::max(first, wanted.first), to = std::min(first + size, wanted.first + wants);
  if (from >= to) return 0;
  const auto begin = static_cast<std::int64_t>(from - wanted.first), length = static_cast<std::int64_t>(to - from);
  file.read_into(entry, from - first, wanted.values.narrow(0, begin, length));
  return to - from;
}

void load_flat(const CheckpointInfo& info, const char* what, std::span<const FlatState> state) {
  const auto files = open_all(info, what);
  for (const FlatState& wanted : state) {
    std::size_t found = 0;
    for (const auto& file : files) {
      for (const SafetensorsFile::Entry& entry : file->entries()) found += copy_overlap(*file, entry, wanted);
    }
    if (found != static_cast<std::size_t>(wanted.values.numel())) {
      throw InputError("{}: lacks a part of {} that is needed", info.path.string(), wanted.name);
    }
  }
}

// Throws InputError unless these are the shards of one checkpoint of this step, in the order of layers.
void check_shards(const std::vector<CheckpointInfo>& parts, std::int64_t step) {
  std::size_t layer = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const CheckpointInfo& part = parts[i];
    const std::string name = part.path.string();
    if (part.position.step != step) {
      throw InputError("{}: is a checkpoint of step {}, not of {}", name, part.position.step, step);
    }
    const bool fits = part.shards.size() == 1 && part.shards[0].number == i && part.shards[0].of == parts.size() &&
                      part.shards[0].layers.begin == layer && part.optimizer_steps == parts[0].optimizer_steps &&
                      part.saving == parts[0].saving && part.data == parts[0].data &&
                      part.made_with == parts[0].made_with;
    if (!fits) throw InputError("{}: is not a shard of the same checkpoint as the others", name);
    layer = part.shards[0].layers.end;
  }
}

}  // namespace

void save_checkpoint(const fs::path& checkpoints, const CheckpointInfo& info, const Stage& stage,
                     std::span<const FlatState> method_state, std::int64_t keep) try {
  fs::path temporary = folder_of(checkpoints, info.position.step);
  temporary += kTemporarySuffix;
  remove_temporaries(checkpoints);
  fs::create_directories(temporary);
  try {
    write_shard(temporary, info, stage, method_state);
  } catch (const std::exception&) {
    remove_temporaries(checkpoints);
    throw;
  }
  put_in_place(checkpoints, temporary, info.position.step, keep);
} catch (const fs::filesystem_error& e) {
  throw InputError("{}: cannot save a checkpoint: {}", e.path1().string(), e.code().message());
}

void take_checkpoint(const fs::path& checkpoints, std::span<const fs::path> folders, std::int64_t step,
                     std::int64_t keep) try {
  std::vector<CheckpointInfo> parts;
  for (const fs::path& folder : folders) parts.push_back(read_checkpoint_info(folder));
  std::ranges::sort(parts, {}, [](const CheckpointInfo& part) { return part.shards.at(0).number; });
  check_shards(parts, step);
  CheckpointInfo whole = parts.back();  // who has the last layers knows loss and samples
  whole.shards.clear();
  json files;
  const fs::path& together = parts[0].path;
  for (const CheckpointInfo& part : parts) {
    whole.shards.push_back(part.shards[0]);
    const json index = read_index(part.path);
    for (const char* what : {kModel, kOptimizer, kMethod}) {  // whatever else there is, others have made up
      const std::string name = file_name(what, part.shards[0]);
      if (!index.at("files").contains(name)) continue;
      files[name] = index.at("files").at(name);
      if (part.path != together) fs::rename(part.path / name, together / name);
    }
    if (part.path != together) fs::remove_all(part.path);
  }
  write_index(together, whole, files);
  fs::create_directories(checkpoints);
  put_in_place(checkpoints, together, step, keep);
} catch (const fs::filesystem_error& e) {
  throw InputError("{}: cannot save a checkpoint: {}", e.path1().string(), e.code().message());
} catch (const json::exception&) {
  throw InputError("a shard of the checkpoint of step {} lacks an entry", step);
}

std::optional<fs::path> newest_checkpoint(const fs::path& checkpoints, std::int64_t last_step) {
  auto all = all_checkpoints(checkpoints);
  while (!all.empty() && all.back().first > last_step) all.pop_back();
  if (all.empty()) return {};
  return all.back().second;
}

CheckpointInfo read_checkpoint_info(const fs::path& checkpoint) {
  const json index = read_index(checkpoint);
  try {
    if (index.at("format").get<int>() != kFormat) {
      throw InputError("{}: has format {}, but this version reads format {}", (checkpoint / kIndexFile).string(),
                       index.at("format").dump(), kFormat);
    }
    std::vector<Shard> shards;
    for (const json& shard : index.at("shards")) {
      shards.push_back({.number = shard.at("number"),
                        .of = shard.at("of"),
                        .layers = {shard.at("layers").at(0), shard.at("layers").at(1)}});
    }
    const auto is_possible = [](const Shard& shard) {
      return shard.number < shard.of && shard.of <= wire::kMaxPlannedPeers && shard.layers.begin < shard.layers.end;
    };
    if (shards.empty() || !std::ranges::all_of(shards, is_possible)) {
      throw InputError("{}: its shards cannot be; the checkpoint is damaged", checkpoint.string());
    }
    return {.path = checkpoint,
            .position = {.step = index.at("step"),
                         .samples = index.at("samples"),
                         .tokens = index.at("tokens"),
                         .seconds = index.at("seconds"),
                         .loss = index.at("loss").is_number() ? index.at("loss").get<double>() : 0},
            .optimizer_steps = index.at("optimizer_steps"),
            .data = index.at("data"),
            .text = index.at("text"),
            .clusters = index.value("clusters", std::int64_t{1}),
            .batch = index.value("batch", std::int64_t{0}),
            .updates = index.value("updates", std::int64_t{1}),
            .saving = index.value("saving", std::int64_t{0}),
            .made_with = index.at("made_with"),
            .shards = std::move(shards)};
  } catch (const json::exception&) {
    throw InputError("{}: lacks an entry; the checkpoint is damaged", (checkpoint / kIndexFile).string());
  }
}

void verify_checkpoint(const fs::path& checkpoint) try {
  const json index = read_index(checkpoint);
  for (const auto& [name, facts] : index.at("files").items()) {
    const fs::path path = checkpoint / name;
    if (file_facts(path) != facts) {
      throw InputError("{}: the checkpoint is damaged; delete {} if there is an older one (train.keep_checkpoints)",
                       path.string(), checkpoint.string());
    }
  }
} catch (const json::exception&) {
  throw InputError("{}: lacks an entry; the checkpoint is damaged", (checkpoint / kIndexFile).string());
}

void load_parameters(const CheckpointInfo& info, const ParameterStore& store) {
  const auto files = open_all(info, kModel);
  for (const Parameter& parameter : store.entries()) {
    const std::string& name = parameter.spec().name;
    const auto has_it = [&](const auto& file) {
      return std::ranges::find(file->entries(), name, &SafetensorsFile::Entry::name) != file->entries().end();
    };
    const auto file = std::ranges::find_if(files, has_it);
    if (file == files.end()) throw InputError("{}: has no tensor '{}'", info.path.string(), name);
    (*file)->read_into(name, parameter.tensor());
  }
}

void load_checkpoint(const CheckpointInfo& info, Stage& stage) {
  load_parameters(info, stage.store());
  load_parameters(info, stage.replicas());
  load_flat(info, kOptimizer, optimizer_state(stage));
  stage.optimizer().set_steps(info.optimizer_steps);
}

void load_method_state(const CheckpointInfo& info, std::span<const FlatState> method_state) {
  if (open_all(info, kMethod).empty()) return;
  load_flat(info, kMethod, method_state);
}

std::map<std::string, std::string> identity(const config::Settings& settings) {
  const nlohmann::ordered_json all = config::to_json(settings);
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : all["model"].items()) result["model." + key] = value.dump();
  for (const char* key : {"optimizer", "seed", "accumulate"}) {
    result[std::string("train.") + key] = all["train"][key].dump();
  }
  return result;
}

void check_identity(const CheckpointInfo& info, const config::Settings& settings, const std::string& data_fingerprint) {
  for (const auto& [key, value] : identity(settings)) {
    const auto made_with = info.made_with.find(key);
    if (made_with == info.made_with.end() || made_with->second != value) {
      throw InputError("{}: was made with another value of {} than {}", info.path.string(), key, value);
    }
  }
  if (info.position.step > settings.train.steps) {
    throw InputError("train.steps is {}, but {} is further already", settings.train.steps, info.path.string());
  }
  if (info.data != data_fingerprint) {
    throw InputError("{}: was made with other data than data.source = \"{}\" holds now", info.path.string(),
                     settings.data.source);
  }
}

void check_pulls(const CheckpointInfo& info, const config::Settings& settings, std::int64_t clusters,
                 std::int64_t updates) {
  const bool pulls = clusters > 1 && settings.sync.method == "palsgd" && settings.sync.pull == "random";
  if (!pulls || (info.clusters == clusters && info.batch == settings.train.batch && info.updates == updates)) return;
  throw InputError(
      "{}: was made by {} clusters with train.batch = {} and {} update{} in a step, and with sync.method = \"palsgd\" "
      "only as many with the same can go on from there",
      info.path.string(), info.clusters, info.batch, info.updates, info.updates == 1 ? "" : "s");
}

bool is_checkpoint(const fs::path& folder) { return fs::exists(folder / kIndexFile); }

std::vector<fs::path> model_files(const CheckpointInfo& info) {
  std::vector<fs::path> files;
  for (const Shard& shard : info.shards) files.push_back(info.path / file_name(kModel, shard));
  return files;
}

}  // namespace rookery::train
