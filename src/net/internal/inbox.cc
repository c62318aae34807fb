#include "net/internal/inbox.h"

#include <algorithm>
#include <cstring>

namespace rookery::net::internal {
namespace {

constexpr std::size_t kMaxGaps = 64;  // in a message whose pieces race

std::size_t cost_of(std::size_t size) { return size + Channel::kMessageCost; }

}  // namespace

Inbox::Incoming* Inbox::find(std::uint64_t number) {
  if (number < first_ || number - first_ >= window_.size()) return nullptr;
  return &window_[number - first_];
}

Inbox::Incoming& Inbox::slot(std::uint64_t number) {
  while (number - first_ >= window_.size()) window_.emplace_back();
  return window_[number - first_];
}

void Inbox::widen(std::size_t budget) {
  ROOKERY_CHECK(budget >= budget_, "budget = {}", budget);
  granted_ += budget - budget_;
  budget_ = budget;
}

void Inbox::post(Receive& receive) {
  const std::uint64_t number = next_receive_++;
  Incoming& incoming = slot(number);
  if (failure_ && !incoming.complete()) {
    incoming.finished = true;
    receive.end(failure_);
    return drop_finished();
  }
  if (incoming.begun && incoming.size != receive.expected()) {
    throw wire::WireError("a message of {} bytes where {} were expected", incoming.size, receive.expected());
  }
  incoming.receive = &receive;
  granted_ += cost_of(receive.expected());
  // It has been asked for now, though it is still kept here: the grant lets others come in its place, which may
  // overtake what is missing of it.
  if (incoming.parked) parked_ -= cost_of(incoming.size);
  if (incoming.complete()) deliver(incoming);
}

std::uint64_t Inbox::expect_any() {
  slot(next_receive_);
  return next_receive_++;
}

std::optional<Message> Inbox::take(std::uint64_t number) {
  Incoming* incoming = find(number);
  if (incoming == nullptr || !incoming->complete()) return std::nullopt;
  Message message{.label = incoming->label, .payload = std::move(incoming->buffer)};
  granted_ += cost_of(incoming->size);
  parked_ -= cost_of(incoming->size);
  incoming->finished = true;
  drop_finished();
  return message;
}

void Inbox::begin_piece(const wire::FrameHeader& piece) {
  if (failure_) return;
  const Incoming* incoming = find(piece.message);
  if (piece.message < first_ || (incoming != nullptr && incoming->complete())) {
    throw wire::WireError("more of message {}, which was complete", piece.message);
  }
  if (incoming == nullptr || !incoming->begun) begin_message(piece);
  claim(*find(piece.message), piece);
}

void Inbox::begin_message(const wire::FrameHeader& piece) {
  const std::size_t cost = cost_of(piece.size);
  const Incoming* known = find(piece.message);
  const Receive* receive = known == nullptr ? nullptr : known->receive;
  if (cost > granted_ - used_) {
    throw wire::WireError("a message of {} bytes with a credit of {}", piece.size, granted_ - used_);
  }
  if (receive != nullptr && receive->expected() != piece.size) {
    throw wire::WireError("a message of {} bytes where {} were expected", piece.size, receive->expected());
  }
  if (receive == nullptr && cost > budget_ - parked_) {
    throw wire::WireError("a message of {} bytes that nobody asked for", piece.size);
  }
  if (piece.message >= next_receive_ + budget_ / Channel::kMessageCost) {  // more than the budget could pay for
    throw wire::WireError("message {} far ahead of its turn", piece.message);
  }
  Incoming& incoming = slot(piece.message);
  incoming.begun = true;
  incoming.size = piece.size;
  incoming.label = {piece.type, piece.tag};
  incoming.parked = receive == nullptr;
  used_ += cost;
  if (incoming.parked) {
    parked_ += cost;
    incoming.buffer.resize(piece.size);
  }
}

void Inbox::claim(Incoming& incoming, const wire::FrameHeader& piece) {
  if (piece.size != incoming.size || Label{piece.type, piece.tag} != incoming.label) {
    throw wire::WireError("pieces of message {} that do not agree", piece.message);
  }
  const std::size_t begin = piece.offset, end = piece.offset + piece.length;
  if (!incoming.parked) {
    const Fold* fold = incoming.receive->fold;
    const std::size_t grain = fold == nullptr ? 1 : fold->grain();
    if (begin % grain != 0 || (end % grain != 0 && end != incoming.size)) {
      throw wire::WireError("a piece of message {} that cuts what belongs together", piece.message);
    }
  }
  auto& claimed = incoming.claimed;
  const auto after = std::ranges::lower_bound(claimed, begin, {}, &std::pair<std::size_t, std::size_t>::first);
  const bool overlaps_next = after != claimed.end() && after->first < end;
  const bool overlaps_last = after != claimed.begin() && std::prev(after)->second > begin;
  if (overlaps_next || overlaps_last) throw wire::WireError("pieces of message {} that overlap", piece.message);
  if (after != claimed.begin() && std::prev(after)->second == begin) {
    std::prev(after)->second = end;
  } else if (claimed.size() < kMaxGaps) {
    claimed.insert(after, {begin, end});
  } else {
    throw wire::WireError("message {} in too many pieces", piece.message);
  }
}

MutableBytes Inbox::memory_for(std::uint64_t number, std::size_t offset, std::size_t length) {
  Incoming* incoming = find(number);
  if (incoming == nullptr || failure_) return {};
  if (incoming->parked) return MutableBytes(incoming->buffer).subspan(offset, length);
  const Receive* receive = incoming->receive;
  if (receive == nullptr || receive->fold != nullptr) return {};
  return receive->into.subspan(offset, length);
}

void Inbox::put(std::uint64_t number, std::size_t offset, ConstBytes bytes) {
  const Incoming* incoming = find(number);
  if (incoming == nullptr || incoming->receive == nullptr || failure_) return;
  (*incoming->receive->fold)(offset, bytes);
}

std::size_t Inbox::grain(std::uint64_t number) {
  const Incoming* incoming = find(number);
  if (incoming == nullptr || incoming->receive == nullptr || failure_) return 1;
  return incoming->receive->fold->grain();
}

bool Inbox::end_piece(const wire::FrameHeader& piece) {
  Incoming* incoming = find(piece.message);
  if (incoming == nullptr || failure_) return false;
  incoming->arrived += piece.length;
  if (!incoming->complete()) return false;
  if (incoming->receive != nullptr) deliver(*incoming);
  return true;
}

void Inbox::deliver(Incoming& incoming) {
  Receive& receive = *incoming.receive;
  if (incoming.parked) {
    if (receive.fold != nullptr) {
      (*receive.fold)(0, incoming.buffer);
    } else {
      std::ranges::copy(incoming.buffer, receive.into.begin());
    }
    incoming.buffer = {};
  }
  receive.label = incoming.label;
  incoming.receive = nullptr;
  incoming.finished = true;
  receive.end();
  drop_finished();
}

void Inbox::drop_finished() {
  while (!window_.empty() && window_.front().finished) {
    window_.pop_front();
    ++first_;
  }
}

void Inbox::drop_all() {
  ROOKERY_CHECK(failure_);
  first_ += window_.size();
  window_.clear();
}

void Inbox::fail(std::shared_ptr<const LinkError> failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  for (Incoming& incoming : window_) {
    Receive* receive = std::exchange(incoming.receive, nullptr);
    if (receive == nullptr) continue;
    incoming.finished = true;
    receive->end(failure_);
  }
  drop_finished();
}

}  // namespace rookery::net::internal
