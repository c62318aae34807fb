#pragma once

#include <optional>
#include <set>
#include <utility>

#include "train/compute.h"
#include "train/pace.h"
#include "train/trainee.h"

namespace rookery::train {

// A stage of a model with its tensors. Lives on the compute thread.
class TensorCompute final : public Compute {
 public:
  // The trainee outlives this.
  explicit TensorCompute(Trainee& trainee) : trainee_(trainee) {}

  // From now on everything takes as long as the pace says. It outlives this.
  void keep_pace(Pace& pace) { pace_ = &pace; }

  const config::Settings& settings() const override { return trainee_.settings(); }
  std::size_t layers() const override { return trainee_.model().size(); }
  std::span<float> parameters() override { return floats(store().values()); }
  std::span<float> gradients() override { return floats(store().gradients()); }
  std::span<float> buffers() override { return floats(store().buffers()); }
  std::vector<std::span<float>> moments() override;
  std::size_t begin_of(std::size_t layer) const override { return trainee_.stage().begin_of(layer); }
  std::size_t buffers_begin_of(std::size_t layer) const override { return trainee_.stage().buffers_begin_of(layer); }
  std::vector<Tied> ties(const plan::Cut& cut, std::size_t stage) const override;
  std::span<float> replicas_to_write() override { return floats(trainee_.stage().replicas_to_write().values()); }
  std::span<float> replica_gradients() override { return floats(trainee_.stage().replicas().gradients()); }
  bool terms_vary() const override;
  std::int64_t terms(Samples samples) override;
  std::int64_t most_terms(std::int64_t first) override { return batch(first).targets.numel(); }
  Task<pipeline::Border> forward(MicroBatch micro_batch, pipeline::Border input, LossSums& sums) override;
  Task<pipeline::Border> backward(std::uint64_t number, pipeline::Border gradients) override;
  Task<> update(double lr, double scale, Around around) override;
  Task<> change(std::uint64_t step, std::function<void()> how) override;
  void forget() override;
  std::size_t versions() const override { return trainee_.stage().versions(); }
  std::uint64_t samples_in(data::Split split) const override { return trainee_.data().size(split); }
  Task<pipeline::Border> evaluate(data::Split split, std::uint64_t begin, std::uint64_t end, pipeline::Border input,
                                  LossSums& sums) override;

 private:
  const ParameterStore& store() const { return trainee_.stage().store(); }
  bool is_first() const { return trainee_.stage().layers().begin == 0; }
  bool is_last() const { return trainee_.stage().is_last(); }
  const Batch& batch(std::int64_t first);
  Batch slice_of(Samples samples);
  void begin(std::uint64_t step, Pace::Kind kind);
  void keep_pace();

  Trainee& trainee_;
  Pace* pace_ = nullptr;
  std::optional<std::pair<std::int64_t, Batch>> batch_;                   // that was used last, and its first sample
  std::map<std::uint64_t, std::pair<std::uint64_t, bool>> on_their_way_;  // step, and whether an update follows
};

// What `stage` of a model that is cut like this shares with other stages: names of parameters, by the other stage. The
// earlier stage owns them.
struct TiedNames {
  bool owns = false;
  std::size_t other = 0;
  std::vector<Parameter> parameters;
};
std::vector<TiedNames> tied_parameters(const model::Model& model, const plan::Cut& cut, std::size_t stage);

}  // namespace rookery::train
