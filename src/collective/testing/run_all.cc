#include "collective/testing/run_all.h"

namespace rookery::collective::testing {

std::vector<Outcome> run_all(VirtualWorld& world, std::size_t peers, const std::function<Task<>(std::size_t)>& task,
                             Time limit) {
  std::vector<Outcome> outcomes(peers);
  const auto guarded = [&](std::size_t rank) -> Task<> {
    try {
      auto running = task(rank);
      co_await std::move(running);
    } catch (const net::LinkError& error) {
      outcomes[rank] = error;
    }
  };
  TaskGroup group(world.executor());
  for (std::size_t rank = 0; rank < peers; ++rank) group.spawn(guarded(rank));
  world.run(group.join(), limit);
  return outcomes;
}

}  // namespace rookery::collective::testing
