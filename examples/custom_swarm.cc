// A model of your own (reader.h), trained by a swarm of four local peers from a program of your own:
//
//   build/custom_swarm data/mnist runs/reader
#include <cstdio>

#include "base/error.h"
#include "reader.h"
#include "tensor/allocator.h"
#include "train/local_peers.h"
#include "train/swarm_run.h"

namespace {

using namespace rookery;

// Whatever is to be known about each step.
class Printer final : public observe::Sink {
 public:
  void step(const observe::StepMetrics& metrics) override {
    if (metrics.eval_loss)
      std::printf("step %ld: eval loss %.4f\n", static_cast<long>(metrics.step), *metrics.eval_loss);
  }
  void finish(const observe::Summary&) override {}
};

config::Settings settings(const std::string& data) {
  config::Settings s;
  s.model.kind = "reader";
  s.data.source = data;
  s.train.steps = 200;
  s.train.batch = 16;  // of every peer
  s.train.eval_every = 50;
  s.swarm.peers = 4;
  s.sync.method = "palsgd";
  s.sync.interval = 20;
  return s;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw InputError("usage: custom_swarm DATA RUN");
  install_tensor_allocator();
  reader::register_kind();
  const config::Settings s = settings(argv[1]);
  const train::RunDirectory directory(argv[2]);

  train::LocalPeers peers(static_cast<std::size_t>(s.swarm.peers));  // forks, so it comes before anything with threads
  train::SwarmRun run(s, directory, /*resume=*/false, {.local = true});
  run.add_sink(std::make_unique<Printer>());
  peers.join(run.ticket(), run.blueprint().settings, directory);  // or on other computers: join() with the ticket
  const std::atomic<bool> stop = false;
  const train::RunOutcome outcome = run.train(stop, [&] { peers.check(); });
  peers.wait(std::chrono::seconds(10));
  std::printf("test accuracy %.1f%%, %zu peers sent %.1f MB\n", 100 * outcome.summary.test_accuracy.value_or(0),
              outcome.summary.peers.size(), static_cast<double>(*outcome.summary.bytes_sent) / 1e6);
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "custom_swarm: %s\n", error.what());
  return 1;
}
