#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "tensor/safetensors.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 2;
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kMethodFile = "sync.safetensors";
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

json file_facts(const fs::path& path) {
  if (!fs::exists(path)) throw InputError("{}: is missing; the checkpoint is damaged", path.string());
  return {{"bytes", fs::file_size(path)}, {"sha256", digest_of_file(path)}};
}

json to_json(const CheckpointInfo& info) {
  const Position& p = info.position;
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
          {"made_with", info.made_with}};
}

std::string index_digest(json index) {
  index.erase(kIndexDigest);
  const std::string text = index.dump();
  return digest(std::as_bytes(std::span(text)));
}

json read_index(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kIndexFile;
  constexpr Bytes kLimit = 1 << 20;
  json index = json::parse(read_file(path, kLimit), nullptr, false);
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

void write_files(const fs::path& folder, const CheckpointInfo& info, ParameterStore& store, Optimizer& optimizer,
                 std::span<const NamedTensor> method_state) {
  write_safetensors(folder / kModelFile, model_tensors(store), {{"format", "pt"}});
  std::vector<NamedTensor> state;
  for (const Optimizer::NamedState& s : optimizer.state()) state.push_back({s.name, s.values});
  write_safetensors(folder / kOptimizerFile, state);
  json index = to_json(info);
  index["files"] = {{kModelFile, file_facts(folder / kModelFile)},
                    {kOptimizerFile, file_facts(folder / kOptimizerFile)}};
  if (!method_state.empty()) {
    write_safetensors(folder / kMethodFile, method_state);
    index["files"][kMethodFile] = file_facts(folder / kMethodFile);
  }
  index[kIndexDigest] = index_digest(index);
  FileWriter file(folder / kIndexFile);
  file.write(index.dump(2) + "\n");
  file.finish();
  make_durable(folder);
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
  const auto all = all_checkpoints(checkpoints);
  const auto surplus = static_cast<std::int64_t>(all.size()) - std::max<std::int64_t>(1, keep);
  for (std::int64_t i = 0; i < surplus; ++i) fs::remove_all(all[static_cast<std::size_t>(i)].second);
}

}  // namespace

void save_checkpoint(const fs::path& checkpoints, const CheckpointInfo& info, ParameterStore& store,
                     Optimizer& optimizer, std::int64_t keep, std::span<const NamedTensor> method_state) try {
  fs::path temporary = folder_of(checkpoints, info.position.step);
  temporary += kTemporarySuffix;
  remove_temporaries(checkpoints);
  fs::create_directories(temporary);
  try {
    write_files(temporary, info, store, optimizer, method_state);
  } catch (const std::exception&) {
    remove_temporaries(checkpoints);
    throw;
  }
  put_in_place(checkpoints, temporary, info.position.step, keep);
} catch (const fs::filesystem_error& e) {
  throw InputError("{}: cannot save a checkpoint: {}", e.path1().string(), e.code().message());
}

void take_checkpoint(const fs::path& checkpoints, const fs::path& folder, std::int64_t step, std::int64_t keep) try {
  const std::int64_t found = read_checkpoint_info(folder).position.step;
  if (found != step) throw InputError("{}: is a checkpoint of step {}, not of {}", folder.string(), found, step);
  fs::create_directories(checkpoints);
  put_in_place(checkpoints, folder, step, keep);
} catch (const fs::filesystem_error& e) {
  throw InputError("{}: cannot save a checkpoint: {}", e.path1().string(), e.code().message());
}

std::optional<fs::path> newest_checkpoint(const fs::path& checkpoints) {
  const auto all = all_checkpoints(checkpoints);
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
            .made_with = index.at("made_with")};
  } catch (const json::exception&) {
    throw InputError("{}: lacks an entry; the checkpoint is damaged", (checkpoint / kIndexFile).string());
  }
}

void verify_checkpoint(const fs::path& checkpoint) try {
  const json index = read_index(checkpoint);
  for (const char* name : {kModelFile, kOptimizerFile, kMethodFile}) {
    if (name == kMethodFile && !index.at("files").contains(name)) continue;
    const fs::path path = checkpoint / name;
    if (file_facts(path) != index.at("files").at(name)) {
      throw InputError("{}: the checkpoint is damaged; delete {} if there is an older one (train.keep_checkpoints)",
                       path.string(), checkpoint.string());
    }
  }
} catch (const json::exception&) {
  throw InputError("{}: lacks an entry; the checkpoint is damaged", (checkpoint / kIndexFile).string());
}

void load_checkpoint(const CheckpointInfo& info, ParameterStore& store, Optimizer* optimizer) {
  const SafetensorsFile model(model_file(info.path));
  if (model.entries().size() != store.entries().size()) {
    throw InputError("{}: has {} tensors, but the model has {}", model.path().string(), model.entries().size(),
                     store.entries().size());
  }
  for (const Parameter& entry : store.entries()) model.read_into(entry.spec().name, entry.tensor());
  if (optimizer == nullptr) return;
  const SafetensorsFile state(info.path / kOptimizerFile);
  for (const Optimizer::NamedState& s : optimizer->state()) state.read_into(s.name, s.values);
  optimizer->set_steps(info.optimizer_steps);
}

std::unique_ptr<SafetensorsFile> open_method_state(const CheckpointInfo& info) {
  const fs::path path = info.path / kMethodFile;
  return fs::exists(path) ? std::make_unique<SafetensorsFile>(path) : nullptr;
}

void load_method_state(const SafetensorsFile& file, std::span<const NamedTensor> method_state) {
  for (const NamedTensor& s : method_state) file.read_into(s.name, s.tensor);
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
  const config::Sync& sync = settings.sync;
  const bool pulls = settings.swarm.peers > 1 && sync.method == "palsgd" && sync.pull == "random";
  if (pulls && (info.clusters != settings.swarm.peers || info.batch != settings.train.batch)) {
    throw InputError(
        "{}: was made by {} peers with train.batch = {}, and with sync.method = \"palsgd\" only as many with the same "
        "batch can go on from there",
        info.path.string(), info.clusters, info.batch);
  }
  if (info.data != data_fingerprint) {
    throw InputError("{}: was made with other data than data.source = \"{}\" holds now", info.path.string(),
                     settings.data.source);
  }
}

fs::path model_file(const fs::path& checkpoint) { return checkpoint / kModelFile; }

}  // namespace rookery::train
