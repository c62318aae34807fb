#pragma once

#include <map>
#include <string>

#include "base/clock.h"
#include "train/compute.h"

namespace rookery::simulate {

// What a stage's actions take, in seconds.
struct Tempo {
  double forward = 0;              // of a micro-batch
  std::vector<double> backward{};  // of each layer, from the stage's first to its last
  double update = 0, change = 0;   // of an update; of any other change of all parameters
  double jitter = 0;               // standard deviation of a step's time, as a share of it
};

// Whatever another one computes, in as much virtual time as it would take: results are there when it has passed.
// Gradients become complete layer by layer on the way.
class TimedCompute final : public train::Compute {
 public:
  // What varies is drawn from (seed, name, step), as on a peer that keeps a pace. Clock and `arithmetic` outlive this.
  TimedCompute(Clock& clock, train::Compute& arithmetic, plan::Layers layers, Tempo tempo, std::string name);

  const config::Settings& settings() const override { return arithmetic_.settings(); }
  std::size_t layers() const override { return arithmetic_.layers(); }
  double scale() const override { return arithmetic_.scale(); }
  std::span<float> parameters() override { return arithmetic_.parameters(); }
  std::span<float> gradients() override { return arithmetic_.gradients(); }
  std::span<float> buffers() override { return arithmetic_.buffers(); }
  std::vector<std::span<float>> moments() override { return arithmetic_.moments(); }
  std::size_t begin_of(std::size_t layer) const override { return arithmetic_.begin_of(layer); }
  std::size_t buffers_begin_of(std::size_t layer) const override { return arithmetic_.buffers_begin_of(layer); }
  std::vector<train::Tied> ties(const plan::Cut& cut, std::size_t stage) const override {
    return arithmetic_.ties(cut, stage);
  }
  std::span<float> replicas_to_write() override { return arithmetic_.replicas_to_write(); }
  std::span<float> replica_gradients() override { return arithmetic_.replica_gradients(); }
  bool terms_vary() const override { return arithmetic_.terms_vary(); }
  std::int64_t terms(train::Samples samples) override { return arithmetic_.terms(samples); }
  std::int64_t most_terms(std::int64_t first) override { return arithmetic_.most_terms(first); }
  Task<pipeline::Border> forward(train::MicroBatch micro_batch, pipeline::Border input, train::LossSums& sums) override;
  Task<pipeline::Border> backward(std::uint64_t number, pipeline::Border gradients) override;
  Task<> update(double lr, double scale, Around around) override;
  Task<> change(std::uint64_t step, std::function<void()> how) override;
  void forget() override {
    on_their_way_.clear();
    arithmetic_.forget();
  }
  std::size_t versions() const override { return arithmetic_.versions(); }
  std::uint64_t samples_in(data::Split split) const override { return arithmetic_.samples_in(split); }
  Task<pipeline::Border> evaluate(data::Split split, std::uint64_t begin, std::uint64_t end, pipeline::Border input,
                                  train::LossSums& sums) override;

 private:
  struct OnItsWay {
    double factor = 1;
    std::function<void(std::size_t layer)> reached{};
  };

  double factor(std::uint64_t step) const;
  Task<> pass(double seconds) const;

  Clock& clock_;
  train::Compute& arithmetic_;
  plan::Layers own_;
  Tempo tempo_;
  std::string name_;
  std::map<std::uint64_t, OnItsWay> on_their_way_;
};

}  // namespace rookery::simulate
