#include "cli/trained_model.h"

#include "base/error.h"
#include "train/run_directory.h"
#include "train/setup.h"

namespace rookery::cli {

TrainedModel load_trained_model(const std::filesystem::path& path) {
  const train::RunDirectory run = train::open_run(path);
  TrainedModel trained;
  trained.settings = config::load(run.settings());
  const auto newest = train::newest_checkpoint(run.checkpoints());
  if (!newest) throw InputError("{}: has no checkpoint yet", path.string());
  train::verify_checkpoint(*newest);
  trained.checkpoint = train::read_checkpoint_info(*newest);
  trained.model = model::build_model(train::requested_model(trained.settings));
  trained.store = std::make_unique<ParameterStore>(trained.model->parameters(), trained.model->buffers());
  train::load_checkpoint(trained.checkpoint, *trained.store, nullptr);
  return trained;
}

}  // namespace rookery::cli
