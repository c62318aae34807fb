#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "data/sentencepiece.h"

namespace rookery::cli {
namespace {

struct TokenizerOptions {
  std::vector<std::string> texts;
  std::int64_t vocabulary = 4096;
  std::string out = "tokenizer";
  std::string kind = "bpe";
  bool json = false;
};

int train_tokenizer(const TokenizerOptions& o) {
  const std::vector<std::filesystem::path> texts(o.texts.begin(), o.texts.end());
  fmt::print(stderr, "learning {} pieces from {} file(s)…\n", o.vocabulary, texts.size());
  const auto kind = o.kind == "bpe" ? data::SentencePieceKind::kBpe : data::SentencePieceKind::kUnigram;
  const std::filesystem::path model = data::train_sentencepiece(texts, o.vocabulary, o.out, kind);
  if (o.json) {
    print_json({{"model", model.string()}, {"vocabulary", o.vocabulary}});
  } else {
    fmt::print("{}\nuse it with: --set data.tokenizer=sentencepiece:{}\n", model.string(), model.string());
  }
  return 0;
}

}  // namespace

void add_data(CLI::App& app, const Choose& choose) {
  CLI::App* data = app.add_subcommand("data", "tools for data sets");
  data->require_subcommand(1);
  CLI::App* command = data->add_subcommand("tokenizer", "learn a SentencePiece tokenizer from text files");
  auto o = std::make_shared<TokenizerOptions>();
  command->add_option("TEXT", o->texts, "text files to learn from")->required();
  command->add_option("--vocabulary", o->vocabulary, "number of pieces")
      ->capture_default_str()
      ->check(CLI::Range(300, 65536));
  command->add_option("--out", o->out, "writes OUT.model and OUT.vocab")->capture_default_str();
  command->add_option("--kind", o->kind, "bpe or unigram")
      ->capture_default_str()
      ->check(CLI::IsMember({"bpe", "unigram"}));
  command->add_flag("--json", o->json, "print the result as JSON");
  command->callback([o, choose] { choose([o] { return train_tokenizer(*o); }); });
}

}  // namespace rookery::cli
