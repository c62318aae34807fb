#include "model/kinds.h"

namespace rookery::model {
namespace {

struct TransformerSize {
  std::int64_t layers, width, heads, context;
  std::int64_t vocabulary = 0;  // 0: the data's
};

auto transformer(TransformerSize s) {
  return defaults(
      {.layers = s.layers, .width = s.width, .heads = s.heads, .context = s.context, .vocabulary = s.vocabulary});
}

// An image model: layers and width count its hidden layers where it has a choice.
auto image_model(std::int64_t layers, std::int64_t width, std::int64_t image_size) {
  const auto fill =
      defaults({.layers = layers, .width = width, .classes = 10, .channels = 3, .image_size = image_size});
  return [fill](ModelOptions o) {
    o = fill(std::move(o));
    if (o.stem == "auto") o.stem = o.image_size > 64 ? "imagenet" : "cifar";
    return o;
  };
}

}  // namespace

std::vector<Kind> built_in_kinds() {
  constexpr auto kLm = Problem::kLanguageModel;
  constexpr auto kImages = Problem::kClassification;
  constexpr std::int64_t kGptVocabulary = 50257;
  return {
      {"gpt", kLm, "decoder-only transformer, head tied to the embedding", transformer({4, 128, 4, 128}), make_gpt},
      {"gpt-neo-8m", kLm, "gpt, width 128, 8 layers, 8 heads", transformer({8, 128, 8, 256, kGptVocabulary}), make_gpt},
      {"gpt-neo-125m", kLm, "gpt, width 768, 12 layers, 12 heads", transformer({12, 768, 12, 1024, kGptVocabulary}),
       make_gpt},
      {"bert", Problem::kMaskedLanguageModel, "encoder-only transformer, masked language model",
       transformer({4, 128, 4, 128}), make_bert},
      {"seq2seq", Problem::kTranslation, "encoder-decoder transformer; layers on each side",
       transformer({2, 128, 4, 64}), make_seq2seq},
      {"transformer-base", Problem::kTranslation, "seq2seq, width 512, 6+6 layers, 8 heads",
       transformer({6, 512, 8, 256, 32768}), make_seq2seq},
      {"mlp", kImages, "fully connected classifier", image_model(2, 256, 28), make_mlp},
      {"cnn", kImages, "small convolutional classifier", image_model(2, 32, 28), make_cnn},
      {"resnet18", kImages, "residual network of 18 layers", image_model(18, 64, 32), make_resnet18},
      {"resnet50", kImages, "residual network of 50 layers", image_model(50, 64, 32), make_resnet50},
      {"vgg16", kImages, "VGG of 16 layers with batch norm", image_model(16, 64, 32), make_vgg16},
  };
}

}  // namespace rookery::model
