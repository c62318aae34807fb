#pragma once

#include <memory>

#include "model/model.h"
#include "train/compute.h"

namespace rookery::simulate {

// A stage without tensors: borders and rounds are as large as those of a real one, or `scale` times smaller, and
// nothing is computed. Takes no time; TimedCompute adds that.
class ModelledCompute final : public train::Compute {
 public:
  // Settings, model and profile outlive this.
  ModelledCompute(const config::Settings& settings, const model::Model& model, const plan::ModelProfile& profile,
                  plan::Layers layers, double scale);

  const config::Settings& settings() const override { return settings_; }
  std::size_t layers() const override { return model_.size(); }
  double scale() const override { return scale_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradients() override { return gradients_; }
  std::span<float> buffers() override { return {}; }
  std::vector<std::span<float>> moments() override { return {moments_.begin(), moments_.end()}; }
  std::size_t begin_of(std::size_t layer) const override { return begins_.at(layer - own_.begin); }
  std::size_t buffers_begin_of(std::size_t /*layer*/) const override { return 0; }
  std::vector<train::Tied> ties(const plan::Cut& cut, std::size_t stage) const override;
  std::span<float> replicas_to_write() override { return replicas_; }
  std::span<float> replica_gradients() override { return replica_gradients_; }
  bool terms_vary() const override { return false; }
  std::int64_t terms(train::Samples /*samples*/) override { return 1; }
  std::int64_t most_terms(std::int64_t /*first*/) override { return 1; }
  Task<pipeline::Border> forward(train::MicroBatch micro_batch, pipeline::Border input, train::LossSums& sums) override;
  Task<pipeline::Border> backward(std::uint64_t number, pipeline::Border gradients) override;
  Task<> update(double lr, double scale, Around around) override;
  Task<> change(std::uint64_t step, std::function<void()> how) override;
  void forget() override {}
  std::size_t versions() const override { return 1; }
  std::uint64_t samples_in(data::Split /*split*/) const override { return 0; }
  Task<pipeline::Border> evaluate(data::Split split, std::uint64_t begin, std::uint64_t end, pipeline::Border input,
                                  train::LossSums& sums) override;

 private:
  std::size_t scaled(std::uint64_t values) const;
  pipeline::Border border_of(Bytes bytes);

  const config::Settings& settings_;
  const model::Model& model_;
  const plan::ModelProfile& profile_;
  plan::Layers own_;
  double scale_;
  std::vector<std::size_t> begins_;  // of the stage's layers, and the end
  std::vector<float> parameters_, gradients_, replicas_, replica_gradients_;
  std::vector<std::vector<float>> moments_;    // if they are averaged
  std::shared_ptr<std::vector<float>> zeros_;  // what crosses borders
};

}  // namespace rookery::simulate
