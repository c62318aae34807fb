#include "net/channel.h"

#include "net/internal/channel_core.h"

namespace rookery::net {

Operation::~Operation() {
  if (channel_ != nullptr) channel_->abandon();
}

void Operation::begin(internal::ChannelCore& channel) {
  ROOKERY_CHECK(channel_ == nullptr, "posted twice");
  channel_ = &channel;
  failure_ = nullptr;
}

void Operation::end(std::shared_ptr<const LinkError> failure) {
  channel_ = nullptr;
  failure_ = std::move(failure);
  changed_.notify();
}

Task<> Operation::finish() {
  while (!ended()) {
    auto wait = changed_.wait();
    co_await std::move(wait);
  }
  if (failure_) throw LinkError(*failure_);
}

Task<> Channel::send(Label label, ConstBytes payload) {
  Send send;
  send.label = label;
  send.payload = payload;
  post(send);
  auto finished = send.finish();
  co_await std::move(finished);
}

Task<Label> Channel::receive(MutableBytes into) {
  Receive receive;
  receive.into = into;
  post(receive);
  auto finished = receive.finish();
  co_await std::move(finished);
  co_return receive.label;
}

}  // namespace rookery::net
