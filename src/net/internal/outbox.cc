#include "net/internal/outbox.h"

#include <algorithm>

namespace rookery::net::internal {
namespace {

std::size_t size_of(const Send& send) {
  std::size_t size = send.payload.size();
  for (const ConstBytes part : send.more) size += part.size();
  return size;
}

}  // namespace

void Outbox::post(Send& send) {
  if (failure_) return send.end(failure_);
  ROOKERY_CHECK(send.grain > 0 && send.grain <= Fold::kMaxGrain, "grain = {}", send.grain);
  queue_.push_back({.send = &send, .size = size_of(send)});
}

void Outbox::grant(std::uint64_t granted) { granted_ = std::max(granted_, granted); }

Outbox::Outgoing* Outbox::current() { return current_ - first_ < queue_.size() ? &queue_[current_ - first_] : nullptr; }

const Outbox::Outgoing* Outbox::current() const { return const_cast<Outbox*>(this)->current(); }

bool Outbox::ready() const {
  const Outgoing* next = current();
  if (next == nullptr || failure_) return false;
  return next->begun || next->size + Channel::kMessageCost <= granted_ - used_;
}

Outbox::Piece Outbox::next(ChannelId id, std::size_t limit) {
  ROOKERY_CHECK(ready());
  Outgoing& out = *current();
  const std::size_t grain = out.send->grain;
  limit = std::max(limit / grain, std::size_t{1}) * grain;
  const std::size_t length = std::min({limit, out.size - out.cut, std::size_t{wire::kMaxFrameBytes / grain * grain}});
  const Piece piece{.header = {.kind = wire::FrameKind::kData,
                               .length = static_cast<std::uint32_t>(length),
                               .channel = id,
                               .message = current_,
                               .size = out.size,
                               .offset = out.cut,
                               .tag = out.send->label.tag,
                               .type = out.send->label.type},
                    .send = out.send};
  if (!out.begun) used_ += out.size + Channel::kMessageCost;
  out.begun = true;
  out.cut += length;
  if (out.cut == out.size) ++current_;
  return piece;
}

void Outbox::written(const Piece& piece) {
  if (failure_) return;
  Outgoing& out = queue_[piece.header.message - first_];
  out.written += piece.header.length;
  if (out.written < out.size) return;
  out.finished = true;
  out.send->end();
  while (!queue_.empty() && queue_.front().finished) {
    queue_.pop_front();
    ++first_;
  }
}

void Outbox::fail(std::shared_ptr<const LinkError> failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  for (const Outgoing& out : queue_) {
    if (!out.finished) out.send->end(failure_);
  }
  queue_.clear();
}

void append_parts(const Send& send, std::size_t begin, std::size_t length, std::vector<ConstBytes>& parts) {
  const auto append = [&](ConstBytes part) {
    if (begin >= part.size()) {
      begin -= part.size();
      return;
    }
    const std::size_t taken = std::min(length, part.size() - begin);
    if (taken > 0) parts.push_back(part.subspan(begin, taken));
    length -= taken;
    begin = 0;
  };
  append(send.payload);
  for (const ConstBytes part : send.more) append(part);
}

}  // namespace rookery::net::internal
