#include "train/piped_model.h"

#include <charconv>

#include <ATen/ATen.h>

#include "base/error.h"
#include "model/model.h"
#include "pipeline/border.h"
#include "train/learner.h"
#include "train/setup.h"
#include "train/tensor_border.h"

namespace rookery::train {
namespace {

using pipeline::Border;

constexpr std::chrono::minutes kPatience(10);  // for a stage to compute
constexpr std::chrono::hours kIdle(24);        // for something to compute; whoever waits goes with its parent
constexpr std::size_t kPiece = ControlSocket::kMaxMessage / 2;
constexpr std::size_t kMost = std::size_t{1} << 32;  // bytes of a border

// How many bytes follow, and then those, piece by piece. Or what went wrong.
void send(ControlSocket& to, const Tensors& tensors) {
  const Border border = to_border(tensors);
  const pipeline::BorderMessage message = to_message(border, collective::Codec::kNone);
  std::string bytes(reinterpret_cast<const char*>(message.header.data()), message.header.size());
  for (const std::span<const std::byte> part : message.payload) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  to.send(std::to_string(bytes.size()));
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) to.send(bytes.substr(at, kPiece));
}

std::string next(ControlSocket& from, std::chrono::milliseconds patience) {
  std::optional<std::string> message = from.receive(patience);
  if (!message) throw Error("a part of the model does not answer");
  return *std::move(message);
}

Tensors receive(ControlSocket& from, std::chrono::milliseconds patience) {
  const std::string first = next(from, patience);
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), size);
  if (error != std::errc{} || end != first.data() + first.size() || size > kMost) throw Error("{}", first);
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  while (bytes.size() < size) {
    const std::string piece = next(from, kPatience);
    const auto* begin = reinterpret_cast<const std::byte*>(piece.data());
    bytes.insert(bytes.end(), begin, begin + piece.size());
  }
  return to_tensors(pipeline::from_message(std::move(bytes)));
}

// A process with the layers of one shard.
int live(ControlSocket& parent, const config::Settings& settings, const CheckpointInfo& checkpoint,
         const Shard& shard) {
  try {
    use_threads(settings.train.threads);
    const at::NoGradGuard no_gradients;
    const auto model = model::build_model(requested_model(settings));
    const auto [begin, end] = shard.layers;
    const ParameterStore store(model->parameters(begin, end), model->buffers(begin, end));
    load_parameters(checkpoint, store);
    for (;;) send(parent, model->forward(receive(parent, kIdle), {}, begin, end));
  } catch (const Error& error) {
    parent.send(error.what());
  }
  return 1;
}

}  // namespace

PipedModel::PipedModel(const config::Settings& settings, const CheckpointInfo& checkpoint) {
  for (const Shard& shard : checkpoint.shards) {
    stages_.emplace_back([&](ControlSocket& parent) { return live(parent, settings, checkpoint, shard); });
  }
}

Tensors PipedModel::predict(const Tensors& inputs) {
  Tensors tensors = inputs;
  for (Subprocess& stage : stages_) {
    send(stage.control(), tensors);
    tensors = receive(stage.control(), kPatience);
  }
  return tensors;
}

}  // namespace rookery::train
