#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace rookery::plan {

// What a peer does in one phase of a sum that is too large for one ring.
struct GridPhase {
  enum class Kind {
    kBring,   // those who have no place in the grid hand what they have to somebody who has,
    kAxis,    // the grid sums along an axis,
    kHandOn,  // and they get the result as it is
  };

  Kind kind = Kind::kAxis;
  std::size_t number = 0;            // the same for all members
  std::vector<std::size_t> members;  // of its ring: ranks, ascending, its own among them
  double share = 1;                  // of all values: each axis has to do only with what the ones before leave a peer
  bool brings = true;                // it has something to add

  bool operator==(const GridPhase&) const = default;
};

// Sums over many peers, in rings of at most `most`: peers stand in a grid. Along the first axis they scatter the sum,
// so that each is left with one piece of it; with that they go on along the next axis, and so on; then they gather the
// pieces, along one axis after another, back to the first. Each sends as much as in a single ring of all, in far fewer
// hops. Those for whom the grid has no place hand what they have to somebody in it before, and get the result
// afterwards.
//
// The phases of a peer, in order; those in which it is alone are left out. There are as many as the grid has axes,
// log(peers) / log(most), and two if some stand beside it. One phase with everybody if they are few enough.
// `together`: peers are in blocks of so many that are close to each other, and make up the first axis: what then leaves
// a block is a share of what its members would send.
// Requires: rank < peers, most >= 2, together divides peers
std::vector<GridPhase> grid_phases(std::size_t rank, std::size_t peers, std::size_t most, std::size_t together = 1);

// The same one axis at a time: with whom a peer averages in the first round, the second, and so on, until the rounds
// begin again with the first. After all of them everybody has something of everybody. Ranks, ascending, the peer's own
// among them; those with no place in the grid have a round with somebody in it.
// Requires: rank < peers, most >= 2
std::vector<std::vector<std::size_t>> grid_turns(std::size_t rank, std::size_t peers, std::size_t most);

// The size of the blocks of neighbours that are close to each other, if there are several blocks, all of one size;
// else 1.
std::size_t block_of(std::size_t peers, const std::function<bool(std::size_t, std::size_t)>& are_close);

}  // namespace rookery::plan
