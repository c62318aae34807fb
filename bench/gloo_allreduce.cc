// gloo_allreduce PEERS BYTES ITERATIONS: forks the peers; seconds of each iteration, the slowest peer's, as a JSON
// list.
#include <cstdlib>
#include <filesystem>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives_timing.h"

namespace {

template <typename T>
void all_reduce(const std::shared_ptr<gloo::Context>& context, T* values, std::size_t count,
                void (*combine)(void*, const void*, const void*, std::size_t), std::uint32_t tag) {
  gloo::AllreduceOptions options(context);
  options.setOutput(values, count);
  options.setReduceFunction(combine);
  options.setTag(tag);
  gloo::allreduce(options);
}

void run(int rank, int peers, std::size_t bytes, int iterations, const std::string& folder) {
  const auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, peers);
  gloo::rendezvous::FileStore files(folder);
  gloo::rendezvous::PrefixStore store("bench", files);
  auto same_device = std::shared_ptr<gloo::transport::Device>(device);
  context->connectFullMesh(store, same_device);
  std::vector<float> values(bytes / sizeof(float));
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUp + iterations; ++i) {
    fill(values, rank);
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    const double start = now();
    all_reduce(context, values.data(), values.size(), &gloo::sum<float>, 1);
    double slowest = now() - start;
    if (!correct(values, peers)) std::abort();
    all_reduce(context, &slowest, 1, &gloo::max<double>, 2);
    if (i >= kWarmUp) seconds.push_back(slowest);
  }
  if (rank == 0) print_seconds(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int peers = std::atoi(argv[1]), iterations = std::atoi(argv[3]);
  const std::size_t bytes = std::strtoull(argv[2], nullptr, 10);
  char folder[] = "/tmp/rookery-gloo-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  std::vector<pid_t> children;
  for (int rank = 1; rank < peers; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      run(rank, peers, bytes, iterations, folder);
      ::_exit(0);
    }
    children.push_back(child);
  }
  run(0, peers, bytes, iterations, folder);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
}
