#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/signal.h"
#include "base/task.h"
#include "net/error.h"
#include "net/pipe.h"
#include "wire/frame.h"

namespace rookery::net {

namespace internal {
class ChannelCore;
class Inbox;
class Outbox;
}  // namespace internal

using wire::ChannelId;

// The small typed header of a message; its meaning is up to whoever uses the channel.
struct Label {
  std::uint32_t type = 0;
  std::uint64_t tag = 0;

  bool operator==(const Label&) const = default;
};

// Takes the bytes of a message as they arrive, instead of a copy: adds them to something, or decodes and adds.
class Fold {
 public:
  virtual ~Fold() = default;

  // Each byte of the message comes once; pieces may come in any order. Offset and size are multiples of the grain, but
  // for the end of the message.
  virtual void operator()(std::size_t offset, ConstBytes bytes) = 0;

  // The smallest unit that makes sense alone: 4 for floats, a block for a block codec. Constant, and at most kMaxGrain.
  virtual std::size_t grain() const = 0;
  static constexpr std::size_t kMaxGrain = 8192;
};

// A message to send or to receive: posted on a channel, it ends once, done or with the channel's failure. After that it
// may be posted again. Destroying one that is posted closes the channel. Its memory must last until then, and is not
// touched afterwards.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  bool ended() const { return channel_ == nullptr; }

  // Waits for the end. Throws LinkError if it failed. Requires: was posted.
  Task<> finish();

 protected:
  ~Operation();

 private:
  friend class internal::ChannelCore;
  friend class internal::Inbox;
  friend class internal::Outbox;

  void begin(internal::ChannelCore& channel);
  void end(std::shared_ptr<const LinkError> failure = nullptr);

  internal::ChannelCore* channel_ = nullptr;  // while posted
  std::shared_ptr<const LinkError> failure_;
  Signal changed_;
};

// Done when its memory may be used again; the other end may not have it yet.
struct Send : Operation {
  Label label;
  ConstBytes payload;                     // the message is this,
  std::span<const ConstBytes> more = {};  // and then these
  std::size_t grain = 1;  // it is cut into frames at multiples of this. Requires: at most Fold::kMaxGrain
};

// Done when all of the message is in its place. The message has exactly the size that is expected; another is a
// failure.
struct Receive : Operation {
  MutableBytes into;     // where the message goes,
  Fold* fold = nullptr;  // or what takes it
  std::size_t size = 0;  // of the message, if it is folded
  Label label;           // afterwards: the message's

  std::size_t expected() const { return fold != nullptr ? size : into.size(); }
};

// A message that was received into memory of its own.
struct Message {
  Label label;
  std::vector<std::byte> payload;
};

// An ordered sequence of messages to the peer at the other end of a link, and one back.
//
// The n-th message is taken by the n-th receive. Credit is given by receives: a message is not sent before its receive
// has been posted, but for small ones, of which a fixed budget may travel ahead. So whatever a slow reader leaves
// unread costs no memory, and does not stop the other channels.
//
// Contract, checked for every transport by link_contract_test.cc:
//  - many sends and receives may be posted; each ends, once: done, or with an error;
//  - an error is final for the channel: it ends everything that was posted on it, at both ends;
//  - close() at one end fails the other's operations with the reason given, after what was sent before.
//
// Confined to the link's executor. Letting go of a channel closes it.
class Channel {
 public:
  // What may be sent to a channel before a receive was posted for it, unless an end opens it with a larger budget. Each
  // message counts kMessageCost and its size.
  static constexpr std::size_t kBudget = 64 * 1024;
  static constexpr std::size_t kMessageCost = 64;

  virtual ~Channel() = default;

  virtual const ChannelId& id() const = 0;
  virtual const std::string& peer() const = 0;

  // The caller keeps the operation, and the memory that it names, until it has ended. On a channel that has failed it
  // ends at once.
  virtual void post(Send& send) = 0;
  virtual void post(Receive& receive) = 0;

  // post and finish in one.
  Task<> send(Label label, ConstBytes payload = {});
  Task<Label> receive(MutableBytes into);

  // The next message of whatever size fits the budget. For control, where sizes are not known before.
  virtual Task<Message> receive() = 0;

  // Ends everything posted here and at the other end with `reason`. Does nothing on a channel that has failed.
  virtual void close(const LinkError& reason) = 0;
  void close() { close(LinkError(Failure::kClosed, "", "the channel was closed")); }
};

}  // namespace rookery::net
