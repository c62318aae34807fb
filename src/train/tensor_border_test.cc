#include "train/tensor_border.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::train {
namespace {

TEST(TensorBorderTest, TensorsComeBackAsTheyWere) {
  const Tensors tensors = {at::randn({2, 3, 4}).transpose(0, 2), at::arange(5), at::Tensor(), at::randn({0, 2}),
                           at::randn({})};
  const Tensors back = to_tensors(to_border(tensors));
  ASSERT_EQ(back.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    ASSERT_EQ(back[i].defined(), tensors[i].defined()) << i;
    if (!tensors[i].defined()) continue;
    EXPECT_TRUE(at::equal(back[i], tensors[i])) << i;
  }
}

TEST(TensorBorderTest, NothingIsCopiedAndMemoryLastsAsLongAsItIsNeeded) {
  Tensors back;
  const void* memory = nullptr;
  {
    const at::Tensor tensor = at::ones({100});
    memory = tensor.data_ptr();
    back = to_tensors(to_border({tensor}));
  }
  EXPECT_EQ(back[0].data_ptr(), memory);
  EXPECT_EQ(back[0].sum().item<float>(), 100);
}

TEST(TensorBorderTest, OtherTypesDoNotCross) { EXPECT_THROW(to_border({at::ones({2}, at::kDouble)}), InputError); }

}  // namespace
}  // namespace rookery::train
