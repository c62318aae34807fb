#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/span.h"
#include "collective/codec.h"
#include "collective/robust_mean.h"
#include "net/link.h"
#include "plan/topology.h"
#include "sync/rounds.h"

namespace rookery::sync {

// Who has the place of a holder of a segment, if anybody does.
struct Holder {
  bool here = true;           // somebody is there, and takes part
  net::Link* link = nullptr;  // to it, unless it is this peer itself
  double weight = 1;          // in averages
  std::uint32_t since = 0;    // generation in which it came, or the last one left
  std::uint64_t from = 0;     // takes part in rounds that begin after so many steps
};

// Whoever has this place brings what cannot be right. On the clock's executor.
using Suspect = std::function<void(std::size_t place, const std::string& text)>;

struct ChangingRoundsOptions {
  std::uint32_t generation = 0;  // in which the run began
  std::uint32_t segment = 0;     // each has channels of its own
  bool apart = false;            // not training, but evaluations and checkpoints: has channels and a count of its own
  std::size_t slots = 1;
  std::size_t group = 16;                    // the most members of a round
  std::optional<plan::Topology> topology{};  // who mixes with whom: rounds are mixes then, not averages
  double scale = 1;                          // how many values each one stands for
  collective::Codec codec = collective::Codec::kNone;
  Duration stall = std::chrono::seconds(30);            // how long nothing may move once every member takes part
  BeginSpan watch{};                                    // rounds, by segment
  std::optional<collective::Robust> robust{};           // averages that a few liars cannot sway. Requires: codec none
  std::function<bool(std::size_t slot)> robust_slot{};  // of which slots; left out: of all
  Suspect suspect{};                                    // who lies; may be left out
  // Whoever says who has come or gone cannot be heard for now: those who wait for it have patience. May be left out.
  std::function<bool()> is_in_suspense{};
};

// Rounds among holders that come and go. With more than `group` of them each round is along one axis of a grid, in
// turn: it has few members, and a loss harms those alone. Rounds are by numbers, and so are turns.
//
// An average is the mean of those who take part, by their weights. When a member is lost, those who shared a ring with
// it make another one, and tell each other how far they are with the round that was under way. If one of them has
// finished it, the others get its result: it is kept until the next one, and so a round has one outcome. If none has,
// they repeat it. A round fails where somebody gave it up, or nothing moved for too long.
//
// With `robust` averages are not sums along the ring, but means of which each member takes a piece and sees what
// everybody brings to it. Whoever brings what is no number is suspected at once; whoever is only out of line, if it is
// in several rounds of a slot in a row, because that may happen to anybody once. Of results that a member has from
// before a loss, and of greetings, nothing is checked.
//
// With a topology its groups are the members of rounds, step by step. What a mix takes from those who are lost,
// everybody keeps of its own, and no result is kept for others: whoever did not get one goes on without, so that the
// mean of all may move a little when somebody is lost.
//
// The collectives run on the clock's executor; whoever starts rounds may live on another one, its home.
class ChangingRounds final : public Rounds {
 public:
  // `holder_of`: who is at a place now. Links outlive this, or at least those that are not there any more the next
  // change. Made, and destroyed, on the clock's executor.
  using HolderOf = std::function<Holder(std::size_t place)>;
  ChangingRounds(Clock& clock, Executor home, std::size_t rank, std::size_t places, HolderOf holder_of,
                 ChangingRoundsOptions options);
  ~ChangingRounds() override;

  std::size_t rank() const override { return rank_; }
  std::size_t peers() const override { return places_; }

  // `share` does not matter: see above. Requires: there is no topology
  std::unique_ptr<Round> average(Which which, std::span<float> values, float share, std::span<float> lost) override;

  // Requires: it is the topology's for the step before
  std::unique_ptr<Round> mix(std::uint64_t step, std::span<float> values, const plan::Mix& mix) override;

  std::uint64_t repeated() const;  // how often this peer's part in a round had to begin anew

  // Somebody has left this place, or has come to it; it may be this peer's own. On the clock's executor.
  void changed(std::size_t place);

  // Ends everything that is under way, on all peers, and all that would follow. On the clock's executor.
  void cancel(const net::LinkError& reason);

 private:
  class Core;

  Clock& clock_;
  Executor home_;
  std::size_t rank_, places_;
  std::shared_ptr<Core> core_;
};

}  // namespace rookery::sync
