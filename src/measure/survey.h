#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "net/link.h"

namespace rookery::measure {

// The way from another peer to this one.
struct SurveyedLink {
  std::size_t peer = 0;      // its rank
  double bandwidth = 0;      // bytes/s from there to here; 0: the two have not met
  double latency = 0;        // seconds, one way; 0: likewise
  double while_sharing = 0;  // bytes/s while it was sending to others, too; 0: not tried

  bool operator==(const SurveyedLink&) const = default;
};

// So many others a peer sends to at once, when it is tried whether its links share a network card.
constexpr std::size_t kSharing = 2;

struct SurveyOptions {
  std::size_t most_partners = 15;                // of each peer, if there are more others
  Duration patience = std::chrono::seconds(20);  // with a partner
};

// Finds out what the links of a swarm can carry: every peer calls this at the same time, with the same options. Peers
// pair off, again and again, until each has met every other, or as many as there may be; what they send each other is
// a few tens of milliseconds' worth. Then everybody sends to `kSharing` others at once, which tells whether links share
// a network card. It ends for a peer when it has come to its end for all that it has met.
//
// `links`: to all peers by rank; nullptr for its own. They outlive this. Throws LinkError with the name of a peer that
// is lost, or does not answer; its link is closed then.
Task<std::vector<SurveyedLink>> survey(Clock& clock, std::size_t rank, std::vector<net::Link*> links,
                                       SurveyOptions options = {});

// Who meets whom: the partner of each peer in a round, or itself if it has none. In as many rounds as there are others
// (one more if the number is odd) each meets every other once.
std::vector<std::size_t> partners(std::size_t peers, std::size_t round);

}  // namespace rookery::measure
