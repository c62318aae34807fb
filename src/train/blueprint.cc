#include "train/blueprint.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "train/make_method.h"
#include "train/setup.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSentencePiece = "sentencepiece:";
constexpr std::string_view kSourceFolder = "source", kTokenizerFolder = "tokenizer";

// A path in the settings, so that it can be found from elsewhere too.
std::string absolute(const std::string& path) {
  return fs::exists(path) ? fs::absolute(path).lexically_normal().string() : path;
}

// Where the tokenizer is, if it is a file.
std::optional<fs::path> tokenizer_file(const config::Data& data) {
  if (!data.tokenizer.starts_with(kSentencePiece)) return {};
  return data.tokenizer.substr(kSentencePiece.size());
}

config::Data with_absolute_paths(config::Data data) {
  if (!data::is_built_in(data.source)) data.source = absolute(data.source);
  if (const auto file = tokenizer_file(data)) data.tokenizer = std::string(kSentencePiece) + absolute(file->string());
  return data;
}

config::Model with_sizes(config::Model model, const model::ModelOptions& o) {
  model.layers = o.layers;
  model.width = o.width;
  model.heads = o.heads;
  model.hidden = o.hidden;
  model.context = o.context;
  model.vocabulary = o.vocabulary;
  model.classes = o.classes;
  model.channels = o.channels;
  model.image_size = o.image_size;
  model.stem = o.stem;
  return model;
}

// Vectors as long as the parameters that each kind of optimizer keeps.
std::size_t optimizer_vectors(const config::Train& train) {
  if (train.optimizer == "sgd") return train.momentum > 0 ? 1 : 0;
  return train.optimizer.starts_with("accum") ? 3 : 2;
}

// The same of each method: anchor, outer momentum, what is on its way, what the copy was when a round began that does
// not hold training up, what a codec lost; and the average of an evaluation.
std::size_t method_vectors(const config::Sync& sync, std::size_t clusters, bool holds_up) {
  const std::size_t averaged = clusters > 1 ? 1 : 0, lost = sync.codec != "none" ? averaged : 0;
  const std::size_t before = holds_up || sync.delay > 0 ? 0 : 1;
  if (sync.method == "diloco" || sync.method == "palsgd") return 3 + before + lost + averaged;
  if (sync.method == "local-sgd") return 1 + before + 2 * lost + averaged;
  return (sync.method == "gossip" ? 1 : 0) + lost + averaged;
}

}  // namespace

Blueprint make_blueprint(config::Settings settings) {
  Blueprint blueprint;
  blueprint.data = open_data(settings);
  blueprint.data_fingerprint = blueprint.data->fingerprint();
  const model::ModelOptions options = fitted_model(settings, blueprint.data->info());
  blueprint.model = model::build_model(options);
  settings.model = with_sizes(settings.model, options);
  settings.data = with_absolute_paths(settings.data);
  blueprint.settings = std::move(settings);
  return blueprint;
}

std::string fingerprint(const model::Model& model) {
  std::string text = model.kind();
  for (const auto& parameters : {model.parameters(), model.buffers()}) {
    for (const Parameter& parameter : parameters) {
      const ParameterSpec& spec = parameter.spec();
      text += fmt::format("\n{} [{}] {} {} {}", spec.name, fmt::join(spec.shape, ","),
                          static_cast<int>(spec.initializer.kind), spec.initializer.value, spec.decay);
    }
  }
  return digest(std::as_bytes(std::span(text)));
}

plan::Keeping keeping_of(const config::Settings& settings, std::size_t clusters, plan::Schedule schedule) {
  plan::Keeping keeping{.versions = plan::parse_versions(settings.pipeline.weights),
                        .optimizer_values = optimizer_vectors(settings.train)};
  if (settings.swarm.peers == 1) return keeping;
  keeping.method_values = method_vectors(settings.sync, clusters, plan::is_synchronous(schedule));
  // So that others may be lost: what it brings to a round, to begin anew, and the last results, of training and beside.
  const bool has_results = settings.sync.method != "none" && settings.sync.method != "gossip";
  if (clusters > 1 && can_change(settings)) keeping.method_values += has_results ? 3 : 2;
  return keeping;
}

std::vector<DataFile> data_files(const config::Data& data) {
  std::vector<DataFile> files;
  const auto add = [&](std::string_view folder, const fs::path& root, const fs::path& path) {
    const fs::path name = path == root ? path.filename() : path.lexically_relative(root);
    files.push_back({fmt::format("{}/{}", folder, name.string()), path});
  };
  if (const auto file = tokenizer_file(data)) add(kTokenizerFolder, *file, *file);
  if (data::is_built_in(data.source)) return files;
  const fs::path source(data.source);
  if (!fs::is_directory(source)) {
    add(kSourceFolder, source, source);
  } else {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source)) {
      const fs::path name = entry.path().lexically_relative(source);
      const bool hidden =
          std::ranges::any_of(name, [](const fs::path& part) { return part.string().starts_with('.'); });
      if (entry.is_regular_file() && !hidden) add(kSourceFolder, source, entry.path());
    }
  }
  std::ranges::sort(files, {}, &DataFile::name);
  return files;
}

config::Data relocated(config::Data data, const fs::path& folder) {
  if (const auto file = tokenizer_file(data)) {
    data.tokenizer = std::string(kSentencePiece) + (folder / kTokenizerFolder / file->filename()).string();
  }
  if (data::is_built_in(data.source)) return data;
  const fs::path source = folder / kSourceFolder;
  const fs::path as_file = source / fs::path(data.source).filename();
  data.source = fs::is_regular_file(as_file) ? as_file.string() : source.string();
  return data;
}

}  // namespace rookery::train
