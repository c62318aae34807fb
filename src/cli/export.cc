#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/trained_model.h"
#include "tensor/safetensors.h"

namespace rookery::cli {
namespace {

struct ExportOptions {
  std::string run, file;
  bool json = false;
};

int export_model(const ExportOptions& options) {
  const Trained trained = find_trained(options.run);
  const TrainedModel whole(trained);
  std::vector<NamedTensor> tensors;
  for (const Parameter& entry : whole.store->entries()) tensors.push_back({entry.spec().name, entry.tensor()});
  const std::filesystem::path file = options.file, temporary = options.file + ".tmp";
  try {
    write_safetensors(temporary, tensors,
                      {{"format", "pt"},
                       {"rookery.model", config::to_json(trained.settings)["model"].dump()},
                       {"rookery.tokenizer", trained.settings.data.tokenizer},
                       {"rookery.step", std::to_string(trained.checkpoint.position.step)}});
    std::filesystem::rename(temporary, file);
  } catch (const std::exception& e) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    if (dynamic_cast<const Error*>(&e) != nullptr) throw;
    throw InputError("{}: cannot write: {}", options.file, e.what());
  }
  const auto bytes = static_cast<Bytes>(std::filesystem::file_size(file));
  if (options.json) {
    print_json({{"file", options.file}, {"bytes", bytes}, {"tensors", tensors.size()}});
  } else {
    fmt::print("{}: {} tensors, {}, the model after step {}\n", options.file, tensors.size(), format_bytes(bytes),
               trained.checkpoint.position.step);
  }
  return 0;
}

}  // namespace

void add_export(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("export", "write a run's model to one safetensors file");
  auto o = std::make_shared<ExportOptions>();
  command->add_option("RUN", o->run, "directory of the run")->required();
  command->add_option("FILE", o->file, "the file to write, e.g. model.safetensors")->required();
  command->add_flag("--json", o->json, "print what was written as JSON");
  command->callback([o, choose] { choose([o] { return export_model(*o); }); });
}

}  // namespace rookery::cli
