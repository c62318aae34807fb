#include "tensor/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <unordered_set>
#include <utility>

#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"
#include "base/random.h"
#include "tensor/kernels/parallel.h"

namespace rookery {
namespace {

// A word that keeps the draws of initialisation apart from every other use of the seed.
constexpr std::uint64_t kInitialisation = 0x696e6974;

double unit_interval(std::uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

// Four values from one block of bits: two Box-Muller pairs, or four uniform draws.
std::array<float, 4> draws(const Initializer& init, const std::array<std::uint32_t, 4>& bits) {
  std::array<float, 4> values;
  if (init.kind == Initializer::Kind::kUniform) {
    for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(init.value * (2 * unit_interval(bits[i]) - 1));
    return values;
  }
  for (int i = 0; i < 4; i += 2) {
    const double radius = init.value * std::sqrt(-2 * std::log(unit_interval(bits[i])));
    const double angle = 2 * std::numbers::pi * unit_interval(bits[i + 1]);
    values[i] = static_cast<float>(radius * std::cos(angle));
    values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return values;
}

void fill(const ParameterSpec& spec, std::uint64_t seed, const at::Tensor& tensor) {
  if (spec.initializer.kind == Initializer::Kind::kConstant) {
    tensor.fill_(spec.initializer.value);
    return;
  }
  const Random random({seed, kInitialisation, word_of(spec.name)});
  at::Tensor host = at::empty({spec.elements()}, at::kFloat);
  const std::span<float> values = floats(host);
  const auto blocks = static_cast<std::int64_t>((values.size() + 3) / 4);
  kernels::parallel_for(blocks, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const auto four = draws(spec.initializer, random.block(static_cast<std::uint64_t>(b)));
      for (std::size_t i = 0; i < 4 && 4 * b + i < values.size(); ++i) values[4 * b + i] = four[i];
    }
  });
  tensor.copy_(host.view(tensor.sizes()));
}

// The same list without the second and later uses of a tied parameter.
std::vector<Parameter> distinct(std::span<const Parameter> parameters) {
  std::vector<Parameter> result;
  std::unordered_set<std::string> names;
  for (const Parameter& parameter : parameters) {
    if (std::find(result.begin(), result.end(), parameter) != result.end()) continue;
    ROOKERY_CHECK(names.insert(parameter.spec().name).second, "two parameters are named {}", parameter.spec().name);
    result.push_back(parameter);
  }
  return result;
}

std::int64_t total(std::span<const Parameter> parameters) {
  return std::accumulate(parameters.begin(), parameters.end(), std::int64_t{0},
                         [](std::int64_t sum, const Parameter& p) { return sum + p.spec().elements(); });
}

}  // namespace

std::int64_t ParameterSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies{});
}

Parameter::Parameter(ParameterSpec spec) : state_(std::make_shared<State>(State{std::move(spec), {}})) {}

const at::Tensor& Parameter::tensor() const {
  ROOKERY_CHECK(state_->tensor.defined(), "{} is not bound to a store", state_->spec.name);
  return state_->tensor;
}

ParameterStore::ParameterStore(std::span<const Parameter> parameters, std::span<const Parameter> buffers,
                               at::Device device)
    : parameters_(distinct(parameters)), buffer_entries_(distinct(buffers)) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  values_ = at::empty({total(parameters_)}, options);
  gradients_ = at::zeros({total(parameters_)}, options);
  buffers_ = at::zeros({total(buffer_entries_)}, options);

  std::int64_t begin = 0;
  for (const Parameter& parameter : parameters_) {
    const ParameterSpec& spec = parameter.spec();
    ROOKERY_CHECK(!parameter.state_->tensor.defined(), "{} is bound already", spec.name);
    ranges_.push_back({begin, begin + spec.elements(), spec.decay});
    begin = ranges_.back().end;
  }
  bind();
  begin = 0;
  for (const Parameter& buffer : buffer_entries_) {
    buffer.state_->tensor = buffers_.narrow(0, begin, buffer.spec().elements()).view(buffer.spec().shape);
    begin += buffer.spec().elements();
  }
}

void ParameterStore::bind() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto [begin, end, decay] = ranges_[i];
    const std::vector<std::int64_t>& shape = parameters_[i].spec().shape;
    at::Tensor leaf = values_.narrow(0, begin, end - begin).view(shape).detach();
    leaf.set_requires_grad(true);
    leaf.mutable_grad() = gradients_.narrow(0, begin, end - begin).view(shape);
    parameters_[i].state_->tensor = std::move(leaf);
  }
}

void ParameterStore::renew() {
  const auto is_free = [](const at::Tensor& values) { return values.storage().use_count() == 1; };
  const auto found = std::ranges::find_if(earlier_, is_free);
  if (found == earlier_.end()) {
    earlier_.push_back(std::exchange(values_, values_.clone()));
  } else {
    found->copy_(values_);
    std::swap(*found, values_);
  }
  bind();
}

ParameterStore::~ParameterStore() {
  for (const Parameter& entry : entries()) entry.state_->tensor.reset();
}

void ParameterStore::initialize(std::uint64_t seed) {
  for (const Parameter& entry : entries()) fill(entry.spec(), seed, entry.tensor().detach());
}

void ParameterStore::begin_empty() {
  values_.zero_();
  for (const Parameter& buffer : buffer_entries_) fill(buffer.spec(), 0, buffer.tensor());
}

void ParameterStore::zero_gradients() { gradients_.zero_(); }

std::vector<Parameter> ParameterStore::entries() const {
  std::vector<Parameter> all = parameters_;
  all.insert(all.end(), buffer_entries_.begin(), buffer_entries_.end());
  return all;
}

std::span<float> floats(const at::Tensor& tensor) {
  ROOKERY_CHECK(tensor.is_contiguous() && tensor.scalar_type() == at::kFloat && tensor.device().is_cpu());
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace rookery
