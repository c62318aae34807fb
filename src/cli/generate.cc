#include "train/generate.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/trained_model.h"
#include "train/learner.h"
#include "train/piped_model.h"
#include "train/run_directory.h"

namespace rookery::cli {
namespace {

struct GenerateOptions {
  std::string run;
  std::string prompt;
  train::SamplingOptions sampling;
  bool json = false;
};

// The model in this process; or, if it was trained in parts, in as many processes. Those are forked, which has to be
// before anything is computed.
train::Predict opened(const Trained& trained) {
  if (trained.checkpoint.shards.size() > 1) {
    const auto piped = std::make_shared<train::PipedModel>(trained.settings, trained.checkpoint);
    return [piped](const Tensors& tokens) { return piped->predict(tokens); };
  }
  train::use_threads(trained.settings.train.threads);
  const auto whole = std::make_shared<TrainedModel>(trained);
  return [whole](const Tensors& tokens) { return whole->model->predict(tokens); };
}

int generate(const GenerateOptions& options) {
  const Trained trained = find_trained(options.run);
  if (model::find_kind(trained.settings.model.kind).problem != Problem::kLanguageModel) {
    throw InputError("{}: is a run of '{}', which is no language model; generate needs one such as gpt", options.run,
                     trained.settings.model.kind);
  }
  if (!trained.checkpoint.text && trained.settings.data.tokenizer == "bytes") {
    throw InputError(
        "{}: was trained on token files; set data.tokenizer in {} to the one that they were made with, and the prompt "
        "can be read",
        options.run, train::open_run(options.run).settings().string());
  }
  const auto tokenizer = data::open_tokenizer(trained.settings.data.tokenizer);
  const std::vector<data::Token> prompt = tokenizer->encode(options.prompt);
  if (prompt.empty()) throw InputError("--prompt is empty; give the text at least one character to start from");
  if (*std::max_element(prompt.begin(), prompt.end()) >= trained.settings.model.vocabulary) {
    throw InputError("{}: its model knows {} tokens, too few for data.tokenizer = \"{}\"", options.run,
                     trained.settings.model.vocabulary, trained.settings.data.tokenizer);
  }
  const train::Predict predict = opened(trained);

  std::vector<data::Token> tokens = prompt;
  std::string shown;
  const auto emit = [&](data::Token token) {
    tokens.push_back(token);
    if (options.json) return;
    // The text so far is decoded again, because a token's text may depend on the one before it.
    const std::string text = tokenizer->decode(tokens);
    fmt::print("{}", std::string_view(text).substr(std::min(shown.size(), text.size())));
    std::fflush(stdout);
    shown = text;
  };
  if (!options.json) {
    shown = tokenizer->decode(tokens);
    fmt::print("{}", shown);
  }
  const std::int64_t vocabulary = std::min(tokenizer->vocabulary(), trained.settings.model.vocabulary);
  train::generate(predict, trained.settings.model.context, vocabulary, *tokenizer, prompt, options.sampling, emit);
  if (options.json) {
    print_json({{"prompt", options.prompt},
                {"text", tokenizer->decode(tokens)},
                {"tokens", options.sampling.tokens},
                {"step", trained.checkpoint.position.step}});
  } else {
    fmt::print("\n");
  }
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("generate", "sample text from a trained language model");
  auto o = std::make_shared<GenerateOptions>();
  command->add_option("RUN", o->run, "directory of the run")->required();
  command->add_option("--prompt", o->prompt, "how the text starts")->required();
  command->add_option("--tokens", o->sampling.tokens, "how many tokens to add")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000000));
  command->add_option("--temperature", o->sampling.temperature, "0 takes the likeliest token, higher is more varied")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", o->sampling.top_k, "draw from the k likeliest tokens, 0: from all")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", o->sampling.seed, "the same seed gives the same text")->capture_default_str();
  command->add_flag("--json", o->json, "print prompt and text as JSON");
  command->callback([o, choose] { choose([o] { return generate(*o); }); });
}

}  // namespace rookery::cli
