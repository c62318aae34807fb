#include "data/plugin/sentencepiece_plugin.h"

#include <exception>
#include <memory>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace rookery::data {
namespace {

class Model final : public SentencePieceModel {
 public:
  bool load(std::string_view serialized) {
    return processor_.LoadFromSerializedProto(serialized).ok() && processor_.GetPieceSize() > 0;
  }

  std::vector<std::int32_t> encode(std::string_view text) const override { return processor_.EncodeAsIds(text); }
  std::string decode(const std::vector<std::int32_t>& tokens) const override { return processor_.DecodeIds(tokens); }
  std::int32_t size() const override { return processor_.GetPieceSize(); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

SentencePieceModel* open(std::string_view serialized) {
  auto model = std::make_unique<Model>();
  return model->load(serialized) ? model.release() : nullptr;
}

std::string train(const std::unordered_map<std::string, std::string>& options) try {
  const auto status = sentencepiece::SentencePieceTrainer::Train(options);
  return status.ok() ? "" : status.message();
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace
}  // namespace rookery::data

extern "C" __attribute__((visibility("default"))) const rookery::data::SentencePiecePlugin rookery_sentencepiece_plugin;
const rookery::data::SentencePiecePlugin rookery_sentencepiece_plugin = {rookery::data::open, rookery::data::train};
