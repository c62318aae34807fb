#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tensor/parameters.h"

namespace rookery {

struct OptimizerOptions {
  std::string kind = "adamw";  // sgd adam adamw accum-adam accum-adamw lamb
  double weight_decay = 0.01;  // on parameters whose spec says so
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.9;        // sgd
  bool nesterov = false;        // sgd
  std::int64_t accumulate = 1;  // τ, the window of accum-adam and accum-adamw
};

// What is done to each piece of the parameters right before and right after its update, while it is in the cache. By
// several threads at once, in any order.
struct Around {
  using Visit = std::function<void(std::size_t begin, std::size_t end)>;
  Visit before{}, after{};
};

// Moves the parameters of a store by its gradients. Each kind is one vectorised pass over the flat vectors (the
// formulas are in kernels/update.h); on other devices than the CPU it is the same arithmetic by libtorch's operators.
//
// State is flat, as long as the parameters, and part of a checkpoint. Lives on the compute thread; the store outlives
// it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One step at learning rate `lr`, with the gradients multiplied by `gradient_scale`. What is done `around` it costs
  // no pass over memory of its own; on the CPU only.
  void step(double lr, double gradient_scale) { step(lr, gradient_scale, {}); }
  virtual void step(double lr, double gradient_scale, const Around& around) = 0;

  struct NamedState {
    std::string name;  // "momentum", "first_moment", …
    at::Tensor values;
  };
  const std::vector<NamedState>& state() const { return state_; }

  // How many steps were taken. Part of the state: bias corrections depend on it.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 protected:
  explicit Optimizer(ParameterStore& store) : store_(store) {}
  at::Tensor add_state(const std::string& name);

  ParameterStore& store_;
  std::int64_t steps_ = 0;

 private:
  std::vector<NamedState> state_;
};

// Throws InputError on an unknown kind.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterStore& store);

// The 2-norm of all gradients.
double gradient_norm(const ParameterStore& store);

// What gradients of this norm are multiplied by so that their norm is at most `clip`; 1 if clip is 0 (off).
double clip_scale(double norm, double clip);

}  // namespace rookery
