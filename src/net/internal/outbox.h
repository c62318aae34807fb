#pragma once

#include <memory>
#include <vector>

#include <boost/container/deque.hpp>

#include "net/channel.h"

namespace rookery::net::internal {

// The sending half of a channel: what waits to be sent, and how much the other end allows (see Inbox).
class Outbox {
 public:
  // A part of a message that a lane is to write.
  struct Piece {
    wire::FrameHeader header;
    Send* send = nullptr;
  };

  Outbox() = default;
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void post(Send& send);

  // The other end has granted so much since the beginning. Less than before says nothing: lanes overtake each other.
  void grant(std::uint64_t granted);

  // Whether there is something to send, and credit for it.
  bool ready() const;

  // The next piece, of at most `limit` bytes. Requires: ready()
  Piece next(ChannelId id, std::size_t limit);

  // The pipe has taken the piece; its message may be done.
  void written(const Piece& piece);

  // Ends everything with the failure, now or when it is posted.
  void fail(std::shared_ptr<const LinkError> failure);

 private:
  struct Outgoing {
    Send* send = nullptr;
    std::size_t size = 0;
    std::size_t cut = 0;      // bytes that have gone into pieces
    std::size_t written = 0;  // bytes that a pipe has taken
    bool begun = false;
    bool finished = false;
  };

  Outgoing* current();  // the message that is being cut into pieces, or the next one
  const Outgoing* current() const;

  // As Inbox has it.
  boost::container::deque<Outgoing> queue_;  // messages that are not finished
  std::uint64_t first_ = 0;                  // number of the queue's front
  std::uint64_t current_ = 0;                // number of the message that is next to be cut
  std::uint64_t granted_ = Channel::kBudget;
  std::uint64_t used_ = 0;
  std::shared_ptr<const LinkError> failure_;
};

// Appends the memory of [begin, begin + length) of a message to `parts`.
void append_parts(const Send& send, std::size_t begin, std::size_t length, std::vector<ConstBytes>& parts);

}  // namespace rookery::net::internal
