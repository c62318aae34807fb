#include "net/shm/shm_pipe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/signal.h"
#include "net/error.h"
#include "net/shm/shared_ring.h"

namespace rookery::net {
namespace {

namespace asio = boost::asio;
using internal::Descriptor;
using internal::RingControl;
using internal::SharedRings;

constexpr std::size_t kPiece = 64 * 1024;  // copied before the other end is told
// How far a writer runs ahead of a reader that keeps up: what lies between them stays in the cache. While the reader
// waits for its turn on a processor the writer fills the ring; and a writer that waits for room is woken for as much as
// pays for the switch.
constexpr std::size_t kAhead = 256 * 1024;
constexpr std::size_t kRefill = kAhead / 2;
constexpr int kPatience = 8;  // turns of the loop to wait before going to sleep
constexpr std::array<char, 4> kGreeting = {'R', 'K', 'S', '1'};
constexpr std::size_t kDescriptors = 3;  // the memory, the offering end's bell, the accepting end's bell

[[noreturn]] void fail_closed() { throw LinkError(Failure::kClosed, "", "the connection was closed"); }

// What the pipe shares with the loop that watches the socket.
struct State {
  State(const Descriptor& memory, int out_direction, UnixSocket s, Descriptor own, Descriptor others)
      : rings(memory),
        out(rings.control(out_direction)),
        in(rings.control(1 - out_direction)),
        out_bytes(rings.bytes(out_direction)),
        in_bytes(rings.bytes(1 - out_direction)),
        socket(std::move(s)),
        bell(socket.get_executor(), own.release()),
        other_bell(std::move(others)) {}

  // Wakes the other end, if it is asleep at its side of a ring.
  void wake(std::atomic<std::uint32_t>& side) {
    std::uint32_t asleep = RingControl::kAsleep;
    if (side.load() == asleep && side.compare_exchange_strong(asleep, RingControl::kRung)) ring_other();
  }

  void ring_other() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(other_bell.get(), &one, sizeof one);  // fails only if it is rung already
  }

  SharedRings rings;
  RingControl& out;
  RingControl& in;
  std::byte* out_bytes;
  std::byte* in_bytes;
  UnixSocket socket;
  asio::posix::stream_descriptor bell;  // rung by the other end
  Descriptor other_bell;
  Signal rung;              // the bell was, or the end has come
  bool closed = false;      // by this end
  bool other_gone = false;  // its process
};

// Nothing is ever sent over the socket: it becomes readable when the other end goes.
Task<> watch_socket(std::shared_ptr<State> state) {
  boost::system::error_code ended;
  co_await state->socket.async_wait(UnixSocket::wait_read, asio::redirect_error(asio::use_awaitable, ended));
  state->other_gone = true;
  state->rung.notify();
}

// The only one who hears the bell, for the reader and the writer of this end: if each of them cleared it for itself,
// one could clear what was meant for the other.
Task<> watch_bell(std::shared_ptr<State> state) {
  while (!state->closed) {
    boost::system::error_code ended;
    co_await state->bell.async_wait(asio::posix::stream_descriptor::wait_read,
                                    asio::redirect_error(asio::use_awaitable, ended));
    std::uint64_t rings = 0;
    [[maybe_unused]] const ssize_t n = ::read(state->bell.native_handle(), &rings, sizeof rings);
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
        const std::size_t n = std::min({part.size(), room(), kPiece});
        if (n == 0) return total;
        std::memcpy(s.out_bytes + written_ % SharedRings::kRingBytes, part.data(), n);
        written_ += n;
        s.out.written.store(written_);
        s.wake(s.out.reader);
        part = part.subspan(n);
        total += n;
      }
    }
    return total;
  }

  Task<> writable() override {
    return sleep(state_->out.writer, [this] { return room() > 0 || state_->out.reader_closed.load() != 0; });
  }

  std::size_t read(MutableBytes into) override {
    std::size_t total = 0;
    while (total < into.size()) {
      if (total > 0 && available() == 0) break;
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
    if (n == 0 && ended) fail_closed();
    return {s.in_bytes + read_ % SharedRings::kRingBytes, n};
  }

  void skip(std::size_t bytes) override {
    State& s = *state_;
    read_ += bytes;
    s.in.read.store(read_);
    if (available() <= kRefill) s.wake(s.in.writer);
  }

  Task<> readable() override {
    return sleep(state_->in.reader, [this] { return available() > 0 || state_->in.writer_closed.load() != 0; });
  }

  void close() override {
    State& s = *state_;
    if (s.closed) return;
    s.closed = true;
    s.out.writer_closed.store(1);
    s.in.reader_closed.store(1);
    s.ring_other();
    boost::system::error_code ignored;
    s.bell.cancel(ignored);
    s.rung.notify();
    s.socket.close(ignored);
  }

  std::size_t piece() const override { return kPiece; }

 private:
  std::size_t room() const {
    const std::uint64_t unread = written_ - state_->out.read.load();
    if (unread > SharedRings::kRingBytes) throw LinkError(Failure::kProtocol, "", "a shared ring with wrong numbers");
    const bool keeps_up = state_->out.reader.load() == RingControl::kAwake;
    const std::size_t limit = keeps_up ? kAhead : SharedRings::kRingBytes;
    return limit - std::min(limit, unread);
  }

  std::size_t available() const {
    const std::uint64_t unread = state_->in.written.load() - read_;
    if (unread > SharedRings::kRingBytes) throw LinkError(Failure::kProtocol, "", "a shared ring with wrong numbers");
    return unread;
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
  std::uint64_t written_ = 0, read_ = 0;  // this end's own counts; those in shared memory are copies
};

Descriptor make_bell() {
  Descriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (bell.get() < 0) throw Error("eventfd failed: {}", std::system_category().message(errno));
  return bell;
}

// A greeting with room for descriptors beside it.
struct Parcel {
  Parcel() {
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.data();
    message.msg_controllen = ancillary.size();
  }
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;

  std::array<char, kGreeting.size()> greeting{};
  iovec vector{greeting.data(), greeting.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> ancillary{};
  msghdr message{};
};

void send_descriptors(UnixSocket& socket, const std::array<int, kDescriptors>& descriptors) {
  Parcel parcel;
  parcel.greeting = kGreeting;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  if (::sendmsg(socket.native_handle(), &parcel.message, MSG_NOSIGNAL) != static_cast<ssize_t>(kGreeting.size())) {
    throw LinkError(Failure::kClosed, "", "went away before it took the shared memory");
  }
}

std::array<Descriptor, kDescriptors> receive_descriptors(UnixSocket& socket) {
  Parcel parcel;
  const ssize_t n = ::recvmsg(socket.native_handle(), &parcel.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  std::array<Descriptor, kDescriptors> received;
  const cmsghdr* header = n < 0 ? nullptr : CMSG_FIRSTHDR(&parcel.message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::array<int, kDescriptors> numbers{-1, -1, -1};
    std::memcpy(numbers.data(), CMSG_DATA(header), std::min(count, kDescriptors) * sizeof(int));
    std::ranges::transform(numbers, received.begin(), [](int fd) {
      if (fd >= 0) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);  // whatever it is, it cannot hold us up
      return Descriptor(fd);
    });
  }
  const bool whole = n == static_cast<ssize_t>(kGreeting.size()) && received.back().get() >= 0;
  if (!whole || parcel.greeting != kGreeting || (parcel.message.msg_flags & MSG_CTRUNC) != 0) {
    throw LinkError(Failure::kProtocol, "", "offered no shared memory");
  }
  return received;
}

}  // namespace

std::unique_ptr<Pipe> offer_shm_pipe(UnixSocket socket) {
  const Descriptor memory = SharedRings::create();
  Descriptor own = make_bell(), others = make_bell();
  send_descriptors(socket, {memory.get(), own.get(), others.get()});
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
  co_await socket.async_wait(UnixSocket::wait_read, asio::redirect_error(asio::use_awaitable, ended));
  if (ended) throw LinkError(Failure::kLate, "", "offered no shared memory in time");
  auto [memory, others, own] = receive_descriptors(socket);
  auto state = std::make_shared<State>(memory, 1, std::move(socket), std::move(own), std::move(others));
  co_return std::make_unique<ShmPipe>(std::move(state));
}

}  // namespace rookery::net
