#include "train/setup.h"

#include <ATen/Context.h>

#include "base/error.h"

namespace rookery::train {
namespace {

void fill(std::int64_t& value, std::int64_t from_data) {
  if (value == 0) value = from_data;
}

void require_equal(const char* key, std::int64_t wanted, std::int64_t in_data) {
  if (wanted != in_data) throw InputError("model.{} is {}, but the data has {}", key, wanted, in_data);
}

}  // namespace

model::ModelOptions requested_model(const config::Settings& settings) {
  const config::Model& m = settings.model;
  return {.kind = m.kind,
          .layers = m.layers,
          .width = m.width,
          .heads = m.heads,
          .hidden = m.hidden,
          .context = m.context,
          .vocabulary = m.vocabulary,
          .dropout = m.dropout,
          .classes = m.classes,
          .channels = m.channels,
          .image_size = m.image_size,
          .stem = m.stem};
}

std::unique_ptr<data::Dataset> open_data(const config::Settings& settings) {
  const model::ModelOptions requested = requested_model(settings);
  const model::Kind& kind = model::find_kind(requested.kind);
  return data::open_dataset({.source = settings.data.source,
                             .tokenizer = settings.data.tokenizer,
                             .problem = kind.problem,
                             .context = kind.complete(requested).context,
                             .seed = static_cast<std::uint64_t>(settings.train.seed),
                             .mask_probability = settings.data.mask_probability,
                             .augment = settings.data.augment,
                             .base_directory = {}});
}

model::ModelOptions fitted_model(const config::Settings& settings, const data::DataInfo& info) {
  const model::ModelOptions requested = requested_model(settings);
  model::ModelOptions o = requested;
  if (info.problem == Problem::kClassification) {
    if (info.height != info.width) {
      throw InputError("data.source: its images have {}x{} pixels, but models take square ones", info.width,
                       info.height);
    }
    fill(o.classes, info.classes);
    fill(o.channels, info.channels);
    fill(o.image_size, info.height);
    o = model::complete_options(o);
    require_equal("classes", o.classes, info.classes);
    require_equal("channels", o.channels, info.channels);
    require_equal("image_size", o.image_size, info.height);
    return o;
  }
  // A preset says how large its vocabulary is, and the data may use less of it; other kinds take the data's.
  fill(o.vocabulary, model::find_kind(o.kind).complete(requested).vocabulary);
  fill(o.vocabulary, info.vocabulary);
  o = model::complete_options(o);
  if (o.vocabulary < info.vocabulary) {
    throw InputError("model.vocabulary is {}, but the data has {} different tokens", o.vocabulary, info.vocabulary);
  }
  if (o.context < std::max(info.length, info.source_length)) {
    throw InputError("model.context is {}, but the data's samples have {} tokens", o.context,
                     std::max(info.length, info.source_length));
  }
  return o;
}

OptimizerOptions optimizer_options(const config::Train& t) {
  return {.kind = t.optimizer,
          .weight_decay = t.weight_decay,
          .beta1 = t.beta1,
          .beta2 = t.beta2,
          .epsilon = t.epsilon,
          .momentum = t.momentum,
          .nesterov = t.nesterov,
          .accumulate = t.accumulate};
}

ScheduleOptions schedule_options(const config::Train& t) {
  return {.kind = t.schedule, .peak = t.lr, .floor = t.min_lr, .warmup = t.warmup, .steps = t.steps};
}

at::Device device_of(const config::Train& train) {
  try {
    const at::Device device(train.device);
    if (device.is_cuda() && !at::hasCUDA()) {
      throw InputError("train.device: this libtorch has no CUDA; use 'cpu'");
    }
    return device;
  } catch (const c10::Error&) {
    throw InputError("train.device: '{}' is not a device; use 'cpu', or 'cuda:0' where there is one", train.device);
  }
}

void check_device(const config::Train& train) {
  if (train.device != "cpu") {
    throw InputError("train.device is \"{}\", but peers of a swarm train on the cpu so far", train.device);
  }
}

}  // namespace rookery::train
