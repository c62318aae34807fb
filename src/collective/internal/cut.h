#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace rookery::collective::internal {

// Where a round's numbers are cut: into a piece for each peer, and pieces into chunks.
class Cut {
 public:
  Cut(std::size_t values, std::size_t peers, std::size_t chunk) : values_(values), peers_(peers), chunk_(chunk) {}

  // The same for all pieces, so that every step has as many messages; the last ones may be empty.
  std::size_t chunks() const { return ((values_ + peers_ - 1) / peers_ + chunk_ - 1) / chunk_; }

  std::span<float> of(std::span<float> all, std::size_t piece, std::size_t chunk) const {
    if (all.empty()) return {};
    const std::size_t begin = begin_of(piece), end = begin_of(piece + 1);
    const std::size_t from = std::min(begin + chunk * chunk_, end), to = std::min(from + chunk_, end);
    return all.subspan(from, to - from);
  }

  std::span<float> of(std::span<float> all, std::size_t piece) const {
    return all.empty() ? all : all.subspan(begin_of(piece), begin_of(piece + 1) - begin_of(piece));
  }

 private:
  std::size_t begin_of(std::size_t piece) const { return values_ * piece / peers_; }

  std::size_t values_, peers_, chunk_;
};

}  // namespace rookery::collective::internal
