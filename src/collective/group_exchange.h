#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "collective/codec.h"
#include "net/link.h"

namespace rookery::collective {

struct ExchangeOptions {
  Codec codec = Codec::kNone;
  std::size_t chunk_bytes = 256 * 1024;       // of floats; the same on every member
  Duration stall = std::chrono::seconds(30);  // how long nothing may move once all others have begun
};

// Gossip within a small group, again and again: every member sends its values to every other, and mixes what comes. Two
// members are a pair; with more, each sends its values several times, and an all-reduce is cheaper for large groups.
//
// With codec none, member i ends with the sum over j of w_ij x_j, added up in the order of the members: members with
// the same weights end with the same bits. With a lossy codec Q it does x_i += sum over the others of w_ij (Q(x_j) -
// Q(x_i)), so that what the encoding loses never moves the mean (if w_ij = w_ji), and copies that agree stay as they
// are.
class GroupExchange {
 public:
  // `others`: the links to the other members, in the order of members; this one stands before others[place]. They
  // outlive this. The channel is the same on all links.
  GroupExchange(Clock& clock, const std::vector<net::Link*>& others, std::size_t place, net::ChannelId channel,
                ExchangeOptions options);
  ~GroupExchange();
  GroupExchange(const GroupExchange&) = delete;
  GroupExchange& operator=(const GroupExchange&) = delete;

  // `weights`: of all members in their order, this one included. Requires: all members pass as many values; one run at
  // a time. Throws LinkError when another member fails or is late; `values` are then unspecified, and the object is of
  // no more use.
  Task<> run(std::span<float> values, std::vector<float> weights);

  // Ends a run, on all members, and all later ones. Its memory is not touched from then on.
  void cancel(const net::LinkError& reason);

 private:
  class Run;

  Clock& clock_;
  std::size_t place_;
  ExchangeOptions options_;
  std::vector<std::unique_ptr<net::Channel>> channels_;
  std::shared_ptr<const net::LinkError> cancelled_;
};

}  // namespace rookery::collective
