#include "net/internal/link_core.h"

#include <algorithm>

#include <boost/asio/co_spawn.hpp>

#include "base/units.h"

namespace rookery::net::internal {
namespace {

// Of a large message, how much is sent before others have their turn: a few pieces, and so much at most.
constexpr std::size_t kPiecesOfATurn = 4, kMostOfATurn = 256 * 1024;

// Whether a channel keeps its turn after this piece. Nobody can do anything with a message before all of it is there:
// where two go by turns, both come late.
bool keeps_turn(const wire::FrameHeader& piece, std::size_t limit) {
  const std::uint64_t turn = std::min(kPiecesOfATurn * limit, kMostOfATurn), end = piece.offset + piece.length;
  return end < piece.size && end / turn == piece.offset / turn;
}

}  // namespace

LinkCore::LinkCore(Clock& clock, std::vector<std::unique_ptr<Pipe>> pipes, LinkOptions options)
    : clock_(clock),
      options_(std::move(options)),
      heard_(clock.now()),
      patience_(options_.heartbeat, options_.silence),
      linger_(clock) {
  ROOKERY_CHECK(!pipes.empty());
  for (auto& pipe : pipes) lanes_.push_back(std::make_unique<Lane>(*this, std::move(pipe)));
}

// The loops own the link: they end soon after it does, and nobody has to wait for that.
void LinkCore::start() {
  const auto self = shared_from_this();
  for (const auto& lane : lanes_) {
    spawn(lane->read(self));
    spawn(lane->write(self));
  }
  spawn(watch(self));
}

void LinkCore::spawn(Task<> loop) {
  ++loops_;
  boost::asio::co_spawn(clock_.executor(), std::move(loop),
                        [self = shared_from_this()](const std::exception_ptr&) { self->loop_ended(); });
}

// Whoever has the handle may keep it for long, and the pipes have much memory.
void LinkCore::loop_ended() {
  if (--loops_ > 0) return;
  linger_.cancel();
  last_piece_ = piece();
  lanes_.clear();
}

bool LinkCore::share(std::shared_ptr<const SharedMemory> memory) {
  // A pipe through which memory can be shared has no others beside it.
  if (failure_ || lanes_.size() > 1 || !lanes_.front()->share(std::move(memory))) return false;
  if (!std::exchange(shares_, true)) spawn(lanes_.front()->settle(shared_from_this()));
  return true;
}

// On a link that has ended: nobody wants what comes, and nothing can be sent.
std::shared_ptr<ChannelCore> LinkCore::dead_channel(ChannelId id) {
  auto dead = std::make_shared<ChannelCore>(*this, id);
  dead->fail(failure_);
  return dead;
}

std::shared_ptr<ChannelCore> LinkCore::open(ChannelId id, std::size_t budget) {
  if (failure_) return dead_channel(id);
  auto& channel = channels_[id];
  if (!channel) {
    channel = std::make_shared<ChannelCore>(*this, id);
  } else {
    ROOKERY_CHECK(!channel->opened, "channel {}/{}/{} is open", id.purpose, id.generation, id.index);
    --unopened_;
  }
  channel->opened = true;
  const auto opened = channel;
  if (budget > Channel::kBudget) {
    opened->inbox.widen(budget);
    owes_credit(*opened);
  }
  drop_if_closed(*opened);
  return opened;
}

std::shared_ptr<ChannelCore> LinkCore::channel_for(ChannelId id) {
  if (failure_) return dead_channel(id);
  auto& channel = channels_[id];
  if (!channel) {
    if (unopened_ == kMaxUnopened) throw wire::WireError("{} channels that nobody here has opened", kMaxUnopened);
    ++unopened_;
    channel = std::make_shared<ChannelCore>(*this, id);
  }
  return channel;
}

void LinkCore::wants_to_send(ChannelCore& channel) {
  if (failure_ || channel.waits_to_send || !channel.outbox.ready()) return;
  channel.waits_to_send = true;
  to_send_.push_back(channels_.at(channel.id()));
  for (const auto& lane : lanes_) lane->wake();
}

void LinkCore::owes_credit(ChannelCore& channel) {
  if (failure_ || channel.owes_credit || channel.failed()) return;
  channel.owes_credit = true;
  to_credit_.push_back(channels_.at(channel.id()));
  lanes_.front()->wake();
}

std::optional<wire::FrameHeader> LinkCore::next_credit() {
  while (!to_credit_.empty()) {
    const auto channel = std::move(to_credit_.front());
    to_credit_.pop_front();
    channel->owes_credit = false;
    if (channel->failed()) continue;
    return wire::FrameHeader{
        .kind = wire::FrameKind::kCredit, .channel = channel->id(), .size = channel->inbox.granted()};
  }
  return std::nullopt;
}

// Channels take turns: a message each, or a part of a large one.
std::optional<std::pair<std::shared_ptr<ChannelCore>, Outbox::Piece>> LinkCore::next_piece(std::size_t limit) {
  while (!to_send_.empty()) {
    auto channel = std::move(to_send_.front());
    to_send_.pop_front();
    if (!channel->outbox.ready()) {
      channel->waits_to_send = false;
      continue;
    }
    const Outbox::Piece piece = channel->outbox.next(channel->id(), limit);
    channel->waits_to_send = channel->outbox.ready();
    if (keeps_turn(piece.header, limit)) {
      to_send_.push_front(channel);
    } else if (channel->waits_to_send) {
      to_send_.push_back(channel);
    }
    return std::pair(std::move(channel), piece);
  }
  return std::nullopt;
}

void LinkCore::close_channel(ChannelCore& channel, const LinkError& reason) {
  channel_closed(channel, reason);
  drop_if_closed(channel);
}

// Ends the channel here, and tells the other end, on every lane behind what is being written.
void LinkCore::channel_closed(ChannelCore& channel, const LinkError& reason) {
  for (const auto& lane : lanes_) lane->end_written_pieces();  // the other end may have had them all before it closed
  channel.fail(std::make_shared<LinkError>(named(reason)));
  if (channel.close_sent || failure_) return;
  channel.close_sent = true;
  if (channel.closes_received < lanes_.size() && ++half_closed_ > kMaxHalfClosed) {
    fail(Failure::kProtocol, "does not close what is closed");
    return;
  }
  const std::vector<std::byte> content = wire::encode(
      wire::Reason{static_cast<std::uint16_t>(reason.failure()), reason.peer(), std::string(reason.text())});
  const wire::FrameHeader header{
      .kind = wire::FrameKind::kClose, .length = static_cast<std::uint32_t>(content.size()), .channel = channel.id()};
  for (const auto& lane : lanes_) {
    lane->forget(channel);
    lane->control(header, content);
  }
}

// A channel that both ends have closed is forgotten, unless this end may still want to read what came before.
void LinkCore::drop_if_closed(ChannelCore& channel) {
  if (!channel.close_sent || channel.closes_received < lanes_.size() || !channel.opened) return;
  channels_.erase(channel.id());
}

void LinkCore::received(const wire::FrameHeader& frame, ConstBytes content, Lane& lane) {
  switch (frame.kind) {
    case wire::FrameKind::kData:
      break;
    case wire::FrameKind::kCredit:
      channel_for(frame.channel)->granted(frame.size);
      break;
    case wire::FrameKind::kClose: {
      const auto channel = channel_for(frame.channel);
      if (++channel->closes_received > lanes_.size()) throw wire::WireError("a channel closed twice");
      if (channel->closes_received < lanes_.size()) break;
      if (channel->close_sent) --half_closed_;
      channel_closed(*channel, from_wire(content));
      drop_if_closed(*channel);
      break;
    }
    case wire::FrameKind::kPing:
      lane.control({.kind = wire::FrameKind::kPong, .tag = frame.tag});
      break;
    case wire::FrameKind::kPong: {
      const Duration now = clock_.now().time_since_epoch();
      if (frame.tag > static_cast<std::uint64_t>(now.count())) throw wire::WireError("a pong for no ping");
      const Duration sample = now - Duration(static_cast<Duration::rep>(frame.tag));
      auto& smoothed = statistics_.round_trip;
      smoothed = smoothed == Duration::zero() ? sample : (7 * smoothed + sample) / 8;
      break;
    }
    case wire::FrameKind::kGoodbye:
      if (++goodbyes_ < lanes_.size()) break;
      end(std::make_shared<LinkError>(from_wire(content)));
      shut();
      break;
  }
}

LinkError LinkCore::named(const LinkError& reason) const {
  return reason.peer().empty() ? LinkError(reason.failure(), peer(), reason.text()) : reason;
}

LinkError LinkCore::from_wire(ConstBytes content) const {
  const wire::Reason reason = wire::decode_reason(content);
  const bool known = reason.code <= static_cast<std::uint16_t>(Failure::kCancelled);
  return named(LinkError(known ? Failure{reason.code} : Failure::kClosed, reason.culprit, reason.text));
}

Traffic LinkCore::traffic(std::uint16_t purpose) const {
  const auto found = traffic_.find(purpose);
  return found == traffic_.end() ? Traffic{} : found->second;
}

void LinkCore::heard(std::size_t bytes) {
  if (bytes == 0) return;
  statistics_.bytes_received += bytes;
  const Time now = clock_.now();
  patience_.heard(now - heard_);
  heard_ = now;
  gauge_.came(heard_, bytes);
}

LinkStatistics LinkCore::statistics() const {
  LinkStatistics all = statistics_;
  all.bandwidth = gauge_.rate();
  all.silent_for = clock_.now() - heard_;
  return all;
}

// Says something every heartbeat, and ends the link when the other end has been silent for too long.
Task<> LinkCore::watch(std::shared_ptr<LinkCore> /*keeps it alive*/) {
  while (!failure_) {
    const Time slept = clock_.now();
    auto wait = ended_.wait_until(clock_, slept + options_.heartbeat);
    co_await std::move(wait);
    if (failure_) break;
    const Time now = clock_.now();
    // Whoever was frozen itself hears nothing of what was said meanwhile, and must listen before it judges.
    if (now - slept > options_.heartbeat + patience_.limit() / 2) heard_ = now;
    if (now - heard_ > patience_.limit()) {
      // It may hear this when it thaws, and then knows that this end is alive.
      const std::string silence = format_duration(now - heard_);
      part(LinkError(Failure::kSilent, "", fmt::format("heard nothing for {}", silence)),
           LinkError(Failure::kSilent, peer(), fmt::format("silent for {}", silence)));
      break;
    }
    const auto tag = static_cast<std::uint64_t>(now.time_since_epoch().count());
    lanes_.front()->control({.kind = wire::FrameKind::kPing, .tag = tag});
  }
}

void LinkCore::close(const LinkError& reason) {
  if (!failure_) part(reason, named(reason));
}

// Ends the link here, and tells the other end why.
void LinkCore::part(const LinkError& reason, const LinkError& own) {
  const std::vector<std::byte> content = wire::encode(
      wire::Reason{static_cast<std::uint16_t>(reason.failure()), reason.peer(), std::string(reason.text())});
  closing_ = true;
  end(std::make_shared<LinkError>(own));
  for (const auto& lane : lanes_) {
    lane->control({.kind = wire::FrameKind::kGoodbye, .length = static_cast<std::uint32_t>(content.size())}, content);
    lane->finish();
  }
  // The other end closes the pipes when it has heard us on all of them. Whoever closes first might lose its last words.
  linger_.set(clock_.now() + options_.linger, [this] { shut(); });
}

std::shared_ptr<const LinkError> LinkCore::fail(Failure failure, std::string_view text) {
  end(std::make_shared<LinkError>(failure, peer(), text));
  shut();
  return failure_;
}

void LinkCore::shut() {
  closing_ = false;
  linger_.cancel();
  for (const auto& lane : lanes_) lane->close();
}

void LinkCore::end(std::shared_ptr<const LinkError> failure) {
  if (failure_) return;
  for (const auto& lane : lanes_) lane->end_written_pieces();
  failure_ = std::move(failure);
  to_send_.clear();
  to_credit_.clear();
  const auto channels = std::move(channels_);
  channels_.clear();
  for (const auto& [id, channel] : channels) {
    channel->fail(failure_);
    for (const auto& lane : lanes_) lane->forget(*channel);
  }
  for (const auto& lane : lanes_) lane->wake();
  ended_.notify();
}

Task<LinkError> LinkCore::ended(std::shared_ptr<LinkCore> self) {
  while (!self->failure_) {
    auto wait = self->ended_.wait();
    co_await std::move(wait);
  }
  co_return *self->failure_;
}

}  // namespace rookery::net::internal
