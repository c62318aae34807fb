#include "cli/trained_model.h"

#include "base/error.h"
#include "train/run_directory.h"
#include "train/setup.h"

namespace rookery::cli {

Trained find_trained(const std::filesystem::path& path) {
  const train::RunDirectory run = train::open_run(path);
  const auto newest = train::newest_checkpoint(run.checkpoints());
  if (!newest) throw InputError("{}: has no checkpoint yet", path.string());
  train::verify_checkpoint(*newest);
  return {config::load(run.settings()), train::read_checkpoint_info(*newest)};
}

TrainedModel::TrainedModel(const Trained& trained)
    : model(model::build_model(train::requested_model(trained.settings))),
      store(std::make_unique<ParameterStore>(model->parameters(), model->buffers())) {
  train::load_parameters(trained.checkpoint, *store);
}

}  // namespace rookery::cli
