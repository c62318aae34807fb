#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace rookery::kernels::internal {

// Working memory that is kept between calls and grows on demand; meant to be thread_local. Aligned to a page.
class Scratch {
 public:
  // At least `count` floats, uninitialised. Invalidates what an earlier call returned.
  float* reserve(std::int64_t count) {
    if (count > capacity_) {
      memory_.reset();  // first, so that old and new never exist together
      memory_.reset(static_cast<float*>(::operator new(sizeof(float) * static_cast<std::size_t>(count), kAlignment)));
      capacity_ = count;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(float* memory) const { ::operator delete(memory, kAlignment); }
  };

  std::unique_ptr<float, Free> memory_;
  std::int64_t capacity_ = 0;
};

// Rounded up to the next multiple of `step`.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

}  // namespace rookery::kernels::internal
