#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace rookery {

// How a parameter starts. Element i of parameter `name` is a pure function of (seed, name, i), so every stage of a
// model can initialise its own part and the whole is the same however the model is cut.
struct Initializer {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double value = 0;  // the constant, the standard deviation, or the bound of the interval

  static Initializer constant(double value) { return {Kind::kConstant, value}; }
  static Initializer normal(double deviation) { return {Kind::kNormal, deviation}; }
  static Initializer uniform(double bound) { return {Kind::kUniform, bound}; }
};

struct ParameterSpec {
  std::string name;  // unique within a model: "block.3.attention.qkv.weight"
  std::vector<std::int64_t> shape;
  Initializer initializer;
  bool decay = true;  // weight decay applies: true for weights, false for biases and norms

  std::int64_t elements() const;
};

// One tensor of a model: a cheap handle, shared by every layer that uses it and the store that places it. A model is
// built from unbound parameters, which cost nothing; a store binds those of the layers that this peer holds. Two layers
// that hold the same handle are tied.
class Parameter {
 public:
  Parameter() = default;
  explicit Parameter(ParameterSpec spec);

  const ParameterSpec& spec() const { return state_->spec; }

  // The current value: a leaf of autograd whose grad() is a view of the store's gradients. Requires: bound. A layer
  // asks anew in every forward, because an update may bind another tensor.
  const at::Tensor& tensor() const;

  friend bool operator==(const Parameter&, const Parameter&) = default;

 private:
  friend class ParameterStore;
  struct State {
    ParameterSpec spec;
    at::Tensor tensor;
  };
  std::shared_ptr<State> state_;
};

// Where a parameter lies in the flat vector.
struct ParameterRange {
  std::int64_t begin;
  std::int64_t end;
  bool decay;
};

// The parameters of some layers in one flat vector, in layer order, and their gradients in another. So an update is one
// pass over memory and any piece of the model is a span. Tied parameters are there once, at their first use. Buffers
// (batch-norm statistics) are a third vector, without gradients.
//
// Lives on the compute thread. Unbinds its parameters when it is destroyed.
class ParameterStore {
 public:
  // Binds `parameters` and `buffers`, uninitialised, on `device`. Throws Error if memory is short.
  ParameterStore(std::span<const Parameter> parameters, std::span<const Parameter> buffers,
                 at::Device device = at::kCPU);
  ~ParameterStore();
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  void initialize(std::uint64_t seed);

  // The same for whoever is given its parameters by somebody else: they are 0, which costs much less than random
  // numbers. Buffers are what they are at the beginning.
  void begin_empty();
  void zero_gradients();

  // Moves the values to memory of their own, and binds the parameters there. What autograd has saved stays where it is,
  // for as long as it is needed; memory that nobody needs any more is used again.
  void renew();

  const at::Tensor& values() const { return values_; }        // (P)
  const at::Tensor& gradients() const { return gradients_; }  // (P)
  const at::Tensor& buffers() const { return buffers_; }
  std::int64_t size() const { return values_.numel(); }

  // One range per parameter, in flat order.
  std::span<const ParameterRange> ranges() const { return ranges_; }

  // Parameters first, then buffers; each once, in flat order.
  std::vector<Parameter> entries() const;

 private:
  void bind();

  std::vector<Parameter> parameters_;
  std::vector<Parameter> buffer_entries_;
  std::vector<ParameterRange> ranges_;
  at::Tensor values_, gradients_, buffers_;
  std::vector<at::Tensor> earlier_;  // values that were left to autograd
};

// The memory of a contiguous float tensor on the CPU. The tensor must outlive the span.
std::span<float> floats(const at::Tensor& tensor);

}  // namespace rookery
