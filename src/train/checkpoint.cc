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

constexpr int kFormat = 1;
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kIndexFile = "index.json";
constexpr std::string_view kPrefix = "step-";

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
  const MappedFile file(path);
  return {{"bytes", file.bytes().size()}, {"sha256", digest(file.bytes())}};
}

json to_json(const CheckpointInfo& info) {
  const Position& p = info.position;
  return {{"format", kFormat},
          {"step", p.step},
          {"samples", p.samples},
          {"tokens", p.tokens},
          {"seconds", p.seconds},
          {"loss", p.loss},
          {"optimizer", info.optimizer},
          {"optimizer_steps", info.optimizer_steps},
          {"data", info.data}};
}

json read_index(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kIndexFile;
  constexpr Bytes kLimit = 1 << 20;
  json index = json::parse(read_file(path, kLimit), nullptr, false);
  if (!index.is_object()) throw InputError("{}: is not valid JSON; the checkpoint is damaged", path.string());
  return index;
}

std::vector<NamedTensor> model_tensors(const ParameterStore& store) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& entry : store.entries()) tensors.push_back({entry.spec().name, entry.tensor()});
  return tensors;
}

void write_files(const fs::path& folder, const CheckpointInfo& info, ParameterStore& store, Optimizer& optimizer) {
  write_safetensors(folder / kModelFile, model_tensors(store), {{"format", "pt"}});
  std::vector<NamedTensor> state;
  for (const Optimizer::NamedState& s : optimizer.state()) state.push_back({s.name, s.values});
  write_safetensors(folder / kOptimizerFile, state);
  json index = to_json(info);
  index["files"] = {{kModelFile, file_facts(folder / kModelFile)}, {kOptimizerFile, file_facts(folder / kOptimizerFile)}};
  FileWriter file(folder / kIndexFile);
  file.write(index.dump(2) + "\n");
  file.finish();
}

}  // namespace

void save_checkpoint(const fs::path& checkpoints, const CheckpointInfo& info, ParameterStore& store,
                     Optimizer& optimizer, std::int64_t keep) try {
  const fs::path final_name = checkpoints / fmt::format("{}{}", kPrefix, info.position.step);
  fs::path temporary = final_name;
  temporary += ".tmp";
  fs::remove_all(temporary);
  fs::create_directories(temporary);
  try {
    write_files(temporary, info, store, optimizer);
  } catch (const Error&) {
    fs::remove_all(temporary);
    throw;
  }
  fs::remove_all(final_name);  // the same step, saved before a resume
  fs::rename(temporary, final_name);
  const auto all = all_checkpoints(checkpoints);
  const auto surplus = static_cast<std::int64_t>(all.size()) - std::max<std::int64_t>(1, keep);
  for (std::int64_t i = 0; i < surplus; ++i) fs::remove_all(all[static_cast<std::size_t>(i)].second);
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
            .optimizer = index.at("optimizer"),
            .optimizer_steps = index.at("optimizer_steps"),
            .data = index.at("data")};
  } catch (const json::exception&) {
    throw InputError("{}: lacks an entry; the checkpoint is damaged", (checkpoint / kIndexFile).string());
  }
}

void verify_checkpoint(const fs::path& checkpoint) {
  const json index = read_index(checkpoint);
  for (const char* name : {kModelFile, kOptimizerFile}) {
    const fs::path path = checkpoint / name;
    const json facts = index.value("files", json::object()).value(name, json());
    if (file_facts(path) != facts) {
      throw InputError("{}: does not match the checkpoint's index; it is damaged, delete {} to use an older one",
                       path.string(), checkpoint.string());
    }
  }
}

void load_checkpoint(const CheckpointInfo& info, ParameterStore& store, Optimizer* optimizer) {
  const SafetensorsFile model(model_file(info.path));
  for (const Parameter& entry : store.entries()) model.read_into(entry.spec().name, entry.tensor());
  if (optimizer == nullptr) return;
  const SafetensorsFile state(info.path / kOptimizerFile);
  for (const Optimizer::NamedState& s : optimizer->state()) state.read_into(s.name, s.values);
  optimizer->set_steps(info.optimizer_steps);
}

fs::path model_file(const fs::path& checkpoint) { return checkpoint / kModelFile; }

}  // namespace rookery::train
