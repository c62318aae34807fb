#include "train/buddies.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "train/internal/purpose.h"

namespace rookery::train {
namespace {

using net::Failure;
using net::LinkError;

constexpr std::uint64_t kPatience = 4;      // intervals after which one must have been left out by somebody
constexpr std::size_t kPiece = 128 * 1024;  // bytes; what else has to pass does not wait for more

// By who sends: of two stages each is the other's next.
net::ChannelId channel_of(std::uint32_t since, std::size_t sender) {
  return {.purpose = internal::kBuddyPurpose, .generation = since, .index = static_cast<std::uint32_t>(sender)};
}

}  // namespace

std::shared_ptr<const Snapshot> Buddies::Two::after(std::uint64_t step) const {
  if (sure.what && sure.step == step) return sure.what;
  if (next.what && next.step == step) return next.what;
  return nullptr;
}

void Buddies::Two::settle(std::uint64_t step) {
  if (next.what && next.step == step) sure = std::exchange(next, {});
}

Buddies::Buddies(Clock& clock, std::size_t most_values, std::function<void(std::uint64_t step)> holds)
    : clock_(clock), most_values_(most_values), holds_(std::move(holds)) {}

Buddies::~Buddies() { end(); }

void Buddies::begin(const Neighbours& neighbours) {
  end();
  if (neighbours.next == nullptr || neighbours.previous == nullptr) return;
  const std::size_t before = (neighbours.stage + neighbours.stages - 1) % neighbours.stages;
  session_ = std::make_shared<Session>();
  session_->out = neighbours.next->open(channel_of(neighbours.since, neighbours.stage));
  session_->in = neighbours.previous->open(channel_of(neighbours.since, before));
  if (own_.sure.what) {
    own_.next = own_.sure;
    session_->is_sending = true;
  }
  boost::asio::co_spawn(clock_.executor(), send(this, session_), boost::asio::detached);
  boost::asio::co_spawn(clock_.executor(), receive(this, session_), boost::asio::detached);
}

void Buddies::end() {
  if (!session_) return;
  session_->is_over = true;
  for (const auto& channel : {session_->out.get(), session_->in.get()}) {
    channel->close(LinkError(Failure::kCancelled, "", "keeps no copy any more"));
  }
  session_->changed.notify();
  session_.reset();
}

bool Buddies::wants(std::uint64_t step, std::uint64_t every) const {
  if (!session_ || session_->is_over || session_->is_sending || every == 0 || step % every != 0) return false;
  return !own_.next.what || step >= own_.next.step + kPatience * every;
}

void Buddies::keep(std::uint64_t step, Snapshot snapshot) {
  if (!session_ || session_->is_sending) return;
  own_.next = {.step = step, .what = std::make_shared<const Snapshot>(std::move(snapshot))};
  session_->is_sending = true;
  session_->changed.notify();
}

void Buddies::covered(std::uint64_t step) {
  own_.settle(step);
  previous_.settle(step);
}

void Buddies::go_back(std::uint64_t step, std::shared_ptr<const Snapshot> own) {
  own_ = {.sure = {.step = step, .what = std::move(own)}, .next = {}};
  previous_ = {.sure = {.step = step, .what = previous_.after(step)}, .next = {}};
}

std::shared_ptr<const Snapshot> Buddies::own(std::uint64_t step) const { return own_.after(step); }

std::shared_ptr<const Snapshot> Buddies::of_previous(std::uint64_t step) const { return previous_.after(step); }

// First how large it is, then all of it, piece by piece.
Task<> Buddies::send(Buddies* self, std::shared_ptr<Session> session) {
  try {
    while (!session->is_over) {
      if (!session->is_sending) {
        auto waiting = session->changed.wait();
        co_await std::move(waiting);
        continue;
      }
      const Kept sent = self->own_.next;
      const auto bytes = std::as_bytes(std::span(*sent.what));
      const std::uint64_t size = sent.what->size();
      auto telling = session->out->send({.tag = sent.step}, std::as_bytes(std::span(&size, 1)));
      co_await std::move(telling);
      for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece) {
        auto sending =
            session->out->send({.tag = sent.step}, bytes.subspan(begin, std::min(kPiece, bytes.size() - begin)));
        co_await std::move(sending);
      }
      session->is_sending = false;
    }
  } catch (const LinkError& error) {
    if (!session->is_over) spdlog::info("no copy goes to the next stage: {}", error.what());
    session->is_sending = true;  // for ever: there will be no other
  }
}

Task<> Buddies::receive(Buddies* self, std::shared_ptr<Session> session) {
  try {
    while (!session->is_over) {
      auto hearing = session->in->receive();
      const net::Message header = co_await std::move(hearing);
      std::uint64_t size = 0;
      if (header.payload.size() != sizeof size)
        throw LinkError(Failure::kProtocol, session->in->peer(), "sent no copy");
      std::memcpy(&size, header.payload.data(), sizeof size);
      if (session->is_over) co_return;
      if (size > self->most_values_) throw LinkError(Failure::kProtocol, session->in->peer(), "sent too large a copy");
      auto snapshot = std::make_shared<Snapshot>(size);
      const auto bytes = std::as_writable_bytes(std::span(*snapshot));
      for (std::size_t begin = 0; begin < bytes.size(); begin += kPiece) {
        auto receiving = session->in->receive(bytes.subspan(begin, std::min(kPiece, bytes.size() - begin)));
        co_await std::move(receiving);
      }
      if (session->is_over) co_return;
      self->previous_.next = {.step = header.label.tag, .what = std::move(snapshot)};
      self->holds_(header.label.tag);
    }
  } catch (const LinkError& error) {
    if (session->is_over) co_return;
    session->in->close(error);
    spdlog::info("no copy comes from the stage before: {}", error.what());
  }
}

}  // namespace rookery::train
