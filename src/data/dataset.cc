#include "data/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "data/image_dataset.h"
#include "data/image_files.h"
#include "data/tales_dataset.h"
#include "data/text_dataset.h"
#include "data/translation.h"

namespace rookery::data {
namespace {

using std::filesystem::path;

// All files below a directory with an extension, sorted by name.
std::vector<path> files_below(const path& directory, const std::string& extension) {
  std::vector<path> files;
  try {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (entry.is_regular_file() && entry.path().extension() == extension) files.push_back(entry.path());
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw InputError("data.source: cannot read {}: {}", directory.string(), error.code().message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::unique_ptr<Dataset> open_text_directory(const DataOptions& options, const path& directory) {
  if (holds_images(directory)) {
    throw InputError("data.source: {} holds images, but model.kind needs text; use a model for images such as \"cnn\"",
                     directory.string());
  }
  const auto texts = files_below(directory, ".txt"), shards = files_below(directory, ".bin");
  if (!texts.empty() && !shards.empty()) {
    throw InputError("data.source: {} holds both .txt and .bin files; name a directory with one kind",
                     directory.string());
  }
  if (texts.empty() && shards.empty()) {
    throw InputError("data.source: {} holds no .txt or .bin file; put text there or name another directory",
                     directory.string());
  }
  return shards.empty() ? open_texts(options, texts) : open_shards(options, shards);
}

std::unique_ptr<Dataset> open_images_or_explain(const DataOptions& options, const path& source) {
  if (!is_directory(source)) {
    throw InputError(
        "data.source: model.kind needs images, but \"{}\" is not a directory of MNIST or CIFAR-10 files; "
        "'scripts/get_data.sh mnist' fetches MNIST into data/mnist",
        options.source);
  }
  return open_image_dataset(options, source);
}

}  // namespace

bool is_built_in(std::string_view source) { return source == "tales" || source == "translation"; }

std::unique_ptr<Dataset> open_dataset(const DataOptions& options) {
  const path source = options.base_directory / options.source;
  if (options.source.empty()) throw InputError("data.source: is empty; use \"tales\" or name a file or directory");
  if (options.problem == Problem::kTranslation) {
    if (options.source == "translation") return open_translation(options);
    throw InputError("data.source: is \"{}\", but model.kind translates; use \"translation\"", options.source);
  }
  if (options.problem == Problem::kClassification) return open_images_or_explain(options, source);
  if (options.source == "tales") return open_tales(options);
  if (options.source == "translation") {
    throw InputError(
        "data.source: \"translation\" is for model.kind = \"seq2seq\" or \"transformer-base\"; use \"tales\" "
        "or name a text");
  }
  if (!exists(source)) {
    throw InputError("data.source: {} does not exist; use \"tales\" or name a text file or directory", source.string());
  }
  if (is_directory(source)) return open_text_directory(options, source);
  const std::vector<path> files = {source};
  return source.extension() == ".bin" ? open_shards(options, files) : open_texts(options, files);
}

std::vector<Sampler::Place> first_places(std::uint64_t count) {
  std::vector<Sampler::Place> places(count);
  for (std::uint64_t i = 0; i < count; ++i) places[i].index = i;
  return places;
}

}  // namespace rookery::data
