#pragma once

#include <memory>

#include "net/channel.h"
#include "net/internal/inbox.h"
#include "net/internal/outbox.h"

namespace rookery::net::internal {

class LinkCore;

// A channel as its link sees it. It exists as soon as either end has opened it, and ends when both have closed it.
class ChannelCore {
 public:
  ChannelCore(LinkCore& link, ChannelId id) : link_(link), id_(id) {}
  ~ChannelCore();
  ChannelCore(const ChannelCore&) = delete;
  ChannelCore& operator=(const ChannelCore&) = delete;

  const ChannelId& id() const { return id_; }

  // For whoever has opened it.
  void post(Send& send);
  void post(Receive& receive);
  Task<Message> receive(std::shared_ptr<ChannelCore> self);
  void close(const LinkError& reason);
  void abandon();  // an operation is destroyed before its end
  void release();  // nobody reads any more what has come

  // For the link. fail() ends all operations, and tells nobody.
  void granted(std::uint64_t total);
  void piece_ended(const wire::FrameHeader& piece);
  void fail(std::shared_ptr<const LinkError> failure);
  bool failed() const { return failure_ != nullptr; }

  Inbox inbox;
  Outbox outbox;
  bool opened = false;         // by this end
  bool waits_to_send = false;  // is in the link's queue
  bool owes_credit = false;    // is in the link's queue of those that have granted more
  bool close_sent = false;
  std::size_t closes_received = 0;  // one on each lane

 private:
  LinkCore& link_;
  ChannelId id_;
  std::shared_ptr<const LinkError> failure_;
  Signal completed_;  // a message is complete, or the channel has failed
};

}  // namespace rookery::net::internal
