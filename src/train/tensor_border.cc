#include "train/tensor_border.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace rookery::train {

using pipeline::Border;
using pipeline::BorderTensor;
using wire::TensorType;

Border to_border(const Tensors& tensors) {
  Border border;
  for (const at::Tensor& tensor : tensors) {
    BorderTensor& out = border.tensors.emplace_back();
    if (!tensor.defined()) continue;
    const bool is_float = tensor.scalar_type() == at::kFloat;
    if (!is_float && tensor.scalar_type() != at::kLong) {
      throw InputError("a model cannot be cut where a tensor of type {} crosses", c10::toString(tensor.scalar_type()));
    }
    const auto kept = std::make_shared<const at::Tensor>(tensor.detach().cpu().contiguous());
    out.type = is_float ? TensorType::kFloat : TensorType::kInt64;
    for (const std::int64_t length : kept->sizes()) out.shape.push_back(static_cast<std::uint64_t>(length));
    out.bytes = {static_cast<const std::byte*>(kept->data_ptr()), kept->nbytes()};
    out.keeper = kept;
  }
  return border;
}

Tensors to_tensors(const Border& border) {
  Tensors tensors;
  for (const BorderTensor& in : border.tensors) {
    at::Tensor& tensor = tensors.emplace_back();
    if (in.type == TensorType::kNone) continue;
    const std::vector<std::int64_t> shape(in.shape.begin(), in.shape.end());
    // Whoever reads it does not write there.
    tensor = at::from_blob(
        const_cast<std::byte*>(in.bytes.data()), shape, [keeper = in.keeper](void*) {},
        at::TensorOptions().dtype(in.type == TensorType::kFloat ? at::kFloat : at::kLong));
  }
  return tensors;
}

}  // namespace rookery::train
