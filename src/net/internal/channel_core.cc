#include "net/internal/channel_core.h"

#include "net/internal/link_core.h"

namespace rookery::net::internal {

ChannelCore::~ChannelCore() {
  fail(std::make_shared<LinkError>(Failure::kCancelled, link_.peer(), "the channel was given up"));
}

void ChannelCore::post(Send& send) {
  send.begin(*this);
  outbox.post(send);
  link_.wants_to_send(*this);
}

void ChannelCore::post(Receive& receive) {
  receive.begin(*this);
  try {
    inbox.post(receive);
  } catch (const wire::WireError& error) {
    receive.end(link_.fail(Failure::kProtocol, error.what()));
    return;
  }
  link_.owes_credit(*this);
}

Task<Message> ChannelCore::receive(std::shared_ptr<ChannelCore> self) {
  const std::uint64_t number = self->inbox.expect_any();
  for (;;) {
    auto message = self->inbox.take(number);
    if (message) {
      if (!self->failure_) self->link_.owes_credit(*self);
      co_return std::move(*message);
    }
    if (self->failure_) throw LinkError(*self->failure_);
    auto wait = self->completed_.wait();
    co_await std::move(wait);
  }
}

void ChannelCore::close(const LinkError& reason) {
  if (!failure_) link_.close_channel(*this, reason);
}

void ChannelCore::abandon() { close(LinkError(Failure::kCancelled, "", "gave up an operation")); }

void ChannelCore::release() {
  close(LinkError(Failure::kClosed, "", "the channel was closed"));
  inbox.drop_all();
}

void ChannelCore::granted(std::uint64_t total) {
  outbox.grant(total);
  link_.wants_to_send(*this);
}

void ChannelCore::piece_ended(const wire::FrameHeader& piece) {
  if (inbox.end_piece(piece)) completed_.notify();
}

void ChannelCore::fail(std::shared_ptr<const LinkError> failure) {
  if (failure_) return;
  failure_ = failure;
  inbox.fail(failure);
  outbox.fail(failure);
  completed_.notify();
}

}  // namespace rookery::net::internal
