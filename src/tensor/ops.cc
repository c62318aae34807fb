#include "tensor/ops.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "tensor/kernels/activation.h"
#include "tensor/kernels/attention.h"
#include "tensor/kernels/cross_entropy.h"
#include "tensor/kernels/dropout.h"
#include "tensor/kernels/embedding.h"
#include "tensor/kernels/layer_norm.h"
#include "tensor/kernels/update.h"
#include "tensor/parameters.h"
#include "tensor/reference.h"

namespace rookery::ops {
namespace {

using kernels::Matrix;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

bool fusable(const at::Tensor& x) { return x.device().is_cpu() && x.scalar_type() == at::kFloat; }

// A fused forward stores what backward needs only if there will be one.
bool recording(std::initializer_list<at::Tensor> inputs) {
  return at::GradMode::is_enabled() && std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) {
           return t.defined() && t.requires_grad();
         });
}

// A tensor that may be undefined, as Function::apply wants it; and back.
using Maybe = c10::optional<at::Tensor>;
Maybe maybe(const at::Tensor& t) { return t.defined() ? Maybe(t) : Maybe(); }
at::Tensor tensor_of(const Maybe& t) { return t ? *t : at::Tensor(); }

float* data(const at::Tensor& t) { return t.data_ptr<float>(); }
float* data_or_null(const at::Tensor& t) { return t.defined() ? data(t) : nullptr; }
const std::int64_t* ids_of(const at::Tensor& t) { return t.data_ptr<std::int64_t>(); }
const std::int64_t* ids_or_null(const at::Tensor& t) { return t.defined() ? ids_of(t) : nullptr; }

Matrix rows(const at::Tensor& t, std::int64_t columns) { return {data(t), columns, 1}; }
Matrix transposed(const at::Tensor& t, std::int64_t columns) { return {data(t), 1, columns}; }

// Where the gradient of one input goes: straight into its grad() if it has one, else into a tensor that is returned to
// autograd. Made in forward, used in backward.
class GradientSlot {
 public:
  static at::Tensor reserve(const at::Tensor& input) {
    if (!input.defined() || !input.requires_grad() || !input.is_leaf()) return {};
    const at::Tensor& grad = input.grad();
    return grad.defined() && grad.is_contiguous() ? grad : at::Tensor();
  }

  GradientSlot(const at::Tensor& reserved, const at::Tensor& like, bool needed)
      : direct_(reserved.defined()),
        target_(direct_  ? reserved
                : needed ? at::zeros_like(like)
                         : at::Tensor()) {}

  float* data() const { return target_.defined() ? target_.data_ptr<float>() : nullptr; }
  at::Tensor result() const { return direct_ ? at::Tensor() : target_; }

 private:
  bool direct_;
  at::Tensor target_;
};

struct Linear : Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const Maybe& maybe_bias, const Maybe& maybe_residual, std::int64_t activation,
                            bool will_backward) {
    const at::Tensor bias = tensor_of(maybe_bias), residual = tensor_of(maybe_residual);
    const std::int64_t out = weight.size(0), in = weight.size(1), m = x.numel() / in;
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = out;
    const at::Tensor y = at::empty(shape, x.options());
    const auto kind = static_cast<Activation>(activation);
    const bool keep_derivative = will_backward && kind != Activation::kNone;
    const at::Tensor derivative = keep_derivative ? at::empty(shape, x.options()) : at::Tensor();
    kernels::gemm(m, out, in, rows(x, in), transposed(weight, in), data(y), out, false,
                  {data_or_null(bias), kind, data_or_null(derivative), data_or_null(residual)});
    if (will_backward) {
      context->save_for_backward({x.detach(), weight.detach(), derivative});
      context->saved_data["weight_grad"] = GradientSlot::reserve(weight);
      context->saved_data["bias_grad"] = GradientSlot::reserve(bias);
      context->saved_data["needs"] =
          std::vector<bool>{x.requires_grad(), weight.requires_grad(), bias.defined() && bias.requires_grad(),
                            residual.defined() && residual.requires_grad()};
    }
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &derivative = saved[2];
    const auto needs = context->saved_data["needs"].toBoolList();
    const std::int64_t out = weight.size(0), in = weight.size(1), m = x.numel() / in;
    const at::Tensor dy = gradients[0].contiguous();

    at::Tensor dz = dy;
    if (derivative.defined()) {
      dz = derivative;  // its last use: the product overwrites it
      kernels::multiply(dz.numel(), data(dy), data(derivative), data(dz));
    }
    const GradientSlot weight_grad(context->saved_data["weight_grad"].toTensor(), weight, needs[1]);
    const GradientSlot bias_grad(context->saved_data["bias_grad"].toTensor(), weight.select(1, 0), needs[2]);
    if (needs[2]) kernels::column_sums(m, out, data(dz), bias_grad.data());
    if (needs[1]) {
      kernels::gemm(out, in, m, transposed(dz, out), rows(x, in), weight_grad.data(), in, true);
    }
    at::Tensor dx;
    if (needs[0]) {
      dx = at::empty_like(x);
      kernels::gemm(m, in, out, rows(dz, out), rows(weight, in), data(dx), in, false);
    }
    return {dx, weight_grad.result(), bias_grad.result(), needs[3] ? dy : at::Tensor(), {}, {}};
  }
};

struct LayerNorm : Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double epsilon) {
    const std::int64_t width = x.size(-1), n = x.numel() / width;
    const at::Tensor y = at::empty_like(x), statistics = at::empty({n, 2}, x.options());
    kernels::layer_norm_forward(n, width, data(x), data(weight), data(bias), static_cast<float>(epsilon), data(y),
                                data(statistics));
    context->save_for_backward({x.detach(), weight.detach(), statistics});
    context->saved_data["weight_grad"] = GradientSlot::reserve(weight);
    context->saved_data["bias_grad"] = GradientSlot::reserve(bias);
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const std::int64_t width = x.size(-1);
    const GradientSlot weight_grad(context->saved_data["weight_grad"].toTensor(), weight, true);
    const GradientSlot bias_grad(context->saved_data["bias_grad"].toTensor(), weight, true);
    const at::Tensor dy = gradients[0].contiguous(), dx = at::empty_like(x);
    kernels::layer_norm_backward(x.numel() / width, width, data(x), data(weight), data(saved[2]), data(dy), data(dx),
                                 weight_grad.data(), bias_grad.data());
    return {dx, weight_grad.result(), bias_grad.result(), {}};
  }
};

struct Embedding : Function<Embedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& ids, const at::Tensor& table,
                            const Maybe& maybe_positions) {
    const at::Tensor positions = tensor_of(maybe_positions);
    const std::int64_t width = table.size(1);
    const at::Tensor out = at::empty({ids.size(0), ids.size(1), width}, table.options());
    kernels::embedding_forward(ids.numel(), ids_of(ids), width, data(table), data_or_null(positions), ids.size(1),
                               data(out));
    context->save_for_backward({ids, table.detach(), positions.defined() ? positions.detach() : at::Tensor()});
    context->saved_data["table_grad"] = GradientSlot::reserve(table);
    context->saved_data["position_grad"] = GradientSlot::reserve(positions);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& ids = saved[0];
    const GradientSlot table_grad(context->saved_data["table_grad"].toTensor(), saved[1], true);
    const GradientSlot position_grad(context->saved_data["position_grad"].toTensor(), saved[2], saved[2].defined());
    const at::Tensor dy = gradients[0].contiguous();
    kernels::embedding_backward(ids.numel(), ids_of(ids), dy.size(2), data(dy), table_grad.data(), position_grad.data(),
                                ids.size(1));
    return {{}, table_grad.result(), position_grad.result()};
  }
};

// Queries, keys and values in one tensor (self attention), or queries in one and the others in a second.
struct Attention : Function<Attention> {
  struct Operands {
    kernels::AttentionShape shape;
    float *q, *k, *v;
  };

  static Operands operands(const at::Tensor& first, const at::Tensor& second, const at::Tensor& key_lengths,
                           std::int64_t heads, bool causal) {
    const bool packed = !second.defined();
    const std::int64_t width = packed ? first.size(2) / 3 : first.size(2);
    const at::Tensor& keys = packed ? first : second;
    const std::int64_t stride = keys.size(2), head_width = width / heads;
    Operands o;
    o.shape = {first.size(0),
               heads,
               first.size(1),
               keys.size(1),
               head_width,
               first.size(2),
               stride,
               stride,
               causal,
               ids_or_null(key_lengths),
               1 / std::sqrt(static_cast<float>(head_width))};
    o.q = data(first);
    o.k = data(keys) + (packed ? width : 0);
    o.v = o.k + width;
    return o;
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& first, const Maybe& maybe_second,
                            const Maybe& maybe_key_lengths, std::int64_t heads, bool causal) {
    const at::Tensor second = tensor_of(maybe_second), key_lengths = tensor_of(maybe_key_lengths);
    const Operands in = operands(first, second, key_lengths, heads, causal);
    const auto& s = in.shape;
    const at::Tensor out = at::empty({s.batch, s.query_length, s.heads * s.head_width}, first.options());
    const at::Tensor log_sum_exp = at::empty({s.batch, s.heads, s.query_length}, first.options());
    kernels::attention_forward(s, in.q, in.k, in.v, data(out), data(log_sum_exp));
    context->save_for_backward(
        {first.detach(), second.defined() ? second.detach() : at::Tensor(), key_lengths, out.detach(), log_sum_exp});
    context->saved_data["heads"] = heads;
    context->saved_data["causal"] = causal;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &first = saved[0], &second = saved[1], &key_lengths = saved[2];
    const std::int64_t heads = context->saved_data["heads"].toInt();
    const bool causal = context->saved_data["causal"].toBool();
    const at::Tensor dout = gradients[0].contiguous(), dfirst = at::empty_like(first);
    const at::Tensor dsecond = second.defined() ? at::empty_like(second) : at::Tensor();
    const Operands in = operands(first, second, key_lengths, heads, causal);
    const Operands grad = operands(dfirst, dsecond, key_lengths, heads, causal);
    kernels::attention_backward(in.shape, in.q, in.k, in.v, data(saved[3]), data(saved[4]), data(dout), grad.q, grad.k,
                                grad.v);
    return {dfirst, dsecond, {}, {}, {}};
  }
};

struct CrossEntropy : Function<CrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& targets,
                            bool will_backward) {
    const at::Tensor gradient = will_backward ? at::empty_like(logits) : at::Tensor();
    const double sum = kernels::softmax_cross_entropy(logits.size(0), logits.size(1), data(logits), logits.size(1),
                                                      ids_of(targets), 1.0f, data_or_null(gradient));
    context->save_for_backward({gradient});
    return at::scalar_tensor(sum, logits.options());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {context->get_saved_variables()[0].mul_(gradients[0]), {}, {}};
  }
};

// Rows per block: enough to use a packed weight block many times, few enough to bound the logits to about 64 MiB.
std::int64_t rows_per_block(std::int64_t classes) {
  constexpr std::int64_t kMaxLogits = 16 << 20;
  return std::clamp<std::int64_t>(kMaxLogits / classes, 32, 512);
}

struct LinearCrossEntropy : Function<LinearCrossEntropy> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& targets, bool will_backward) {
    const std::int64_t n = x.size(0), width = x.size(1), classes = weight.size(0);
    const std::int64_t block = std::min(n, rows_per_block(classes));
    const at::Tensor logits = at::empty({block, classes}, x.options());
    const at::Tensor dx = will_backward ? at::empty_like(x) : at::Tensor();
    const at::Tensor dweight = will_backward ? at::empty_like(weight) : at::Tensor();
    double sum = 0;
    std::int64_t correct = 0;
    for (std::int64_t i = 0; i < n; i += block) {
      const std::int64_t m = std::min(block, n - i);
      const Matrix x_block{data(x) + i * width, width, 1};
      const std::int64_t* target = ids_of(targets) + i;
      kernels::gemm(m, classes, width, x_block, transposed(weight, width), data(logits), classes, false);
      correct += kernels::count_correct(m, classes, data(logits), classes, target);
      sum += kernels::softmax_cross_entropy(m, classes, data(logits), classes, target, 1.0f,
                                            will_backward ? data(logits) : nullptr);
      if (!will_backward) continue;
      kernels::gemm(m, width, classes, rows(logits, classes), rows(weight, width), data(dx) + i * width, width, false);
      kernels::gemm(classes, width, m, transposed(logits, classes), x_block, data(dweight), width, i > 0);
    }
    context->save_for_backward({dx, dweight});
    context->saved_data["weight_grad"] = GradientSlot::reserve(weight);
    const at::Tensor count = at::scalar_tensor(correct, x.options().dtype(at::kLong));
    context->mark_non_differentiable({count});
    return {at::scalar_tensor(sum, x.options()), count};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &dx = saved[0], &dweight = saved[1];
    const auto scale = gradients[0].item<float>();
    const GradientSlot weight_grad(context->saved_data["weight_grad"].toTensor(), dweight, true);
    kernels::add_scaled(scale, floats(dweight), {weight_grad.data(), static_cast<std::size_t>(dweight.numel())});
    return {dx.mul_(scale), weight_grad.result(), {}, {}};
  }
};

struct Dropout : Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double keep, std::int64_t key) {
    context->saved_data["keep"] = keep;
    context->saved_data["key"] = key;
    return dropped(x, keep, key);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {
        dropped(gradients[0].contiguous(), context->saved_data["keep"].toDouble(), context->saved_data["key"].toInt()),
        {},
        {}};
  }

  static at::Tensor dropped(const at::Tensor& x, double keep, std::int64_t key) {
    const at::Tensor out = at::empty_like(x);
    kernels::dropout(x.numel(), data(x), static_cast<float>(keep), static_cast<std::uint64_t>(key), data(out));
    return out;
  }
};

at::Tensor checked_targets(const at::Tensor& targets, std::int64_t rows, std::int64_t classes) {
  ROOKERY_CHECK(targets.dim() == 1 && targets.size(0) == rows, "{} rows, {} targets", rows, targets.numel());
  ROOKERY_CHECK(rows == 0 || targets.max().item<std::int64_t>() < classes);
  return targets.contiguous();
}

Maybe contiguous(const at::Tensor& t) { return t.defined() ? Maybe(t.contiguous()) : Maybe(); }

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Activation activation,
                  const at::Tensor& residual) {
  if (!fusable(x)) return reference::linear(x, weight, bias, activation, residual);
  ROOKERY_CHECK(weight.dim() == 2 && x.size(-1) == weight.size(1), "x (…, {}), weight ({}, …, {})", x.size(-1),
                weight.size(0), weight.size(-1));
  ROOKERY_CHECK(!bias.defined() || bias.numel() == weight.size(0));
  ROOKERY_CHECK(!residual.defined() || residual.numel() == x.numel() / weight.size(1) * weight.size(0));
  return Linear::apply(x.contiguous(), weight, maybe(bias), contiguous(residual), static_cast<std::int64_t>(activation),
                       recording({x, weight, bias, residual}));
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
  if (!fusable(x)) return reference::layer_norm(x, weight, bias, epsilon);
  ROOKERY_CHECK(weight.numel() == x.size(-1) && bias.numel() == x.size(-1));
  return LayerNorm::apply(x.contiguous(), weight, bias, epsilon);
}

at::Tensor embedding(const at::Tensor& ids, const at::Tensor& table, const at::Tensor& positions) {
  if (!fusable(table)) return reference::embedding(ids, table, positions);
  ROOKERY_CHECK(ids.dim() == 2 && (!positions.defined() || positions.size(0) >= ids.size(1)));
  ROOKERY_CHECK(
      ids.numel() == 0 || (ids.min().item<std::int64_t>() >= 0 && ids.max().item<std::int64_t>() < table.size(0)),
      "a token is outside the vocabulary of {}", table.size(0));
  return Embedding::apply(ids.contiguous(), table, maybe(positions));
}

at::Tensor self_attention(const at::Tensor& packed, std::int64_t heads, bool causal, const at::Tensor& key_lengths) {
  ROOKERY_CHECK(packed.dim() == 3 && packed.size(2) % (3 * heads) == 0);
  if (!fusable(packed)) {
    const auto parts = packed.chunk(3, -1);
    return reference::attention(parts[0], parts[1], parts[2], heads, causal, key_lengths);
  }
  return Attention::apply(packed.contiguous(), Maybe(), contiguous(key_lengths), heads, causal);
}

at::Tensor cross_attention(const at::Tensor& queries, const at::Tensor& packed, std::int64_t heads,
                           const at::Tensor& key_lengths) {
  ROOKERY_CHECK(queries.dim() == 3 && queries.size(2) % heads == 0 && packed.size(2) == 2 * queries.size(2) &&
                packed.size(0) == queries.size(0));
  if (!fusable(queries)) {
    const auto parts = packed.chunk(2, -1);
    return reference::attention(queries, parts[0], parts[1], heads, false, key_lengths);
  }
  return Attention::apply(queries.contiguous(), contiguous(packed), contiguous(key_lengths), heads, false);
}

LossSum cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  if (!fusable(logits)) return reference::cross_entropy(logits, targets);
  const at::Tensor rows = logits.contiguous(), wanted = checked_targets(targets, logits.size(0), logits.size(1));
  const std::int64_t correct =
      kernels::count_correct(rows.size(0), rows.size(1), data(rows), rows.size(1), ids_of(wanted));
  return {CrossEntropy::apply(rows, wanted, recording({logits})), correct};
}

LossSum linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets) {
  if (!fusable(x)) return reference::cross_entropy(reference::linear(x, weight, {}, Activation::kNone, {}), targets);
  ROOKERY_CHECK(x.dim() == 2 && x.size(1) == weight.size(1));
  const at::Tensor wanted = checked_targets(targets, x.size(0), weight.size(0));
  const variable_list result = LinearCrossEntropy::apply(x.contiguous(), weight, wanted, recording({x, weight}));
  return {result[0], result[1].item<std::int64_t>()};
}

at::Tensor dropout(const at::Tensor& x, double probability, std::uint64_t key) {
  if (probability <= 0) return x;
  const double keep = 1 - probability;
  const auto word = static_cast<std::int64_t>(key);
  if (fusable(x)) return Dropout::apply(x.contiguous(), keep, word);
  const at::Tensor factors = Dropout::dropped(at::ones(x.sizes(), at::kFloat), keep, word);
  return x * factors.to(x.options());
}

}  // namespace rookery::ops
