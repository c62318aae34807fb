#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/span.h"
#include "collective/codec.h"
#include "net/link.h"
#include "sync/rounds.h"

namespace rookery::sync {

struct LinkRoundsOptions {
  std::uint32_t generation = 0;
  std::uint32_t segment = 0;  // each has channels of its own
  bool apart = false;         // not training, but evaluations and checkpoints: has channels and a count of its own
  std::size_t slots = 1;      // for averages
  std::size_t group = 16;     // the most members of a ring; with more peers averages go along the axes of a grid
  std::size_t together = 1;   // blocks of so many are on one computer each, and average among themselves first
  double scale = 1;           // how many values each one stands for
  collective::Codec codec = collective::Codec::kNone;
  Duration stall = std::chrono::seconds(30);  // how long nothing may move once every peer takes part
  BeginSpan watch{};                          // rounds, by segment
};

// Rounds over this peer's links. The collectives run on the clock's executor; whoever starts rounds may live on another
// one, its home.
//
// A failure is final: once a round has failed, all that follow fail with the same reason.
class LinkRounds final : public Rounds {
 public:
  // `links`: to every peer by its rank; nullptr for this one, and for those with whom it shares no round: averages need
  // the neighbours in each ring of plan::grid_phases(). They outlive this. Made, and destroyed, on the clock's
  // executor.
  LinkRounds(Clock& clock, Executor home, std::size_t rank, std::vector<net::Link*> links, LinkRoundsOptions options);
  ~LinkRounds() override;

  std::size_t rank() const override { return rank_; }
  std::size_t peers() const override { return peers_; }
  std::unique_ptr<Round> average(Which which, std::span<float> values, float share, std::span<float> lost) override;
  std::unique_ptr<Round> mix(std::uint64_t step, std::span<float> values, const plan::Mix& mix) override;

  // What rounds that are set apart have taken on a link.
  static net::Traffic apart_traffic(const net::Link& link);

  // Ends everything that is under way, on all peers, and all that would follow. On the clock's executor.
  void cancel(const net::LinkError& reason);

 private:
  struct Collectives;

  std::unique_ptr<Round> start(Task<> task, const char* what);

  Clock& clock_;
  Executor home_;
  std::size_t rank_, peers_, slots_;
  std::shared_ptr<Collectives> collectives_;
};

}  // namespace rookery::sync
