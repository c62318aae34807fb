#include "data/sentencepiece.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/file.h"
#include "data/plugin/sentencepiece_plugin.h"

namespace rookery::data {
namespace {

const SentencePiecePlugin& load_plugin() {
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "librookery_sentencepiece.so";
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) {
    throw InputError("data.tokenizer: SentencePiece is not installed with this program ({}); use \"bytes\"",
                     ::dlerror());
  }
  const void* plugin = ::dlsym(library, kSentencePiecePluginName);
  ROOKERY_CHECK(plugin != nullptr, "{}", file.string());
  return *static_cast<const SentencePiecePlugin*>(plugin);
}

// Loaded at first use, and never unloaded.
const SentencePiecePlugin& plugin() {
  static const SentencePiecePlugin& loaded = load_plugin();
  return loaded;
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const std::filesystem::path& path) : name_("sentencepiece:" + path.string()) {
    const MappedFile file(path);
    const auto bytes = file.bytes();
    if (!bytes.empty()) model_.reset(plugin().open({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    if (!model_) {
      throw InputError(
          "data.tokenizer: {} is not a SentencePiece model; make one with 'rookery data tokenizer', or use \"bytes\"",
          path.string());
    }
    fingerprint_ = digest(bytes);
  }

  std::vector<Token> encode(std::string_view text) const override { return model_->encode(text); }

  std::string decode(std::span<const Token> tokens) const override {
    std::vector<Token> known;
    for (const Token token : tokens) {
      if (token >= 0 && token < model_->size()) known.push_back(token);
    }
    return model_->decode(known);
  }

  std::int64_t vocabulary() const override { return model_->size(); }
  std::string name() const override { return name_; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  std::string name_;
  std::string fingerprint_;
  std::unique_ptr<SentencePieceModel> model_;
};

// The trainer takes lists separated by commas.
std::string list_of(std::span<const std::filesystem::path> texts) {
  std::string list;
  for (const auto& path : texts) {
    if (path.string().find(',') != std::string::npos) {
      throw InputError("{}: a text to learn a tokenizer from cannot have a comma in its name; rename it",
                       path.string());
    }
    if (MappedFile(path).bytes().empty()) throw InputError("{}: is empty; give a text to learn from", path.string());
    if (!list.empty()) list += ',';
    list += path.string();
  }
  return list;
}

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& model) {
  return std::make_unique<SentencePieceTokenizer>(model);
}

std::filesystem::path train_sentencepiece(std::span<const std::filesystem::path> texts, std::int64_t vocabulary,
                                          const std::filesystem::path& prefix, SentencePieceKind kind) {
  if (texts.empty()) throw InputError("there is no text to learn a tokenizer from; name one or more text files");
  // Every byte and three special tokens are always part of it.
  if (vocabulary < 260 || vocabulary > 65536) {
    throw InputError("{}: a vocabulary of {} tokens is not possible; choose 260 to 65536", prefix.string(), vocabulary);
  }
  const std::string input = list_of(texts);
  const SentencePiecePlugin& trainer = plugin();
  // An earlier tokenizer of this name stays until the new one is whole.
  const auto named = [](std::filesystem::path path, const char* ending) { return path += ending; };
  const std::filesystem::path temporary = named(prefix, ".tmp");
  const auto remove_temporary = [&] {
    for (const char* ending : {".model", ".vocab"}) std::filesystem::remove(named(temporary, ending));
  };
  // The trainer would end the process if it could not write.
  for (const char* ending : {".model", ".vocab"}) FileWriter(named(temporary, ending)).finish();
  const std::string failure = trainer.train({
      {"input", input},
      {"model_prefix", temporary.string()},
      {"model_type", kind == SentencePieceKind::kBpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(vocabulary)},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"byte_fallback", "true"},
      {"character_coverage", "0.9995"},
      {"max_sentence_length", "16777216"},
      {"num_threads", "2"},
      {"minloglevel", "2"},
  });
  if (!failure.empty()) {
    remove_temporary();
    throw InputError("{}: cannot learn {} tokens from these texts, use a smaller vocabulary or more text ({})",
                     prefix.string(), vocabulary, failure.substr(0, failure.find('\n')));
  }
  for (const char* ending : {".model", ".vocab"}) {
    std::filesystem::rename(named(temporary, ending), named(prefix, ending));
  }
  return named(prefix, ".model");
}

}  // namespace rookery::data
