#include "data/dataset.h"

#include <cmath>
#include <numeric>
#include <set>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "data/sentencepiece.h"
#include "data/tales.h"
#include "data/testing.h"

namespace rookery::data {
namespace {

constexpr Split kSplits[] = {Split::kTrain, Split::kEval, Split::kTest};

std::string big_endian(std::initializer_list<std::uint32_t> words) {
  std::string bytes;
  for (const std::uint32_t word : words) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(word >> shift);
  }
  return bytes;
}

std::string numbers(std::size_t count, std::uint64_t seed, std::uint64_t below = 256) {
  Random random({seed});
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(random.below(below));
  return bytes;
}

void write_mnist(const TestFolder& folder, const std::string& directory, const char* separator) {
  const auto name = [&](const std::string& part, const char* kind) {
    return directory + "/" + part + separator + kind;
  };
  folder.write(name("train-images", "idx3-ubyte"), big_endian({0x803, 40, 5, 4}) + numbers(40 * 20, 1));
  folder.write(name("train-labels", "idx1-ubyte"), big_endian({0x801, 40}) + numbers(40, 2, 10));
  folder.write(name("t10k-images", "idx3-ubyte"), big_endian({0x803, 8, 5, 4}) + numbers(8 * 20, 3));
  folder.write(name("t10k-labels", "idx1-ubyte"), big_endian({0x801, 8}) + numbers(8, 4, 10));
}

std::string cifar_records(std::size_t count, std::uint64_t seed) {
  std::string records;
  for (std::size_t i = 0; i < count; ++i) {
    records += static_cast<char>(i % 10);
    records += numbers(3072, seed + i);
  }
  return records;
}

void write_cifar(const TestFolder& folder, const std::string& directory) {
  for (int i = 1; i <= 5; ++i) {
    folder.write(directory + "/data_batch_" + std::to_string(i) + ".bin", cifar_records(6, 100 * i));
  }
  folder.write(directory + "/test_batch.bin", cifar_records(3, 900));
}

// Tokens that tell their position, as long as there are fewer than 65536.
std::string counting_shard(std::uint16_t begin, std::uint16_t end) {
  std::string bytes;
  for (std::uint32_t i = begin; i < end; ++i) {
    const auto token = static_cast<std::uint16_t>(i);
    bytes.append(reinterpret_cast<const char*>(&token), 2);
  }
  return bytes;
}

// Every kind of data set, in one folder.
class World {
 public:
  World() {
    folder_.write("text.txt", numbers(5000, 7, 128));
    folder_.write("texts/b.txt", numbers(2000, 8, 128));
    folder_.write("texts/a/a.txt", numbers(2001, 9, 128));
    folder_.write("texts/readme.md", "not data");
    folder_.write("tokens.bin", counting_shard(0, 9000));
    folder_.write("shards/1.bin", counting_shard(4000, 9000));
    folder_.write("shards/0.bin", counting_shard(0, 4000));
    write_mnist(folder_, "mnist", "-");
    write_mnist(folder_, "dotted", ".");
    write_cifar(folder_, "cifar");
  }

  DataOptions options(std::string source, Problem problem = Problem::kLanguageModel) const {
    DataOptions options;
    options.source = std::move(source);
    options.problem = problem;
    options.context = 32;
    options.augment = true;
    options.base_directory = folder_.path();
    return options;
  }

  const TestFolder& folder() const { return folder_; }

 private:
  TestFolder folder_;
};

const World& world() {
  static const World instance;
  return instance;
}

bool equal(const Batch& a, const Batch& b) {
  bool same = at::equal(a.targets, b.targets) && a.inputs.size() == b.inputs.size() && a.loss_terms == b.loss_terms;
  for (std::size_t i = 0; same && i < a.inputs.size(); ++i) same = at::equal(a.inputs[i], b.inputs[i]);
  return same;
}

// What every data set promises.
class DatasetContractTest : public testing::TestWithParam<std::pair<const char*, Problem>> {
 protected:
  DataOptions options() const { return world().options(GetParam().first, GetParam().second); }
  std::unique_ptr<Dataset> data_ = open_dataset(options());
};

TEST_P(DatasetContractTest, BatchesHaveTheShapesOfTheInfo) {
  const DataInfo& info = data_->info();
  EXPECT_EQ(info.problem, GetParam().second);
  EXPECT_FALSE(info.description.empty());
  for (const Split split : kSplits) {
    const Batch batch = data_->batch(split, first_places(3));
    EXPECT_EQ(batch.samples, 3);
    EXPECT_EQ(batch.loss_terms, batch.targets.ne(kIgnoredTarget).sum().item<std::int64_t>());
    EXPECT_EQ(batch.tokens, batch.targets.numel());
    EXPECT_EQ(batch.targets.scalar_type(), at::kLong);
    if (info.problem == Problem::kClassification) {
      EXPECT_EQ(batch.inputs[0].sizes(), (std::vector<std::int64_t>{3, info.channels, info.height, info.width}));
      EXPECT_LT(batch.targets.max().item<std::int64_t>(), info.classes);
      continue;
    }
    EXPECT_EQ(batch.targets.sizes(), (std::vector<std::int64_t>{3, info.length}));
    EXPECT_LT(batch.targets.max().item<std::int64_t>(), info.vocabulary);
    EXPECT_EQ(batch.inputs[0].size(1), info.source_length > 0 ? info.source_length : info.length);
    EXPECT_LT(batch.inputs[0].max().item<std::int64_t>(), info.vocabulary);
    EXPECT_GE(batch.inputs[0].min().item<std::int64_t>(), 0);
  }
}

TEST_P(DatasetContractTest, BatchesArePureAndMadeOfSamples) {
  const auto again = open_dataset(options());
  for (const Split split : kSplits) {
    const auto places = first_places(3);
    const Batch batch = data_->batch(split, places);
    EXPECT_TRUE(equal(batch, again->batch(split, places)));
    for (std::int64_t i = 0; i < 3; ++i) {
      const Batch one = data_->batch(split, std::span(places).subspan(i, 1));
      EXPECT_TRUE(at::equal(one.targets[0], batch.targets[i]));
      EXPECT_TRUE(at::equal(one.inputs[0][0], batch.inputs[0][i]));
    }
  }
  EXPECT_EQ(data_->fingerprint(), again->fingerprint());
  EXPECT_EQ(data_->fingerprint().size(), 64u);
}

TEST_P(DatasetContractTest, EvaluationIsFixed) {
  EXPECT_GT(data_->size(Split::kEval), 0u);
  EXPECT_GT(data_->size(Split::kTest), 0u);
  const std::vector<Sampler::Place> later = {{5, 0}, {5, 1}};
  for (const Split split : {Split::kEval, Split::kTest}) {
    EXPECT_TRUE(equal(data_->batch(split, first_places(2)), data_->batch(split, later)));
  }
}

TEST_P(DatasetContractTest, LastSampleIsThere) {
  for (const Split split : kSplits) {
    const std::uint64_t size = data_->size(split);
    const std::vector<Sampler::Place> last = {{3, size == 0 ? std::uint64_t{1} << 40 : size - 1}};
    EXPECT_EQ(data_->batch(split, last).samples, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sources, DatasetContractTest,
    testing::Values(std::pair("tales", Problem::kLanguageModel), std::pair("tales", Problem::kMaskedLanguageModel),
                    std::pair("text.txt", Problem::kLanguageModel), std::pair("texts", Problem::kMaskedLanguageModel),
                    std::pair("tokens.bin", Problem::kLanguageModel), std::pair("shards", Problem::kLanguageModel),
                    std::pair("translation", Problem::kTranslation), std::pair("mnist", Problem::kClassification),
                    std::pair("dotted", Problem::kClassification), std::pair("cifar", Problem::kClassification)));

TEST(TextDatasetTest, TargetsAreTheNextTokens) {
  for (const char* source : {"tales", "text.txt", "tokens.bin"}) {
    const Batch batch = open_dataset(world().options(source))->batch(Split::kTrain, first_places(4));
    EXPECT_TRUE(at::equal(batch.inputs[0].slice(1, 1), batch.targets.slice(1, 0, -1)));
  }
}

// Tokens that count show which ones each split reads.
TEST(TextDatasetTest, SplitsAreDisjointAndAnEpochReadsAlmostEverything) {
  const auto data = open_dataset(world().options("shards"));
  EXPECT_EQ(data->info().vocabulary, 9000);
  EXPECT_EQ(data->tokenizer(), nullptr);
  std::vector<std::set<std::int64_t>> seen(3);
  std::set<std::int64_t> first_tokens;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    for (std::size_t s = 0; s < 3; ++s) {
      std::set<std::int64_t> targets;
      for (std::uint64_t i = 0; i < data->size(kSplits[s]); ++i) {
        const std::vector<Sampler::Place> place = {{epoch, i}};
        const Batch batch = data->batch(kSplits[s], place);
        const std::int64_t first = batch.inputs[0][0][0].item<std::int64_t>();
        if (s == 0 && i == 0) first_tokens.insert(first);
        for (std::int64_t t = 0; t < 32; ++t) {
          EXPECT_EQ(batch.targets[0][t].item<std::int64_t>(), first + t + 1);
          EXPECT_TRUE(targets.insert(first + t + 1).second);  // once per epoch
        }
        seen[s].insert(first);
      }
      seen[s].insert(targets.begin(), targets.end());
      EXPECT_GE(targets.size(), (s == 0 ? 8100 : 450) - 65);
    }
  }
  EXPECT_GT(first_tokens.size(), 1u);
  EXPECT_LT(*seen[0].rbegin(), 8100);
  EXPECT_GE(*seen[1].begin(), 8100);
  EXPECT_LT(*seen[1].rbegin(), 8550);
  EXPECT_GE(*seen[2].begin(), 8550);
}

TEST(TextDatasetTest, ShortestTextGivesOneSamplePerSplit) {
  world().folder().write("short.txt", numbers(3 * 33, 1, 128));
  const auto data = open_dataset(world().options("short.txt"));
  for (const Split split : kSplits) EXPECT_EQ(data->size(split), 1u);
  EXPECT_EQ(data->batch(Split::kTrain, first_places(1)).samples, 1);
}

TEST(TextDatasetTest, DirectoryIsReadInOrderOfNames) {
  const auto data = open_dataset(world().options("texts"));
  const Batch batch = data->batch(Split::kTest, first_places(1));
  const std::string all = numbers(2001, 9, 128) + "\n\n" + numbers(2000, 8, 128);
  EXPECT_EQ(batch.inputs[0][0][0].item<std::int64_t>(), all[4003 - 4003 / 20]);
}

TEST(FingerprintTest, FollowsWhatBatchesDependOn) {
  std::set<std::string> prints;
  auto options = world().options("text.txt");
  prints.insert(open_dataset(options)->fingerprint());
  options.context = 31;
  prints.insert(open_dataset(options)->fingerprint());
  options.seed = 2;
  prints.insert(open_dataset(options)->fingerprint());
  options.problem = Problem::kMaskedLanguageModel;
  prints.insert(open_dataset(options)->fingerprint());
  options.source = "texts";
  prints.insert(open_dataset(options)->fingerprint());
  EXPECT_EQ(prints.size(), 5u);
}

TEST(TalesDatasetTest, FloorIsTheMeanInformationOfTheEvaluationSamples) {
  const auto data = open_dataset(world().options("tales"));
  const Tales tales;
  const Batch batch = data->batch(Split::kEval, first_places(256));
  double nats = 0;
  for (std::int64_t i = 0; i < 256; ++i) {
    const at::Tensor last = batch.targets[i].slice(0, 31), row = at::cat({batch.inputs[0][i], last});
    std::vector<Token> tokens;
    for (std::int64_t t = 0; t < 33; ++t) tokens.push_back(static_cast<Token>(row[t].item<std::int64_t>()));
    nats += tales.information(data->tokenizer()->decode(tokens), 1);
  }
  ASSERT_TRUE(data->entropy_floor(256));
  EXPECT_NEAR(*data->entropy_floor(256), nats / (256 * 32), 1e-9);
}

TEST(TalesDatasetTest, FloorsOfBytesAndPiecesAreOfTheSameText) {
  const Tales tales;
  std::string text;
  for (std::uint64_t i = 0; i < 100; ++i) text += tales.story(1, i) + "\n\n";
  const std::vector<std::filesystem::path> texts = {world().folder().write("learn.txt", text)};
  train_sentencepiece(texts, 450, world().folder().path() / "tales");
  auto options = world().options("tales");
  options.context = 600;
  const double per_byte = *open_dataset(options)->entropy_floor(256);
  options.tokenizer = "sentencepiece:tales.model";
  options.context = 200;
  const auto pieces = open_dataset(options);
  ASSERT_TRUE(pieces->entropy_floor(256));
  const double bytes_per_token = *pieces->entropy_floor(256) / per_byte;
  EXPECT_GT(bytes_per_token, 2);
  EXPECT_LT(bytes_per_token, 6);
}

TEST(MaskedDatasetTest, MasksDifferInEveryEpoch) {
  const auto data = open_dataset(world().options("text.txt", Problem::kMaskedLanguageModel));
  EXPECT_EQ(data->info().vocabulary, 257);
  EXPECT_EQ(data->info().mask_token, 256);
  EXPECT_FALSE(data->entropy_floor(256));
  const std::vector<Sampler::Place> first = {{0, 0}}, second = {{1, 0}};
  EXPECT_FALSE(equal(data->batch(Split::kTrain, first), data->batch(Split::kTrain, second)));
}

TEST(ImageDatasetTest, PixelsAreNormalisedAndSplitsFollowTheFiles) {
  const auto data = open_dataset(world().options("mnist", Problem::kClassification));
  EXPECT_EQ(data->size(Split::kTrain), 36u);
  EXPECT_EQ(data->size(Split::kEval), 4u);
  EXPECT_EQ(data->size(Split::kTest), 8u);
  const Batch batch = data->batch(Split::kEval, first_places(4));
  const std::string pixels = numbers(40 * 20, 1), labels = numbers(40, 2, 10);
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batch.targets[i].item<std::int64_t>(), labels[36 + i]);
    for (std::int64_t p = 0; p < 20; ++p) {
      const double pixel = static_cast<unsigned char>(pixels[(36 + i) * 20 + p]);
      EXPECT_NEAR(batch.inputs[0][i].flatten()[p].item<double>(), (pixel / 255 - 0.1307) / 0.3081, 1e-5);
    }
  }
}

TEST(ImageDatasetTest, AugmentationShiftsAndMirrorsTrainingImagesOnly) {
  auto options = world().options("cifar", Problem::kClassification);
  const auto augmented = open_dataset(options);
  options.augment = false;
  const auto plain = open_dataset(options);
  EXPECT_TRUE(equal(augmented->batch(Split::kEval, first_places(2)), plain->batch(Split::kEval, first_places(2))));

  const at::Tensor original = plain->batch(Split::kTrain, first_places(1)).inputs[0][0];
  const double black = -0.4914 / 0.2470;
  std::set<std::tuple<int, int, bool>> views;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    const std::vector<Sampler::Place> place = {{epoch, 0}};
    const at::Tensor image = augmented->batch(Split::kTrain, place).inputs[0][0];
    for (const bool mirrored : {false, true}) {
      const at::Tensor turned = mirrored ? image.flip(2) : image;
      for (int down = -4; down <= 4; ++down) {
        for (int right = -4; right <= 4; ++right) {
          const at::Tensor here = turned.slice(1, std::max(0, -down), 32 - std::max(0, down))
                                      .slice(2, std::max(0, -right), 32 - std::max(0, right));
          const at::Tensor there = original.slice(1, std::max(0, down), 32 - std::max(0, -down))
                                       .slice(2, std::max(0, right), 32 - std::max(0, -right));
          if (!at::equal(here, there)) continue;
          views.insert({down, right, mirrored});
          if (down > 0) {
            EXPECT_NEAR(turned[0][31][16].item<double>(), black, 1e-5);
          }
        }
      }
    }
  }
  EXPECT_GT(views.size(), 10u);
}

TEST(DatasetErrorTest, WrongSourcesAreExplained) {
  const auto open = [](const char* source, Problem problem = Problem::kLanguageModel) {
    return [source, problem] { open_dataset(world().options(source, problem)); };
  };
  EXPECT_THAT(open(""), throws_input_error("data.source"));
  EXPECT_THAT(open("none.txt"), throws_input_error("data.source", "none.txt", "does not exist"));
  EXPECT_THAT(open("mnist"), throws_input_error("data.source", "mnist", "images"));
  EXPECT_THAT(open("tales", Problem::kClassification), throws_input_error("data.source", "tales", "get_data.sh"));
  EXPECT_THAT(open("texts", Problem::kClassification), throws_input_error("data.source", "texts", "MNIST"));
  EXPECT_THAT(open("tales", Problem::kTranslation), throws_input_error("data.source", "translation"));
  EXPECT_THAT(open("translation"), throws_input_error("data.source", "seq2seq"));
  std::filesystem::create_directories(world().folder().path() / "empty");
  EXPECT_THAT(open("empty"), throws_input_error("data.source", "empty", ".txt"));
  world().folder().write("mixed/a.txt", "text");
  world().folder().write("mixed/a.bin", "text");
  EXPECT_THAT(open("mixed"), throws_input_error("data.source", "mixed", "both"));
}

TEST(DatasetErrorTest, BadTextIsExplained) {
  const auto open = [](const char* source) { return [source] { open_dataset(world().options(source)); }; };
  world().folder().write("nothing.txt", "");
  EXPECT_THAT(open("nothing.txt"), throws_input_error("nothing.txt", "0 tokens", "33"));
  world().folder().write("brief.txt", numbers(98, 1, 128));
  EXPECT_THAT(open("brief.txt"), throws_input_error("brief.txt", "98 tokens", "33", "model.context to 31"));
  world().folder().write("odd.bin", "abc");
  EXPECT_THAT(open("odd.bin"), throws_input_error("odd.bin", "3 bytes"));
  world().folder().write("empty.bin", "");
  EXPECT_THAT(open("empty.bin"), throws_input_error("empty.bin", "0 tokens"));
  auto options = world().options("text.txt");
  options.context = 0;
  EXPECT_THAT([&] { open_dataset(options); }, throws_input_error("model.context"));
  options.context = 16;
  options.tokenizer = "sentencepiece:text.txt";
  EXPECT_THAT([&] { open_dataset(options); }, throws_input_error("data.tokenizer", "text.txt"));
}

TEST(DatasetErrorTest, TokensMustBeInTheVocabulary) {
  const Tales tales;
  std::string text;
  for (std::uint64_t i = 0; i < 50; ++i) text += tales.story(1, i) + "\n";
  const std::vector<std::filesystem::path> texts = {world().folder().write("few.txt", text)};
  train_sentencepiece(texts, 400, world().folder().path() / "few");
  auto options = world().options("tokens.bin");
  options.tokenizer = "sentencepiece:few.model";
  EXPECT_THAT([&] { open_dataset(options); }, throws_input_error("tokens.bin", "8999", "few.model", "400"));
}

class BadImagesTest : public testing::Test {
 protected:
  // Opens MNIST or CIFAR-10 after one file was replaced.
  auto opening(const char* set, const char* file, const std::string& content) {
    write_mnist(folder_, "mnist", "-");
    write_cifar(folder_, "cifar");
    folder_.write(std::string(set) + "/" + file, content);
    return [this, set] {
      DataOptions options;
      options.source = set;
      options.problem = Problem::kClassification;
      options.base_directory = folder_.path();
      open_dataset(options);
    };
  }
  TestFolder folder_;
};

TEST_F(BadImagesTest, NamesTheFile) {
  const char *images = "train-images-idx3-ubyte", *labels = "train-labels-idx1-ubyte", *test = "t10k-images-idx3-ubyte";
  EXPECT_THAT(opening("mnist", images, ""), throws_input_error(images, "IDX"));
  EXPECT_THAT(opening("mnist", images, big_endian({0x803, 40})), throws_input_error(images, "IDX"));
  EXPECT_THAT(opening("mnist", images, big_endian({0x1f8b0800, 40, 5, 4})), throws_input_error(images, "IDX"));
  EXPECT_THAT(opening("mnist", images, big_endian({0x803, 40, 5, 4}) + numbers(40 * 20 - 1, 1)),
              throws_input_error(images, "815", "816"));
  EXPECT_THAT(opening("mnist", images, big_endian({0x803, 0xffffffff, 4096, 4096})),
              throws_input_error(images, "promises"));
  EXPECT_THAT(opening("mnist", images, big_endian({0x803, 40, 0xffffffff, 0xffffffff})),
              throws_input_error(images, "cannot be"));
  EXPECT_THAT(opening("mnist", images, big_endian({0x803, 0, 5, 4})), throws_input_error(images, "0 images"));
  EXPECT_THAT(opening("mnist", labels, big_endian({0x801, 39}) + numbers(39, 2, 10)),
              throws_input_error(labels, "39", "40"));
  EXPECT_THAT(opening("mnist", labels, big_endian({0x801, 40}) + numbers(10, 2, 10)),
              throws_input_error(labels, "18", "48"));
  EXPECT_THAT(opening("mnist", labels, big_endian({0x801, 40}) + std::string(40, '\x0a')),
              throws_input_error(labels, "label 10"));
  EXPECT_THAT(opening("mnist", test, big_endian({0x803, 8, 4, 5}) + numbers(8 * 20, 3)),
              throws_input_error("mnist", "4 x 5"));
  EXPECT_THAT(opening("cifar", "data_batch_3.bin", cifar_records(2, 1) + "x"), throws_input_error("data_batch_3.bin"));
  EXPECT_THAT(opening("cifar", "test_batch.bin", ""), throws_input_error("test_batch.bin"));
  EXPECT_THAT(opening("cifar", "data_batch_1.bin", std::string(3073, '\x7f')),
              throws_input_error("data_batch_1.bin", "label 127"));
  const auto open_without = opening("cifar", "data_batch_1.bin", cifar_records(4, 1));
  std::filesystem::remove(folder_.path() / "cifar" / "data_batch_4.bin");
  EXPECT_THAT(open_without, throws_input_error("data_batch_4.bin"));
}

}  // namespace
}  // namespace rookery::data
