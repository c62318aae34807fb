#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/sampler.h"
#include "data/tokenizer.h"
#include "tensor/batch.h"

namespace rookery::data {

// The three parts of a data set never overlap.
enum class Split { kTrain, kEval, kTest };

using rookery::Problem;

// The facts of a data set that shape a model. What does not apply is 0, a token that does not exist is -1.
struct DataInfo {
  Problem problem = Problem::kLanguageModel;
  std::string description;  // for people: "tales, 256 tokens (bytes)"

  // Text. All samples of a data set have the same shape.
  std::int64_t vocabulary = 0;     // with the special tokens below
  std::int64_t length = 0;         // T: target positions per sample
  std::int64_t source_length = 0;  // S: positions of a sentence to translate
  std::int64_t mask_token = -1;
  std::int64_t begin_token = -1;  // opens the input of a translation's decoder
  std::int64_t end_token = -1;    // closes both sentences

  // Images.
  std::int64_t classes = 0;
  std::int64_t channels = 0, height = 0, width = 0;
};

// Samples by number. Everything is a pure function of the options the set was opened with, and may be called from any
// thread.
//
// What a batch of B samples holds:
//   kLanguageModel        inputs {tokens (B, T)}, targets (B, T): each token's successor
//   kMaskedLanguageModel  inputs {tokens (B, T), some masked}, targets (B, T): the original where masked, else ignored
//   kTranslation          inputs {source (B, S), target so far (B, T), source lengths (B)}, targets (B, T); sentences
//                         are padded with token 0, targets with kIgnoredTarget
//   kClassification       inputs {images (B, C, H, W), float, normalised}, targets (B)
// Tokens and targets are int64.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const DataInfo& info() const = 0;

  // The number of samples. Training data may be endless, which is 0; the other splits are finite and fixed.
  virtual std::uint64_t size(Split split) const = 0;

  // Requires: places is not empty, and each index is below size(split) unless the split is endless. The epoch matters
  // for training only (where windows begin, what is masked, how images are augmented).
  virtual Batch batch(Split split, std::span<const Sampler::Place> places) const = 0;

  // The loss that no model can beat on the first `samples` evaluation samples (all, if there are fewer): nats per loss
  // term. Only where it can be computed.
  virtual std::optional<double> entropy_floor(std::uint64_t /*samples*/) const { return std::nullopt; }

  // nullptr where there is no text to make of tokens.
  virtual const Tokenizer* tokenizer() const { return nullptr; }

  // A digest, equal on two peers exactly if their batches are equal. Large files are compared by their sizes and by
  // blocks spread over them.
  virtual std::string fingerprint() const = 0;
};

struct DataOptions {
  // "tales", "translation", a text file, a directory of *.txt, a .bin of uint16 tokens or a directory of such, a
  // directory with MNIST (IDX) or CIFAR-10 (binary) files.
  std::string source = "tales";
  std::string tokenizer = "bytes";
  Problem problem = Problem::kLanguageModel;
  std::int64_t context = 128;
  std::uint64_t seed = 1;
  double mask_probability = 0.15;        // kMaskedLanguageModel
  bool augment = false;                  // CIFAR-10: shift by up to 4 pixels and mirror training images
  std::filesystem::path base_directory;  // what relative paths start from; empty: the working directory
};

// Whether a source is generated: its name is no path, even where a file is called the same.
bool is_built_in(std::string_view source);

// Throws InputError naming the key and the file if the source is missing, damaged, too short, or not for the problem.
std::unique_ptr<Dataset> open_dataset(const DataOptions& options);

// The first `count` places of a split that is fixed: 0, 1, 2, …
std::vector<Sampler::Place> first_places(std::uint64_t count);

}  // namespace rookery::data
