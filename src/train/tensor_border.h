#pragma once

#include "pipeline/border.h"
#include "tensor/batch.h"

namespace rookery::train {

// Tensors as what crosses a border, and back. Nothing is copied, unless a tensor is not contiguous or not in the
// computer's own memory: each keeps the other's memory. What is not defined stays so. Throws InputError on a type that
// cannot cross.
pipeline::Border to_border(const Tensors& tensors);
Tensors to_tensors(const pipeline::Border& border);

}  // namespace rookery::train
