#include "net/shm/shm_pipe.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>

#include "base/signal.h"
#include "net/error.h"
#include "net/shm/loans.h"
#include "net/shm/shared_ring.h"
#include "net/shm/side_line.h"

namespace rookery::net {
namespace {

namespace asio = boost::asio;
using internal::Borrower;
using internal::Descriptor;
using internal::Lender;
using internal::LoanControl;
using internal::RingControl;
using internal::SharedRings;

constexpr std::size_t kPiece = 64 * 1024;  // copied before the other end is told
// How far a writer runs ahead of a reader that keeps up: what lies between them stays in the cache. While the reader
// waits for its turn on a processor the writer fills the ring; and a writer that waits for room is woken for as much as
// pays for the switch.
constexpr std::size_t kAhead = 256 * 1024;
constexpr std::size_t kRefill = kAhead / 2;
constexpr int kPatience = 8;                     // turns of the loop to wait before going to sleep
constexpr std::size_t kWorthLending = 4096;      // bytes; less is sooner copied
constexpr std::size_t kLentPiece = 1024 * 1024;  // what is not copied needs no cache between
constexpr std::uint64_t kFewLoans = LoanControl::kMaxLoans / 4;

[[noreturn]] void fail_closed() { throw LinkError(Failure::kClosed, "", "the connection was closed"); }

// What the pipe shares with the loop that watches the socket.
struct State {
  State(const Descriptor& memory, int out_direction, UnixSocket s, Descriptor own, Descriptor others)
      : rings(memory),
        out(rings.control(out_direction)),
        in(rings.control(1 - out_direction)),
        out_bytes(rings.bytes(out_direction)),
        in_bytes(rings.bytes(1 - out_direction)),
        out_loans(rings.loans(out_direction)),
        in_loans(rings.loans(1 - out_direction)),
        lender(out_loans),
        borrower(in_loans),
        socket(std::move(s)),
        bell(std::move(own)),
        bell_heard(socket.get_executor(), ::dup(bell.get())),
        other_bell(std::move(others)) {}

  // Wakes the other end, if it is asleep at its side of a ring.
  void wake(std::atomic<std::uint32_t>& side) {
    std::uint32_t asleep = RingControl::kAsleep;
    if (side.load() == asleep && side.compare_exchange_strong(asleep, RingControl::kRung)) internal::ring(other_bell);
  }

  // Takes memory that the other end shows. False if there is none now.
  bool take_memory() {
    const auto shown = internal::take_parcel(socket);
    for (const Descriptor& memory : shown) borrower.shown(memory);
    return !shown.empty();
  }

  SharedRings rings;
  RingControl& out;
  RingControl& in;
  std::byte* out_bytes;
  std::byte* in_bytes;
  LoanControl& out_loans;
  LoanControl& in_loans;
  Lender lender;
  Borrower borrower;
  UnixSocket socket;
  Descriptor bell;                            // rung by the other end
  asio::posix::stream_descriptor bell_heard;  // the same, for waiting
  Descriptor other_bell;
  Signal rung;              // the bell was, or the end has come
  bool closed = false;      // by this end
  bool other_gone = false;  // its process
};

// The socket becomes readable when the other end shows memory, and when it goes.
Task<> watch_socket(std::shared_ptr<State> state) {
  try {
    while (!state->closed) {
      boost::system::error_code ended;
      co_await state->socket.async_wait(UnixSocket::wait_read, asio::redirect_error(kAwaitable, ended));
      if (ended) break;
      state->take_memory();
    }
  } catch (const Error&) {
    // It is gone, or no longer to be trusted.
  }
  state->other_gone = true;
  state->rung.notify();
}

// The only one who hears the bell, for the reader and the writer of this end: if each of them cleared it for itself,
// one could clear what was meant for the other.
Task<> watch_bell(std::shared_ptr<State> state) {
  boost::system::error_code ended;
  while (!state->closed && !ended) {
    co_await state->bell_heard.async_wait(asio::posix::stream_descriptor::wait_read,
                                          asio::redirect_error(kAwaitable, ended));
    internal::silence(state->bell);
    state->rung.notify();
  }
}

class ShmPipe final : public Pipe {
 public:
  explicit ShmPipe(std::shared_ptr<State> state) : state_(std::move(state)) {
    asio::co_spawn(state_->socket.get_executor(), watch_socket(state_), asio::detached);
    asio::co_spawn(state_->socket.get_executor(), watch_bell(state_), asio::detached);
  }
  ~ShmPipe() override { ShmPipe::close(); }

  std::size_t write(std::span<const ConstBytes> parts) override {
    State& s = *state_;
    if (s.closed || s.other_gone || s.out.reader_closed.load() != 0) fail_closed();
    std::size_t total = 0;
    for (ConstBytes part : parts) {
      while (!part.empty()) {
        const std::size_t n = part.size() >= kWorthLending && s.lender.lends(part) ? lend(part) : copy(part);
        if (n == 0) return total;
        s.wake(s.out.reader);
        part = part.subspan(n);
        total += n;
        position_ += n;
      }
    }
    return total;
  }

  Task<> writable() override {
    return sleep(state_->out.writer,
                 [this] { return (room() > 0 && state_->lender.has_room()) || state_->out.reader_closed.load() != 0; });
  }

  bool share(std::shared_ptr<const SharedMemory> memory) override {
    State& s = *state_;
    if (s.closed || s.other_gone || !s.lender.can_show()) return false;
    if (!internal::hand_over(s.socket, {&memory->file()})) return false;
    s.lender.show(std::move(memory));
    return true;
  }

  bool lends_before(std::uint64_t end) const override {
    const auto first = state_->lender.first_lent();
    return first && *first < end;
  }
  Task<> returned(std::uint64_t end) override {
    return sleep(state_->out_loans.lender,
                 [this, end] { return !lends_before(end) || state_->out.reader_closed.load() != 0; });
  }

  void take_back(std::uint64_t begin, std::uint64_t end) override { state_->lender.take_back(begin, end); }
  bool were_taken_back() override { return state_->borrower.was_revoked(); }

  std::size_t read(MutableBytes into) override {
    std::size_t total = 0;
    while (total < into.size()) {
      if (total > 0 && !has_something()) break;
      const ConstBytes next = view(into.size() - total);
      if (next.empty()) break;
      std::memcpy(into.data() + total, next.data(), next.size());
      total += next.size();
      skip(next.size());
    }
    return total;
  }

  ConstBytes view(std::size_t limit) override {
    State& s = *state_;
    if (s.closed) fail_closed();
    // Closed is looked at first: what was written before it is seen then.
    const bool ended = s.in.writer_closed.load() != 0 || s.other_gone;
    const std::size_t n = std::min({limit, available(), kPiece});
    if (n == 0 && is_lent()) {
      while (!s.borrower.knows_memory() && s.take_memory()) {
      }
      const ConstBytes rest = s.borrower.rest();
      return rest.first(std::min(limit, rest.size()));
    }
    if (n == 0 && ended) fail_closed();
    return {s.in_bytes + read_ % SharedRings::kRingBytes, n};
  }

  void skip(std::size_t bytes) override {
    State& s = *state_;
    if (is_lent()) {
      if (!s.borrower.skip(bytes) || s.borrower.outstanding() > kFewLoans) return;
      s.wake(s.in.writer);
      s.wake(s.in_loans.lender);
    } else {
      read_ += bytes;
      s.in.read.store(read_);
      if (unread() <= kRefill) s.wake(s.in.writer);
    }
  }

  Task<> readable() override {
    return sleep(state_->in.reader, [this] { return has_something() || state_->in.writer_closed.load() != 0; });
  }

  void close() override {
    State& s = *state_;
    if (s.closed) return;
    s.closed = true;
    s.out.writer_closed.store(1);
    s.in.reader_closed.store(1);
    internal::ring(s.other_bell);
    boost::system::error_code ignored;
    s.bell_heard.cancel(ignored);
    s.rung.notify();
    s.socket.close(ignored);
  }

  std::size_t piece() const override { return state_->lender.has_shown() ? kLentPiece : kPiece; }

 private:
  std::size_t room() const {
    const std::uint64_t unread = written_ - state_->out.read.load();
    if (unread > SharedRings::kRingBytes) fail_numbers();
    const bool keeps_up = state_->out.reader.load() == RingControl::kAwake;
    const std::size_t limit = keeps_up ? kAhead : SharedRings::kRingBytes;
    return limit - std::min(limit, unread);
  }

  std::size_t copy(ConstBytes part) {
    State& s = *state_;
    const std::size_t n = std::min({part.size(), room(), kPiece});
    std::memcpy(s.out_bytes + written_ % SharedRings::kRingBytes, part.data(), n);
    written_ += n;
    s.out.written.store(written_);
    return n;
  }

  std::size_t lend(ConstBytes part) {
    State& s = *state_;
    if (!s.lender.has_room()) return 0;
    s.lender.lend(part, written_, position_);
    return part.size();
  }

  // What has been written to the ring; what of it comes before the next loan; whether that is next.
  std::size_t unread() const {
    const std::uint64_t unread = state_->in.written.load() - read_;
    if (unread > SharedRings::kRingBytes) fail_numbers();
    return unread;
  }
  std::size_t available() const {
    const std::size_t written = unread();  // looked at first: a loan that was given before it is seen then
    const internal::Loan* loan = state_->borrower.next();
    if (loan != nullptr && loan->at < read_) fail_numbers();
    return loan == nullptr ? written : std::min<std::uint64_t>(written, loan->at - read_);
  }
  bool is_lent() const {
    const internal::Loan* loan = state_->borrower.next();
    return loan != nullptr && loan->at == read_;
  }
  bool has_something() const { return available() > 0 || is_lent(); }

  [[noreturn]] static void fail_numbers() {
    throw LinkError(Failure::kProtocol, "", "a shared ring with wrong numbers");
  }

  template <typename Condition>
  Task<> sleep(std::atomic<std::uint32_t>& side, Condition condition) {
    const auto state = state_;
    const auto done = [&] { return state->closed || state->other_gone || condition(); };
    for (int i = 0; i < kPatience; ++i) {
      if (done()) co_return;
      co_await yield();
    }
    while (!done()) {
      side.store(RingControl::kAsleep);
      if (done()) break;
      auto wait = state->rung.wait();
      co_await std::move(wait);
    }
    side.store(RingControl::kAwake);
  }

  std::shared_ptr<State> state_;
  std::uint64_t written_ = 0, read_ = 0;  // this end's own counts of the rings; those in shared memory are copies
  std::uint64_t position_ = 0;            // of all that was written, the lent bytes too
};

}  // namespace

std::unique_ptr<Pipe> offer_shm_pipe(UnixSocket socket) {
  const Descriptor memory = SharedRings::create();
  Descriptor own = internal::make_bell(), others = internal::make_bell();
  if (!internal::hand_over(socket, {&memory, &own, &others})) {
    throw LinkError(Failure::kClosed, "", "went away before it took the shared memory");
  }
  return std::make_unique<ShmPipe>(
      std::make_shared<State>(memory, 0, std::move(socket), std::move(own), std::move(others)));
}

Task<std::unique_ptr<Pipe>> accept_shm_pipe(Clock& clock, UnixSocket socket, Time deadline) {
  Alarm alarm(clock);
  alarm.set(deadline, [&] {
    boost::system::error_code ignored;
    socket.cancel(ignored);
  });
  boost::system::error_code ended;
  co_await socket.async_wait(UnixSocket::wait_read, asio::redirect_error(kAwaitable, ended));
  if (ended) throw LinkError(Failure::kLate, "", "offered no shared memory in time");
  std::vector<Descriptor> offered = internal::take_parcel(socket);
  if (offered.size() != 3) throw LinkError(Failure::kProtocol, "", "offered no shared memory");
  Descriptor memory = std::move(offered[0]), others = std::move(offered[1]), own = std::move(offered[2]);
  internal::check_bell(own);
  internal::check_bell(others);
  auto state = std::make_shared<State>(memory, 1, std::move(socket), std::move(own), std::move(others));
  co_return std::make_unique<ShmPipe>(std::move(state));
}

}  // namespace rookery::net
