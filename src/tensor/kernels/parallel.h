#pragma once

#include <algorithm>
#include <cstdint>
#include <omp.h>

namespace rookery::kernels {

// Calls f(begin, end) on ranges that cover [0, n) once, one range per OpenMP thread, and returns when all are done.
// Runs f(0, n) in the calling thread if n <= grain, if only one thread is allowed, or inside a parallel region.
// Every range but the last is a multiple of `grain` long, so a kernel whose blocks are `grain` items sees the same
// blocks however many threads run. Requires: grain > 0; f does not throw.
template <typename F>
void parallel_for(std::int64_t n, std::int64_t grain, F f) {
  if (n <= 0) return;
  const std::int64_t blocks = (n + grain - 1) / grain;
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), blocks));
  if (threads <= 1 || omp_in_parallel()) {
    f(std::int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t thread = omp_get_thread_num(), team = omp_get_num_threads();
    const std::int64_t begin = blocks * thread / team * grain;
    const std::int64_t end = std::min(n, blocks * (thread + 1) / team * grain);
    if (begin < end) f(begin, end);
  }
}

}  // namespace rookery::kernels
