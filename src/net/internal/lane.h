#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/signal.h"
#include "net/internal/channel_core.h"
#include "net/pipe.h"

namespace rookery::net::internal {

class LinkCore;

// One pipe of a link: takes frames apart as they arrive, and puts them together to be sent.
class Lane {
 public:
  Lane(LinkCore& link, std::unique_ptr<Pipe> pipe);

  // Loops that run until the link ends. They fail the link when the pipe fails, or breaks the protocol.
  Task<> read(std::shared_ptr<LinkCore> link);
  Task<> write(std::shared_ptr<LinkCore> link);

  // Shows the other end memory to read from; false if the pipe has no use for it. From the first time on, settle() has
  // to run, too.
  bool share(std::shared_ptr<const SharedMemory> memory) { return pipe_->share(std::move(memory)); }
  Task<> settle(std::shared_ptr<LinkCore> link);

  // There may be something to write.
  void wake() {
    wake_.notify();
    lent_.notify();
  }

  // Queues a frame that goes before any data. Fails the link if too many wait already: nobody reads them.
  void control(const wire::FrameHeader& header, std::vector<std::byte> content = {});

  // Ends the sends whose memory the pipe has let go of.
  void end_written_pieces();

  // Nothing is sent after what is queued now.
  void finish();

  // The memory of this channel's messages is not to be touched after this: what is left of the batch is copied, for a
  // message that arrives at all must arrive as it was.
  void forget(const ChannelCore& channel);

  void close() {
    pipe_->close();
    wake();
  }
  std::size_t piece() const { return pipe_->piece(); }

 private:
  struct Control {
    wire::FrameHeader header;
    std::vector<std::byte> content;
  };

  // Reading. Returns how many bytes were taken, at most about kTurn; 0 if there are none now.
  std::size_t take_some();
  std::size_t take_header();
  std::size_t take_content();
  std::size_t take_data();
  std::size_t fold_data(std::size_t left);
  void end_frame();

  // Writing.
  bool fill_batch();
  void append_frame(const wire::FrameHeader& header);
  void batch_written(std::size_t bytes);
  bool has_written_pieces() const { return !pieces_.empty() && pieces_.front().end <= written_; }

  LinkCore& link_;
  std::unique_ptr<Pipe> pipe_;

  // The frame that is arriving.
  wire::FrameHeaderBytes header_bytes_;
  std::size_t header_have_ = 0;
  wire::FrameHeader frame_;
  std::shared_ptr<ChannelCore> channel_;  // of a data frame
  std::size_t done_ = 0;                  // bytes of it that were taken
  std::vector<std::byte> content_;        // of any other frame
  std::vector<std::byte> grain_;          // of a fold: what came of an unfinished grain
  bool goodbye_received_ = false;

  // A frame of data that the pipe has not let go of, and where it is in all that was ever written.
  struct Piece {
    std::shared_ptr<ChannelCore> channel;
    Outbox::Piece out;
    std::uint64_t begin, end;
  };

  // The frames that are being written, as one batch.
  std::vector<wire::FrameHeaderBytes> headers_;
  std::vector<std::vector<std::byte>> contents_;
  std::vector<ConstBytes> parts_;
  std::vector<const ChannelCore*> owners_;   // of each part; nullptr: the lane's own memory
  std::deque<std::vector<std::byte>> kept_;  // parts whose owner has gone
  std::size_t written_parts_ = 0;

  std::deque<Piece> pieces_;
  std::uint64_t batched_ = 0, written_ = 0;  // bytes since the beginning

  std::deque<Control> control_;
  bool finishing_ = false;
  Signal wake_;
  Signal lent_;  // the pipe has lent something
};

}  // namespace rookery::net::internal
