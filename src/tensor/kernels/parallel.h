#pragma once

#include <algorithm>
#include <cstdint>

#include <omp.h>

#ifdef __SANITIZE_THREAD__
#include <thread>
#include <vector>
#endif

namespace rookery::kernels {
namespace internal {

#ifdef __SANITIZE_THREAD__

// The thread sanitizer cannot see the barriers of libgomp, so under it the team is made of plain threads.
inline thread_local bool inside_team = false;

inline bool in_parallel() { return inside_team; }

template <typename F>
void run_team(int threads, const F& f) {
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) {
    team.emplace_back([&f, i, threads] {
      inside_team = true;
      f(i, threads);
    });
  }
  for (std::thread& thread : team) thread.join();
}

#else

inline bool in_parallel() { return omp_in_parallel(); }

// Calls f(thread, team size) once in each thread of a team of at most `threads`.
template <typename F>
void run_team(int threads, const F& f) {
#pragma omp parallel num_threads(threads)
  f(omp_get_thread_num(), omp_get_num_threads());
}

#endif

}  // namespace internal

// Calls f(begin, end) on ranges that cover [0, n) once, one range per OpenMP thread, and returns when all are done.
// Runs f(0, n) in the calling thread if n <= grain, if only one thread is allowed, or inside a parallel region.
// Every range but the last is a multiple of `grain` long, so a kernel whose blocks are `grain` items sees the same
// blocks however many threads run. Requires: grain > 0; f does not throw.
template <typename F>
void parallel_for(std::int64_t n, std::int64_t grain, F f) {
  if (n <= 0) return;
  const std::int64_t blocks = (n + grain - 1) / grain;
  const int threads = static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), blocks));
  if (threads <= 1 || internal::in_parallel()) {
    f(std::int64_t{0}, n);
    return;
  }
  internal::run_team(threads, [&](std::int64_t thread, std::int64_t team) {
    const std::int64_t begin = blocks * thread / team * grain;
    const std::int64_t end = std::min(n, blocks * (thread + 1) / team * grain);
    if (begin < end) f(begin, end);
  });
}

}  // namespace rookery::kernels
