#pragma once

#include <memory>

#include "config/settings.h"
#include "data/dataset.h"
#include "model/model.h"
#include "tensor/optimizer.h"
#include "tensor/schedule.h"

// From settings to the objects of a run.
namespace rookery::train {

// The model's options as far as the settings and its kind say; sizes that only the data knows may still be 0.
model::ModelOptions requested_model(const config::Settings& settings);

// Opens the data in the form that the model's kind learns from.
std::unique_ptr<data::Dataset> open_data(const config::Settings& settings);

// The complete options of a model for this data. Throws InputError if the two do not fit.
model::ModelOptions fitted_model(const config::Settings& settings, const data::DataInfo& info);

OptimizerOptions optimizer_options(const config::Train& train);
ScheduleOptions schedule_options(const config::Train& train);
at::Device device_of(const config::Train& train);

// Whether something that is done every so many steps, or never (0), is done after this one.
inline bool due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

// The test at the end of a run: all of the usual image sets, and enough of a large text.
inline constexpr std::uint64_t kMaxTestSamples = 10000;

// Throws InputError unless a peer of a swarm can train on this device.
void check_device(const config::Train& train);

}  // namespace rookery::train
