#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/container/deque.hpp>

#include "net/channel.h"

namespace rookery::net::internal {

// The receiving half of a channel: which message goes where, and how much the other end may send.
//
// Credit is counted in bytes, from the channel's beginning: every message costs its size and kMessageCost, and may be
// sent when the total stays within what was granted. A posted receive grants the cost of its message; so does taking a
// message that came without one. What has not been asked for is therefore never more than the budget.
//
// A frame that breaks a rule throws WireError.
class Inbox {
 public:
  Inbox() = default;
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  std::uint64_t granted() const { return granted_; }

  // Allows more to come unasked. Requires: at least as much as before
  void widen(std::size_t budget);

  // Takes the next message that nobody has asked for yet. If it is here already, the receive ends at once.
  void post(Receive& receive);

  // The same for a message of any size: its number. take() gives it when it is here, and none before.
  std::uint64_t expect_any();
  std::optional<Message> take(std::uint64_t number);

  // A piece of a message comes: first its header, then all its bytes, in order and in any portions, then its end.
  // Pieces of several lanes may come at the same time.
  void begin_piece(const wire::FrameHeader& piece);

  // Where these bytes of a piece belong, if that is plain memory; empty if they must be given to put().
  MutableBytes memory_for(std::uint64_t number, std::size_t offset, std::size_t length);

  // Gives bytes to the message's fold, in multiples of grain(); to nobody, if nobody wants them any more.
  void put(std::uint64_t number, std::size_t offset, ConstBytes bytes);
  std::size_t grain(std::uint64_t number);

  // True if that completes a message.
  bool end_piece(const wire::FrameHeader& piece);

  // Nothing more will come. Receives end with the failure, now or when they are posted, but for messages that are
  // complete.
  void fail(std::shared_ptr<const LinkError> failure);

  // Frees the messages that nobody has asked for. Requires: failed
  void drop_all();

 private:
  struct Incoming {
    Receive* receive = nullptr;  // who takes it, if anybody asked
    bool begun = false;          // size and label are known
    bool parked = false;         // it is kept in `buffer`, because nobody had asked for it
    bool finished = false;       // and gone to whoever took it
    std::size_t size = 0;
    std::size_t arrived = 0;
    Label label;
    std::vector<std::pair<std::size_t, std::size_t>> claimed;  // [begin, end) of the pieces that have begun, in order
    std::vector<std::byte> buffer;

    bool complete() const { return begun && arrived == size; }
  };

  Incoming* find(std::uint64_t number);
  Incoming& slot(std::uint64_t number);  // as find(), with the window widened to it
  void begin_message(const wire::FrameHeader& piece);
  void claim(Incoming& incoming, const wire::FrameHeader& piece);
  void deliver(Incoming& incoming);
  void drop_finished();

  // Messages that are asked for or have come, from the first that is not finished. Unlike std::deque, it takes no
  // memory before there is one, and most channels wait for the first.
  boost::container::deque<Incoming> window_;
  std::uint64_t first_ = 0;         // number of the window's front
  std::uint64_t next_receive_ = 0;  // number of the next message to be asked for
  std::size_t budget_ = Channel::kBudget;
  std::uint64_t granted_ = Channel::kBudget;
  std::uint64_t used_ = 0;  // cost of all messages that have begun
  std::size_t parked_ = 0;  // cost of those that are kept here and nobody has asked for
  std::shared_ptr<const LinkError> failure_;
};

}  // namespace rookery::net::internal
