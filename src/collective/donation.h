#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/link.h"

namespace rookery::collective {

struct DonationOptions {
  std::size_t chunk_bytes = 256 * 1024;       // the same at both ends
  std::size_t ahead = 4;                      // chunks that are asked of a donor before the first of them has come
  Duration stall = std::chrono::seconds(10);  // how long an end may say nothing
  Duration offer = std::chrono::seconds(10);  // how long a donor may take to say what it has
};

// What several donors have, all the same, goes to a peer that lacks it, chunk by chunk: whoever is faster gives more.
//
// Each donor first says what its chunks are, by their digests. What most of them have is what counts, of those who say
// so by a fifth of `stall` after half of all have; whoever has something else, or gives other bytes than it said, is
// left out, and its chunks are asked of the others. Nobody waits for a donor that says nothing while others give all.
//
// On the links' executor, both.

// What a donor has. Values stay what they are as long as somebody has them.
struct Donation {
  std::shared_ptr<const std::vector<float>> values;
  std::string digests;  // of its chunks
};

// Takes a while: a pass over all values. Anywhere.
Donation make_donation(std::shared_ptr<const std::vector<float>> values, const DonationOptions& options);

// Gives what is asked for, until the other end has all. Throws LinkError if that fails, or says nothing for too long.
Task<> donate(Clock& clock, net::Link& to, net::ChannelId channel, std::shared_ptr<const Donation> donation,
              DonationOptions options);

struct Collected {
  std::size_t chunks = 0;         // that were fetched,
  std::size_t had = 0;            // and that it had before
  std::vector<std::size_t> by{};  // how many each donor has given
};

// Fills `values` with what the donors have. Chunks that are there already are not fetched: after a failure, another
// call, perhaps with other donors, goes on from there. Throws LinkError if no donor is left.
Task<Collected> collect(Clock& clock, std::vector<net::Link*> donors, net::ChannelId channel, std::span<float> values,
                        DonationOptions options);

}  // namespace rookery::collective
