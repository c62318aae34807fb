#include "data/translation.h"

#include <map>
#include <set>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "data/testing.h"

namespace rookery::data {
namespace {

DataOptions options() {
  DataOptions options;
  options.source = "translation";
  options.problem = Problem::kTranslation;
  return options;
}

std::string row_text(const Dataset& data, const at::Tensor& row) {
  std::vector<Token> tokens;
  for (std::int64_t i = 0; i < row.numel(); ++i) tokens.push_back(static_cast<Token>(row[i].item<std::int64_t>()));
  return data.tokenizer()->decode(tokens);
}

TEST(TranslationTest, ASentenceHasOneTranslation) {
  std::map<std::string, std::string> known;
  Random random({1});
  for (int i = 0; i < 50000; ++i) {
    const SentencePair pair = draw_sentence(random);
    EXPECT_EQ(known.emplace(pair.source, pair.target).first->second, pair.target);
  }
}

TEST(TranslationTest, PaddingLengthsAndTargetsFitTogether) {
  const auto data = open_dataset(options());
  const Batch batch = data->batch(Split::kTrain, first_places(50));
  const auto& [source, target_in, lengths] = std::tie(batch.inputs[0], batch.inputs[1], batch.inputs[2]);
  for (std::int64_t i = 0; i < 50; ++i) {
    const std::int64_t length = lengths[i].item<std::int64_t>();
    EXPECT_EQ(source[i][length - 1].item<std::int64_t>(), data->info().end_token);
    EXPECT_EQ(source[i].slice(0, length).abs().sum().item<std::int64_t>(), 0);
    EXPECT_GT(source[i].slice(0, 0, length).min().item<std::int64_t>(), 0);
    EXPECT_EQ(target_in[i][0].item<std::int64_t>(), data->info().begin_token);
    const std::int64_t terms = batch.targets[i].ne(kIgnoredTarget).sum().item<std::int64_t>();
    EXPECT_EQ(batch.targets[i][terms - 1].item<std::int64_t>(), data->info().end_token);
    EXPECT_TRUE(at::equal(target_in[i].slice(0, 1, terms), batch.targets[i].slice(0, 0, terms - 1)));
  }
  EXPECT_EQ(data->entropy_floor(256), 0);
}

TEST(TranslationTest, SplitsShareNoSentence) {
  const auto data = open_dataset(options());
  std::set<std::string> train;
  const Batch seen = data->batch(Split::kTrain, first_places(3000));
  for (std::int64_t i = 0; i < 3000; ++i) train.insert(row_text(*data, seen.inputs[0][i]));
  const Batch eval = data->batch(Split::kEval, first_places(256)), test = data->batch(Split::kTest, first_places(256));
  std::set<std::string> evals;
  for (std::int64_t i = 0; i < 256; ++i) evals.insert(row_text(*data, eval.inputs[0][i]));
  for (std::int64_t i = 0; i < 256; ++i) EXPECT_FALSE(evals.contains(row_text(*data, test.inputs[0][i])));
  for (const auto& sentence : evals) EXPECT_FALSE(train.contains(sentence)) << sentence;
}

TEST(TranslationTest, WordsSurviveTheTokenizer) {
  const auto data = open_dataset(options());
  Random random({2});
  for (int i = 0; i < 200; ++i) {
    const SentencePair pair = draw_sentence(random);
    for (const auto& text : {pair.source, pair.target}) {
      EXPECT_EQ(data->tokenizer()->decode(data->tokenizer()->encode(text)), text);
    }
  }
  EXPECT_THAT([&] { data->tokenizer()->encode("the unicorn"); }, throws_input_error("unicorn"));
}

TEST(TranslationTest, NeedsRoomForItsSentences) {
  DataOptions small = options();
  small.context = 8;
  EXPECT_THAT([&] { open_dataset(small); }, throws_input_error("model.context", "8", "13"));
}

}  // namespace
}  // namespace rookery::data
