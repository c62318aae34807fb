#include "data/tokenizer.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/sentencepiece.h"
#include "data/tales.h"
#include "data/testing.h"

namespace rookery::data {
namespace {

constexpr std::string_view kAnyText = "  Two  spaces,\ta tab, na\xc3\xafve \xe2\x82\xac\n\n\nand lines \xff\n";

TEST(ByteTokenizerTest, AnyTextSurvives) {
  const auto tokenizer = open_tokenizer("bytes");
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(kAnyText)), kAnyText);
  EXPECT_EQ(tokenizer->encode("\xff"), std::vector<Token>{255});
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{-1, 'a', 256}), "a");
}

class SentencePieceTest : public testing::TestWithParam<SentencePieceKind> {
 protected:
  TestFolder folder_;
};

TEST_P(SentencePieceTest, LearnsAVocabularyThatLosesNothing) {
  const Tales tales;
  std::string text;
  for (std::uint64_t i = 0; i < 200; ++i) text += tales.story(1, i) + "\n\n";
  const std::vector<std::filesystem::path> texts = {folder_.write("tales.txt", text)};

  const auto model = train_sentencepiece(texts, 500, folder_.path() / "small", GetParam());
  const auto tokenizer = open_tokenizer("sentencepiece:small.model", folder_.path());

  EXPECT_TRUE(exists(model));
  EXPECT_EQ(tokenizer->vocabulary(), 500);
  const std::string_view valid = kAnyText.substr(0, kAnyText.find('\xff'));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(valid)), valid);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_LT(tokenizer->encode(text).size(), text.size() / 2);
  EXPECT_EQ(tokenizer->decode(std::vector<Token>{-1, 500}), "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePieceTest,
                         testing::Values(SentencePieceKind::kBpe, SentencePieceKind::kUnigram));

TEST(TokenizerErrorTest, SaysWhatIsWrong) {
  const TestFolder folder;
  folder.write("bad.model", "this is no model at all");
  folder.write("empty.model", "");
  EXPECT_THAT([&] { open_tokenizer("words"); }, throws_input_error("data.tokenizer", "words", "sentencepiece:FILE"));
  EXPECT_THAT([&] { open_tokenizer("sentencepiece:"); }, throws_input_error("data.tokenizer"));
  EXPECT_THAT([&] { open_tokenizer("sentencepiece:bad.model", folder.path()); }, throws_input_error("bad.model"));
  EXPECT_THAT([&] { open_tokenizer("sentencepiece:empty.model", folder.path()); }, throws_input_error("empty.model"));
  EXPECT_THAT([&] { open_tokenizer("sentencepiece:none.model", folder.path()); }, throws_input_error("none.model"));
}

TEST(TokenizerErrorTest, TrainingNeedsText) {
  const TestFolder folder;
  const std::vector<std::filesystem::path> none, missing = {folder.path() / "none.txt"},
                                                 empty = {folder.write("empty.txt", "")},
                                                 tiny = {folder.write("tiny.txt", "a b c\n")};
  const auto prefix = folder.path() / "model";
  EXPECT_THAT([&] { train_sentencepiece(none, 500, prefix); }, throws_input_error("text"));
  EXPECT_THAT([&] { train_sentencepiece(missing, 500, prefix); }, throws_input_error("none.txt"));
  EXPECT_THAT([&] { train_sentencepiece(empty, 500, prefix); }, throws_input_error("empty.txt"));
  EXPECT_THAT([&] { train_sentencepiece(tiny, 5000, prefix); }, throws_input_error("model", "5000"));
  EXPECT_THAT([&] { train_sentencepiece(tiny, 10, prefix); }, throws_input_error("model", "10"));
  EXPECT_THAT([&] { train_sentencepiece(tiny, -3, prefix); }, throws_input_error("model", "-3"));
  EXPECT_THAT([&] { train_sentencepiece(tiny, 300, folder.path() / "no" / "folder"); }, throws_input_error("folder"));
}

}  // namespace
}  // namespace rookery::data
