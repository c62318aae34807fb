#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/task.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "pipeline/border.h"
#include "plan/profile.h"
#include "tensor/optimizer.h"

namespace rookery::train {

// Where a micro-batch finds its samples: it is the `part`-th of the batch that begins with the `first` in the run's
// order.
struct Samples {
  std::int64_t first = 0, part = 0;
};

// A micro-batch on its way through a stage.
struct MicroBatch {
  std::uint64_t number = 0;  // since the beginning; it is known by that until its backward
  std::uint64_t step = 0;    // that it belongs to, from 0,
  std::uint64_t index = 0;   // and its place in that step
  std::size_t cluster = 0;
  Samples samples{};
  double divisor = 1;                                // of the summed loss
  bool is_last = false;                              // before an update
  std::function<void(std::size_t layer)> reached{};  // in its backward: gradients are complete from this layer on
};

// What the last stage has seen.
struct LossSums {
  double loss = 0, correct = 0, terms = 0;
  std::uint64_t samples = 0, tokens = 0;
};

// Values that another stage of the cluster uses, too: one of them owns them, the other has replicas.
struct Tied {
  bool owns = false;
  std::size_t other = 0;  // stage
  struct Range {
    std::size_t begin = 0, end = 0;
  };
  std::vector<Range> ranges{};  // among the owner's parameters, or the replicas; as long at both ends
};

// What a member of a swarm computes: a stage of a model with real tensors, or something that only takes as long. The
// protocol of a member is written against this, and so runs in both worlds.
//
// Lives on the compute thread.
class Compute {
 public:
  virtual ~Compute() = default;

  virtual const config::Settings& settings() const = 0;
  virtual std::size_t layers() const = 0;  // of the whole model

  // How many values each one stands for: more than one where less is sent than would be.
  virtual double scale() const { return 1; }

  // The stage's values, flat, in layer order. Where they lie may change with every update; moments stay.
  virtual std::span<float> parameters() = 0;
  virtual std::span<float> gradients() = 0;
  virtual std::span<float> buffers() = 0;
  virtual std::vector<std::span<float>> moments() = 0;

  // Where those of a layer begin; `layer` counts from the model's first, up to the end of these.
  virtual std::size_t begin_of(std::size_t layer) const = 0;
  virtual std::size_t buffers_begin_of(std::size_t layer) const = 0;

  // What this stage of a cluster that is cut like this shares with others; and its replicas, flat. Those who write them
  // ask for them anew: micro-batches on their way may need what was there.
  virtual std::vector<Tied> ties(const plan::Cut& cut, std::size_t stage) const = 0;
  virtual std::span<float> replicas_to_write() = 0;
  virtual std::span<float> replica_gradients() = 0;

  // Whether batches have unequal numbers of loss terms; how many a micro-batch has, and a batch could have at most.
  virtual bool terms_vary() const = 0;
  virtual std::int64_t terms(Samples samples) = 0;
  virtual std::int64_t most_terms(std::int64_t first) = 0;

  // As pipeline::StageWork has it. The last stage adds what it has seen to `sums`.
  virtual Task<pipeline::Border> forward(MicroBatch micro_batch, pipeline::Border input, LossSums& sums) = 0;
  virtual Task<pipeline::Border> backward(std::uint64_t number, pipeline::Border gradients) = 0;

  // Moves the parameters by `scale` times the gradients, and clears those.
  virtual Task<> update(double lr, double scale, Around around) = 0;

  // Parameters change by other means in a step, from 0.
  virtual Task<> change(std::uint64_t step, std::function<void()> how) = 0;

  // Micro-batches on their way will not come back, and what they have left of gradients goes.
  virtual void forget() = 0;

  // Versions of the weights that are in memory, with the current ones.
  virtual std::size_t versions() const = 0;

  // Samples that a split has; and some of them, [begin, end), on their way through a stage without training.
  virtual std::uint64_t samples_in(data::Split split) const = 0;
  virtual Task<pipeline::Border> evaluate(data::Split split, std::uint64_t begin, std::uint64_t end,
                                          pipeline::Border input, LossSums& sums) = 0;
};

}  // namespace rookery::train
