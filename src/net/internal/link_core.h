#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/internal/channel_core.h"
#include "net/internal/gauge.h"
#include "net/internal/lane.h"
#include "net/internal/patience.h"
#include "net/link.h"

namespace rookery::net::internal {

// The inside of a link: its channels share its lanes. Lives as long as its loops, and longer than the handle.
//
// Closing in order takes a frame on every lane, because lanes do not wait for each other: once it has come on all of
// them, nothing sent before can follow. Channels end that way, and so does the link.
class LinkCore : public std::enable_shared_from_this<LinkCore> {
 public:
  LinkCore(Clock& clock, std::vector<std::unique_ptr<Pipe>> pipes, LinkOptions options);

  void start();  // Requires: is owned by a shared_ptr

  // For the handle.
  const std::string& peer() const { return options_.peer; }
  std::shared_ptr<ChannelCore> open(ChannelId id, std::size_t budget);
  void close(const LinkError& reason);
  bool stopped() const { return failure_ != nullptr && !closing_; }  // no loop has anything left to do
  bool has_ended() const { return failure_ != nullptr; }
  static Task<LinkError> ended(std::shared_ptr<LinkCore> self);
  LinkStatistics statistics() const;
  Traffic traffic(std::uint16_t purpose) const;
  std::size_t piece() const { return lanes_.empty() ? last_piece_ : lanes_.front()->piece(); }
  bool share(std::shared_ptr<const SharedMemory> memory);

  // For channels.
  void wants_to_send(ChannelCore& channel);
  void owes_credit(ChannelCore& channel);
  void close_channel(ChannelCore& channel, const LinkError& reason);

  // For lanes.
  std::shared_ptr<ChannelCore> channel_for(ChannelId id);
  void received(const wire::FrameHeader& frame, ConstBytes content, Lane& lane);
  std::optional<wire::FrameHeader> next_credit();
  std::optional<std::pair<std::shared_ptr<ChannelCore>, Outbox::Piece>> next_piece(std::size_t limit);
  void heard(std::size_t bytes);
  void sent(std::size_t bytes) { statistics_.bytes_sent += bytes; }
  void sent(const wire::FrameHeader& piece, std::uint64_t with_header) {
    Traffic& own = traffic_of(piece);
    own.sent += with_header;
    own.payload_sent += piece.length;
    statistics_.payload_sent += piece.length;
  }
  void received(const wire::FrameHeader& piece) {
    Traffic& own = traffic_of(piece);
    own.received += wire::kFrameHeaderBytes + piece.length;
    own.payload_received += piece.length;
    statistics_.payload_received += piece.length;
  }
  Traffic& traffic_of(const wire::FrameHeader& piece) { return traffic_[piece.channel.purpose]; }

  // Ends the link without a word to the other end. Returns the failure it has ended with, which may be an earlier one.
  std::shared_ptr<const LinkError> fail(Failure failure, std::string_view text);

 private:
  void spawn(Task<> loop);
  void loop_ended();

  static constexpr std::size_t kMaxUnopened = 1024;       // channels that only the other end has opened
  static constexpr std::size_t kMaxHalfClosed = 1 << 14;  // channels that only this end has closed

  std::shared_ptr<ChannelCore> dead_channel(ChannelId id);
  LinkError named(const LinkError& reason) const;  // with this link's peer to blame, if nobody else is
  LinkError from_wire(ConstBytes reason) const;
  void channel_closed(ChannelCore& channel, const LinkError& reason);
  void drop_if_closed(ChannelCore& channel);
  void end(std::shared_ptr<const LinkError> failure);
  void part(const LinkError& reason, const LinkError& own);
  void shut();
  Task<> watch(std::shared_ptr<LinkCore> self);

  Clock& clock_;
  LinkOptions options_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // none when it has ended, and its loops have
  std::size_t loops_ = 0, last_piece_ = 0;
  std::map<ChannelId, std::shared_ptr<ChannelCore>> channels_;
  std::size_t unopened_ = 0, half_closed_ = 0;
  std::deque<std::shared_ptr<ChannelCore>> to_send_, to_credit_;
  bool shares_ = false;  // memory with the other end
  std::shared_ptr<const LinkError> failure_;
  bool closing_ = false;  // has ended here; the lanes are saying goodbye
  std::size_t goodbyes_ = 0;
  LinkStatistics statistics_;
  Gauge gauge_;
  std::map<std::uint16_t, Traffic> traffic_;  // by purpose
  Time heard_{};                              // when bytes arrived last
  Patience patience_;                         // with silence
  Signal ended_;
  Alarm linger_;
};

}  // namespace rookery::net::internal
