#include "net/internal/lane.h"

#include <algorithm>

#include "net/internal/link_core.h"

namespace rookery::net::internal {
namespace {

constexpr std::size_t kTurn = 1 << 20;     // bytes to take before others get their turn
constexpr std::size_t kMaxFrames = 16;     // in one batch
constexpr std::size_t kMaxControl = 4096;  // frames that wait; more than an honest peer can cause

}  // namespace

Lane::Lane(LinkCore& link, std::unique_ptr<Pipe> pipe) : link_(link), pipe_(std::move(pipe)) {
  headers_.reserve(kMaxFrames);  // parts point into them
  contents_.reserve(kMaxFrames);
}

Task<> Lane::read(std::shared_ptr<LinkCore> link) {
  try {
    while (!link->stopped() && !goodbye_received_) {
      std::size_t taken = 0;
      for (std::size_t n = 1; n > 0 && taken < kTurn && !goodbye_received_; taken += n) n = take_some();
      link->heard(taken);
      if (taken > 0) {
        co_await yield();
      } else {
        auto readable = pipe_->readable();
        co_await std::move(readable);
      }
    }
  } catch (const wire::WireError& error) {
    link->fail(Failure::kProtocol, error.what());
  } catch (const LinkError& error) {
    link->fail(error.failure(), error.text());
  }
}

std::size_t Lane::take_some() {
  if (header_have_ < header_bytes_.size()) return take_header();
  return frame_.kind == wire::FrameKind::kData ? take_data() : take_content();
}

std::size_t Lane::take_header() {
  const std::size_t n = pipe_->read(MutableBytes(header_bytes_).subspan(header_have_));
  header_have_ += n;
  if (header_have_ < header_bytes_.size()) return n;
  frame_ = wire::decode_frame_header(header_bytes_);
  done_ = 0;
  if (frame_.kind == wire::FrameKind::kData) {
    channel_ = link_.channel_for(frame_.channel);
    channel_->inbox.begin_piece(frame_);
  } else {
    content_.resize(frame_.length);
  }
  if (frame_.length == 0) end_frame();
  return n;
}

std::size_t Lane::take_content() {
  const std::size_t n = pipe_->read(MutableBytes(content_).subspan(done_));
  done_ += n;
  if (done_ == frame_.length) end_frame();
  return n;
}

std::size_t Lane::take_data() {
  const std::size_t left = frame_.length - done_;
  const MutableBytes memory = channel_->inbox.memory_for(frame_.message, frame_.offset + done_, left);
  const std::size_t n = memory.empty() ? fold_data(left) : pipe_->read(memory);
  done_ += n;
  if (done_ == frame_.length) end_frame();
  return n;
}

// Folds what is there in whole grains, and keeps the rest. A channel that has failed wants nothing: then all is
// skipped.
std::size_t Lane::fold_data(std::size_t left) {
  Inbox& inbox = channel_->inbox;
  const std::size_t grain = inbox.grain(frame_.message);
  const ConstBytes bytes = pipe_->view(left);
  const bool is_end = bytes.size() == left;
  const std::size_t offset = frame_.offset + done_;
  ConstBytes rest = bytes;
  if (!grain_.empty()) {
    const std::size_t missing = std::min(grain - std::min(grain, grain_.size()), rest.size());
    const std::size_t begin = offset - grain_.size();
    grain_.insert(grain_.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(missing));
    rest = rest.subspan(missing);
    if (grain_.size() >= grain || (is_end && rest.empty())) {
      inbox.put(frame_.message, begin, grain_);
      grain_.clear();
    }
  }
  const std::size_t whole = is_end ? rest.size() : rest.size() / grain * grain;
  if (whole > 0) inbox.put(frame_.message, offset + (bytes.size() - rest.size()), rest.first(whole));
  grain_.insert(grain_.end(), rest.begin() + static_cast<std::ptrdiff_t>(whole), rest.end());
  pipe_->skip(bytes.size());
  return bytes.size();
}

void Lane::end_frame() {
  header_have_ = 0;
  grain_.clear();
  if (frame_.kind == wire::FrameKind::kData) {
    const auto channel = std::move(channel_);
    link_.received(frame_);
    // A piece that was taken back before it was read does not count. Its channel is being closed.
    if (!pipe_->were_taken_back()) channel->piece_ended(frame_);
  } else {
    goodbye_received_ = frame_.kind == wire::FrameKind::kGoodbye;
    link_.received(frame_, content_, *this);
  }
}

Task<> Lane::write(std::shared_ptr<LinkCore> link) {
  try {
    while (!link->stopped()) {
      if (parts_.empty() && !fill_batch()) {
        if (finishing_) break;
        auto wait = wake_.wait();
        co_await std::move(wait);
        continue;
      }
      const std::size_t n = pipe_->write(std::span(parts_).subspan(written_parts_));
      batch_written(n);
      link->sent(n);
      if (n > 0) {
        co_await yield();
      } else {
        auto writable = pipe_->writable();
        co_await std::move(writable);
      }
    }
  } catch (const LinkError& error) {
    link->fail(error.failure(), error.text());
  }
}

bool Lane::fill_batch() {
  headers_.clear();
  contents_.clear();
  while (headers_.size() < kMaxFrames && !control_.empty()) {
    Control control = std::move(control_.front());
    control_.pop_front();
    append_frame(control.header);
    if (control.content.empty()) continue;
    batched_ += control.content.size();
    contents_.push_back(std::move(control.content));
    parts_.push_back(contents_.back());
    owners_.push_back(nullptr);
  }
  while (headers_.size() < kMaxFrames) {
    const auto credit = link_.next_credit();
    if (!credit) break;
    append_frame(*credit);
  }
  std::size_t bytes = 0;
  while (headers_.size() < kMaxFrames && bytes < pipe_->piece() && !finishing_) {
    auto piece = link_.next_piece(pipe_->piece());
    if (!piece) break;
    auto& [channel, out] = *piece;
    const std::uint64_t begin = batched_;
    append_frame(out.header);
    append_parts(*out.send, out.header.offset, out.header.length, parts_);
    owners_.resize(parts_.size(), channel.get());
    bytes += out.header.length;
    batched_ += out.header.length;
    link_.sent(out.header, batched_ - begin);
    pieces_.push_back({std::move(channel), out, begin, batched_});
  }
  return !parts_.empty();
}

void Lane::append_frame(const wire::FrameHeader& header) {
  headers_.push_back(encode(header));
  parts_.push_back(headers_.back());
  owners_.push_back(nullptr);
  batched_ += wire::kFrameHeaderBytes;
}

void Lane::batch_written(std::size_t bytes) {
  written_ += bytes;
  end_written_pieces();
  while (bytes > 0) {
    ConstBytes& part = parts_[written_parts_];
    const std::size_t n = std::min(bytes, part.size());
    part = part.subspan(n);
    bytes -= n;
    if (part.empty()) ++written_parts_;
  }
  if (written_parts_ < parts_.size()) return;
  parts_.clear();
  owners_.clear();
  kept_.clear();
  written_parts_ = 0;
}

// The memory of a piece may be used again once the pipe has it all, and has got back what it lent.
void Lane::end_written_pieces() {
  while (has_written_pieces() && !pipe_->lends_before(pieces_.front().end)) {
    const Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    piece.channel->outbox.written(piece.out);
  }
  if (has_written_pieces()) lent_.notify();
}

Task<> Lane::settle(std::shared_ptr<LinkCore> link) {
  try {
    while (!link->stopped()) {
      if (!has_written_pieces()) {
        auto wait = lent_.wait();
        co_await std::move(wait);
        continue;
      }
      const std::uint64_t end = pieces_.front().end;
      auto returned = pipe_->returned(end);
      co_await std::move(returned);
      if (pipe_->lends_before(end)) break;  // the pipe has ended; whoever reads it will say so
      end_written_pieces();
    }
  } catch (const LinkError& error) {
    link->fail(error.failure(), error.text());
  }
}

void Lane::forget(const ChannelCore& channel) {
  for (const Piece& piece : pieces_) {
    if (piece.channel.get() == &channel) pipe_->take_back(piece.begin, piece.end);
  }
  for (std::size_t i = written_parts_; i < parts_.size(); ++i) {
    if (owners_[i] != &channel) continue;
    parts_[i] = kept_.emplace_back(parts_[i].begin(), parts_[i].end());
    owners_[i] = nullptr;
  }
}

void Lane::control(const wire::FrameHeader& header, std::vector<std::byte> content) {
  if (control_.size() >= kMaxControl) {
    link_.fail(Failure::kLate, "does not read what it is sent");
    return;
  }
  control_.push_back({header, std::move(content)});
  wake();
}

void Lane::finish() {
  finishing_ = true;
  wake();
}

}  // namespace rookery::net::internal
