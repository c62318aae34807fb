#include "tensor/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "base/error.h"
#include "base/suggest.h"
#include "tensor/kernels/update.h"

namespace rookery {
namespace {

std::span<float> piece(const at::Tensor& flat, const ParameterRange& range) {
  return floats(flat).subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end - range.begin));
}

at::Tensor slice(const at::Tensor& flat, const ParameterRange& range) {
  return flat.narrow(0, range.begin, range.end - range.begin);
}

// Neighbours that are treated alike become one range: fewer, longer passes.
std::vector<ParameterRange> merged(std::span<const ParameterRange> ranges) {
  std::vector<ParameterRange> result;
  for (const ParameterRange& range : ranges) {
    if (!result.empty() && result.back().decay == range.decay && result.back().end == range.begin) {
      result.back().end = range.end;
    } else {
      result.push_back(range);
    }
  }
  return result;
}

void visit(const ParameterRange& range, const Around::Visit& visit) {
  if (visit) visit(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end));
}

// Small enough for all that an update reads and writes to stay in a core's cache.
constexpr std::int64_t kBlock = 8192;

// Updates a range as a whole, or block by block if something is done around each.
template <typename Update>
void update_range(const ParameterRange& range, const Around& around, const Update& update) {
  if (!around.before && !around.after) return update(range);
  const std::int64_t blocks = (range.end - range.begin + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = range.begin + i * kBlock;
      const ParameterRange block{begin, std::min(begin + kBlock, range.end), range.decay};
      visit(block, around.before);
      update(block);
      visit(block, around.after);
    }
  });
}

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, ParameterStore& store)
      : Optimizer(store), options_(options), ranges_(merged(store.ranges())), velocity_(add_state("velocity")) {}

  void step(double lr, double gradient_scale, const Around& around) override {
    ++steps_;
    for (const ParameterRange& range : ranges_) {
      const kernels::SgdUpdate u{static_cast<float>(lr), static_cast<float>(options_.momentum), options_.nesterov,
                                 static_cast<float>(range.decay ? options_.weight_decay : 0),
                                 static_cast<float>(gradient_scale)};
      if (!velocity_.device().is_cpu()) {
        step_by_operators(u, range);
        continue;
      }
      update_range(range, around, [&](const ParameterRange& r) {
        kernels::sgd(u, piece(store_.values(), r), piece(store_.gradients(), r), piece(velocity_, r));
      });
    }
  }

 private:
  void step_by_operators(const kernels::SgdUpdate& u, const ParameterRange& range) {
    const at::Tensor x = slice(store_.values(), range), v = slice(velocity_, range);
    const at::Tensor g = slice(store_.gradients(), range) * u.gradient_scale + x * u.weight_decay;
    v.mul_(u.momentum).add_(g);
    x.sub_((u.nesterov ? g + v * u.momentum : v) * u.lr);
  }

  OptimizerOptions options_;
  std::vector<ParameterRange> ranges_;
  at::Tensor velocity_;
};

// What all of Adam's family share: two moments and bias corrections.
class AdamBase : public Optimizer {
 protected:
  AdamBase(const OptimizerOptions& options, bool decoupled_decay, ParameterStore& store)
      : Optimizer(store),
        options_(options),
        decoupled_decay_(decoupled_decay),
        first_moment_(add_state("first_moment")),
        second_moment_(add_state("second_moment")) {}

  // The update of a range whose bias corrections are those of the k-th commit of the moments.
  kernels::AdamUpdate update(double lr, double gradient_scale, bool decay, std::int64_t k) const {
    const auto power = static_cast<double>(k);
    return {static_cast<float>(lr),
            static_cast<float>(options_.beta1),
            static_cast<float>(options_.beta2),
            static_cast<float>(options_.epsilon),
            static_cast<float>(decay ? options_.weight_decay : 0),
            decoupled_decay_,
            static_cast<float>(gradient_scale),
            static_cast<float>(1 - std::pow(options_.beta1, power)),
            static_cast<float>(1 - std::pow(options_.beta2, power))};
  }

  bool on_cpu() const { return first_moment_.device().is_cpu(); }

  OptimizerOptions options_;
  bool decoupled_decay_;
  at::Tensor first_moment_, second_moment_;
};

at::Tensor decayed_gradient(const kernels::AdamUpdate& u, const at::Tensor& x, const at::Tensor& gradient) {
  const at::Tensor g = gradient * u.gradient_scale;
  if (!u.decoupled_decay) return g + x * u.weight_decay;
  x.mul_(1 - u.lr * u.weight_decay);
  return g;
}

at::Tensor blend(const at::Tensor& old, double beta, const at::Tensor& fresh) {
  return old * beta + fresh * (1 - beta);
}

void move(const kernels::AdamUpdate& u, const at::Tensor& x, const at::Tensor& m, const at::Tensor& v) {
  x.sub_(m * (u.lr / u.correction1) / (v.sqrt() / std::sqrt(u.correction2) + u.epsilon));
}

class Adam final : public AdamBase {
 public:
  Adam(const OptimizerOptions& options, bool decoupled_decay, ParameterStore& store)
      : AdamBase(options, decoupled_decay, store), ranges_(merged(store.ranges())) {}

  void step(double lr, double gradient_scale, const Around& around) override {
    ++steps_;
    for (const ParameterRange& range : ranges_) {
      const auto u = update(lr, gradient_scale, range.decay, steps_);
      if (!on_cpu()) {
        step_by_operators(u, range);
        continue;
      }
      update_range(range, around, [&](const ParameterRange& r) {
        kernels::adam(u, piece(store_.values(), r), piece(store_.gradients(), r), piece(first_moment_, r),
                      piece(second_moment_, r));
      });
    }
  }

 private:
  void step_by_operators(const kernels::AdamUpdate& u, const ParameterRange& range) {
    const at::Tensor x = slice(store_.values(), range);
    const at::Tensor m = slice(first_moment_, range), v = slice(second_moment_, range);
    const at::Tensor g = decayed_gradient(u, x, slice(store_.gradients(), range));
    m.copy_(blend(m, u.beta1, g));
    v.copy_(blend(v, u.beta2, g * g));
    move(u, x, m, v);
  }

  std::vector<ParameterRange> ranges_;
};

class AccumulatedAdam final : public AdamBase {
 public:
  AccumulatedAdam(const OptimizerOptions& options, bool decoupled_decay, ParameterStore& store)
      : AdamBase(options, decoupled_decay, store), ranges_(merged(store.ranges())), mean_(add_state("window_mean")) {
    if (options.accumulate < 1) throw InputError("train.accumulate must be at least 1, not {}", options.accumulate);
  }

  void step(double lr, double gradient_scale, const Around& around) override {
    ++steps_;
    const std::int64_t window = options_.accumulate, k = (steps_ + window - 1) / window;
    for (const ParameterRange& range : ranges_) {
      const kernels::AccumulatedAdamUpdate u{update(lr, gradient_scale, range.decay, k), 1 / static_cast<float>(window),
                                             steps_ % window == 0};
      if (!on_cpu()) {
        step_by_operators(u, range);
        continue;
      }
      update_range(range, around, [&](const ParameterRange& r) {
        kernels::accumulated_adam(u, piece(store_.values(), r), piece(store_.gradients(), r), piece(first_moment_, r),
                                  piece(second_moment_, r), piece(mean_, r));
      });
    }
  }

 private:
  void step_by_operators(const kernels::AccumulatedAdamUpdate& u, const ParameterRange& range) {
    const at::Tensor x = slice(store_.values(), range), a = slice(mean_, range);
    const at::Tensor m = slice(first_moment_, range), v = slice(second_moment_, range);
    const at::Tensor g = decayed_gradient(u.adam, x, slice(store_.gradients(), range));
    a.add_(g * u.inverse_window);
    move(u.adam, x, blend(m, u.adam.beta1, g), blend(v, u.adam.beta2, g * g));
    if (!u.commit) return;
    m.copy_(blend(m, u.adam.beta1, a));
    v.copy_(blend(v, u.adam.beta2, a * a));
    a.zero_();
  }

  std::vector<ParameterRange> ranges_;
  at::Tensor mean_;
};

// Every tensor moves in proportion to its own norm. Biases and norms, which do not decay, move like in Adam.
class Lamb final : public AdamBase {
 public:
  Lamb(const OptimizerOptions& options, ParameterStore& store) : AdamBase(options, true, store) {}

  void step(double lr, double gradient_scale, const Around& around) override {
    ++steps_;
    for (const ParameterRange& range : store_.ranges()) {
      const auto u = update(lr, gradient_scale, range.decay, steps_);
      visit(range, around.before);
      if (on_cpu()) {
        step_by_kernels(u, range);
      } else {
        step_by_operators(u, range);
      }
      visit(range, around.after);
    }
  }

 private:
  static float trust(bool decay, double x_norm, double r_norm) {
    return decay && x_norm > 0 && r_norm > 0 ? static_cast<float>(x_norm / r_norm) : 1.0f;
  }

  void step_by_kernels(const kernels::AdamUpdate& u, const ParameterRange& range) {
    const auto x = piece(store_.values(), range), m = piece(first_moment_, range), v = piece(second_moment_, range);
    const auto norms = kernels::lamb_moments(u, x, piece(store_.gradients(), range), m, v);
    kernels::lamb_apply(u, trust(range.decay, std::sqrt(norms.x_squared), std::sqrt(norms.r_squared)), x, m, v);
  }

  void step_by_operators(const kernels::AdamUpdate& u, const ParameterRange& range) {
    const at::Tensor x = slice(store_.values(), range);
    const at::Tensor m = slice(first_moment_, range), v = slice(second_moment_, range);
    const at::Tensor g = slice(store_.gradients(), range) * u.gradient_scale;
    m.copy_(blend(m, u.beta1, g));
    v.copy_(blend(v, u.beta2, g * g));
    const at::Tensor r = m / u.correction1 / ((v / u.correction2).sqrt() + u.epsilon) + x * u.weight_decay;
    x.sub_(r * (u.lr * trust(range.decay, x.norm().item<double>(), r.norm().item<double>())));
  }
};

}  // namespace

at::Tensor Optimizer::add_state(const std::string& name) {
  state_.push_back({name, at::zeros_like(store_.values())});
  return state_.back().values;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterStore& store) {
  const std::string& kind = options.kind;
  if (kind == "sgd") return std::make_unique<Sgd>(options, store);
  if (kind == "adam") return std::make_unique<Adam>(options, false, store);
  if (kind == "adamw") return std::make_unique<Adam>(options, true, store);
  if (kind == "accum-adam") return std::make_unique<AccumulatedAdam>(options, false, store);
  if (kind == "accum-adamw") return std::make_unique<AccumulatedAdam>(options, true, store);
  if (kind == "lamb") return std::make_unique<Lamb>(options, store);
  const std::vector<std::string> known = {"sgd", "adam", "adamw", "accum-adam", "accum-adamw", "lamb"};
  throw InputError("train.optimizer: '{}' is not a known optimizer{}", kind, did_you_mean(kind, known));
}

double gradient_norm(const ParameterStore& store) {
  const at::Tensor& gradients = store.gradients();
  if (!gradients.device().is_cpu()) return gradients.norm().item<double>();
  return std::sqrt(kernels::sum_of_squares(floats(gradients)));
}

double clip_scale(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

}  // namespace rookery
