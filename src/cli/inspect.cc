#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "model/profile.h"
#include "tensor/safetensors.h"
#include "train/checkpoint.h"
#include "train/learner.h"
#include "train/run_directory.h"
#include "train/setup.h"

namespace rookery::cli {
namespace {

using nlohmann::ordered_json;

struct InspectOptions {
  std::string target;  // a run or a file
  std::string model;
  std::vector<std::string> overrides;
  std::int64_t batch = 1;
  int repetitions = 3;
  bool json = false;
};

double milliseconds(std::chrono::nanoseconds t) { return std::chrono::duration<double, std::milli>(t).count(); }

// Sizes that only data would tell: those of the built-in data, so that every kind can be looked at.
model::ModelOptions without_data(model::ModelOptions o) {
  const model::ModelOptions preset = model::find_kind(o.kind).complete(o);
  if (preset.vocabulary == 0) o.vocabulary = 256;
  return model::complete_options(o);
}

int inspect_model(const InspectOptions& options) {
  config::Settings settings = config::load(std::nullopt, options.overrides);
  settings.model.kind = options.model;
  train::use_threads(settings.train.threads);
  const model::ModelOptions sizes = without_data(train::requested_model(settings));
  const model::Kind& kind = model::find_kind(sizes.kind);
  const auto model = model::build_model(sizes);
  fmt::print(stderr, "measuring {} layers, {} times each…\n", model->size(), options.repetitions);
  const Batch batch = model::random_batch(kind.problem, sizes, options.batch, 1);
  const auto costs = model::profile(*model, batch, options.repetitions);

  if (options.json) {
    ordered_json layers = ordered_json::array();
    for (const model::LayerCost& cost : costs) {
      layers.push_back({{"name", cost.name},
                        {"parameters", cost.parameters},
                        {"forward_seconds", milliseconds(cost.forward) / 1e3},
                        {"backward_seconds", milliseconds(cost.backward) / 1e3},
                        {"output_bytes", cost.output_bytes},
                        {"gradient_bytes", cost.gradient_bytes},
                        {"activation_bytes", cost.activation_bytes}});
    }
    print_json(
        {{"model", kind.name}, {"parameters", model->parameter_count()}, {"batch", options.batch}, {"layers", layers}});
    return 0;
  }
  fmt::print("{}: {}\n{} parameters ({}), batch {}\n\n", kind.name, kind.summary, model->parameter_count(),
             format_bytes(4 * model->parameter_count()), options.batch);
  std::vector<std::vector<std::string>> rows = {
      {"layer", "parameters", "forward ms", "backward ms", "output/sample", "kept/sample"}};
  model::LayerCost total{.name = "total"};
  for (const model::LayerCost& cost : costs) {
    rows.push_back({cost.name, std::to_string(cost.parameters), fmt::format("{:.2f}", milliseconds(cost.forward)),
                    fmt::format("{:.2f}", milliseconds(cost.backward)), format_bytes(cost.output_bytes),
                    format_bytes(cost.activation_bytes)});
    total.parameters += cost.parameters;
    total.forward += cost.forward;
    total.backward += cost.backward;
    total.activation_bytes += cost.activation_bytes;
  }
  rows.push_back({total.name, std::to_string(total.parameters), fmt::format("{:.2f}", milliseconds(total.forward)),
                  fmt::format("{:.2f}", milliseconds(total.backward)), "", format_bytes(total.activation_bytes)});
  print_table(rows);
  return 0;
}

// One file, or the shards of a model.
int inspect_files(const InspectOptions& options, const std::vector<std::filesystem::path>& files) {
  ordered_json tensors = ordered_json::array();
  std::map<std::string, std::string> metadata;
  std::vector<std::vector<std::string>> rows = {{"tensor", "type", "shape", "size"}};
  for (const std::filesystem::path& path : files) {
    const SafetensorsFile file(path);
    metadata = file.metadata();
    for (const SafetensorsFile::Entry& entry : file.entries()) {
      const std::string type = c10::toString(entry.type);
      const auto bytes = static_cast<Bytes>(entry.end - entry.begin);
      tensors.push_back({{"name", entry.name}, {"type", type}, {"shape", entry.shape}, {"bytes", bytes}});
      rows.push_back({entry.name, type, fmt::format("{}", fmt::join(entry.shape, "×")), format_bytes(bytes)});
    }
  }
  if (options.json) {
    print_json({{"file", options.target}, {"metadata", metadata}, {"tensors", tensors}});
    return 0;
  }
  print_table(rows);
  for (const auto& [key, value] : metadata) fmt::print("{} = {}\n", key, value);
  return 0;
}

int inspect_run(const InspectOptions& options) {
  const train::RunDirectory run = train::open_run(options.target);
  const config::Settings settings = config::load(run.settings());
  const auto model = model::build_model(train::requested_model(settings));
  const auto newest = train::newest_checkpoint(run.checkpoints());
  ordered_json object = {{"run", options.target},        {"name", settings.name},
                         {"model", settings.model.kind}, {"parameters", model->parameter_count()},
                         {"data", settings.data.source}, {"steps_planned", settings.train.steps}};
  if (newest) {
    const train::CheckpointInfo info = train::read_checkpoint_info(*newest);
    object["checkpoint"] = {{"path", newest->string()},         {"step", info.position.step},
                            {"samples", info.position.samples}, {"tokens", info.position.tokens},
                            {"seconds", info.position.seconds}, {"loss", info.position.loss},
                            {"shards", info.shards.size()}};
  }
  if (std::filesystem::exists(run.summary())) {
    const auto summary = ordered_json::parse(read_file(run.summary()), nullptr, false);
    if (!summary.is_object()) throw InputError("{}: is not valid JSON", run.summary().string());
    object["summary"] = summary;
  }
  if (options.json) {
    print_json(object);
    return 0;
  }
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object()) fmt::print("{:<14} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  for (const char* part : {"checkpoint", "summary"}) {
    if (!object.contains(part)) continue;
    fmt::print("{}\n", part);
    for (const auto& [key, value] : object[part].items()) {
      if (value.is_array()) continue;
      fmt::print("  {:<20} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  return 0;
}

int inspect(const InspectOptions& options) {
  if (!options.model.empty()) return inspect_model(options);
  if (options.target.empty()) throw InputError("inspect needs a run, a safetensors file, or --model NAME");
  if (!std::filesystem::is_directory(options.target)) return inspect_files(options, {options.target});
  if (!train::is_checkpoint(options.target)) return inspect_run(options);
  train::verify_checkpoint(options.target);
  return inspect_files(options, train::model_files(train::read_checkpoint_info(options.target)));
}

}  // namespace

void add_inspect(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("inspect", "show what is in a run, a safetensors file, or a model");
  auto o = std::make_shared<InspectOptions>();
  command->add_option("RUN|FILE", o->target, "directory of a run or a checkpoint, or a safetensors file");
  command->add_option("--model", o->model, "measure what each layer of this kind of model costs");
  command->add_option("--set", o->overrides, "with --model: change a setting, e.g. --set model.context=256")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--batch", o->batch, "with --model: samples per batch")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  command->add_option("--repetitions", o->repetitions, "with --model: the median of this many measurements")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_flag("--json", o->json, "print as JSON");
  command->callback([o, choose] { choose([o] { return inspect(*o); }); });
}

}  // namespace rookery::cli
