#include "net/tcp/tcp_pipe.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <system_error>
#include <vector>

#include <boost/asio/redirect_error.hpp>

#include "net/error.h"

namespace rookery::net {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kPiece = 256 * 1024;
constexpr int kSocketBuffer = 4 << 20;
constexpr std::size_t kReadAhead = 4096;  // asked for beside a small read, so that a small message takes one call

[[noreturn]] void fail(int error) {
  if (error == ECONNRESET || error == EPIPE) throw LinkError(Failure::kClosed, "", "the connection was broken");
  throw LinkError(Failure::kClosed, "", std::system_category().message(error));
}

// An IPv4 address that has come to a socket for both is one again.
std::string text_of(const asio::ip::address& address) {
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string() : address.to_string();
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

class TcpPipe final : public Pipe {
 public:
  explicit TcpPipe(asio::ip::tcp::socket socket) : socket_(std::move(socket)), buffer_(kPiece) {
    boost::system::error_code best_effort;  // if the other end has gone already, the first read tells
    socket_.non_blocking(true, best_effort);
    socket_.set_option(asio::ip::tcp::no_delay(true), best_effort);
    socket_.set_option(asio::socket_base::send_buffer_size(kSocketBuffer), best_effort);
    socket_.set_option(asio::socket_base::receive_buffer_size(kSocketBuffer), best_effort);
    const auto endpoint = socket_.remote_endpoint(best_effort);
    if (!best_effort) remote_ = text_of(endpoint.address());
  }

  std::size_t write(std::span<const ConstBytes> parts) override {
    check_open();
    std::array<iovec, 64> vectors;
    const std::size_t count = std::min(parts.size(), vectors.size());
    for (std::size_t i = 0; i < count; ++i) {
      vectors[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = count;
    for (;;) {
      const ssize_t n = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (would_block(errno)) return 0;
      if (errno != EINTR) fail(errno);
    }
  }

  Task<> writable() override { return wait(asio::ip::tcp::socket::wait_write); }

  std::size_t read(MutableBytes into) override {
    check_open();
    if (begin_ == end_ && into.size() < kReadAhead) fill(kReadAhead);
    if (begin_ == end_ && into.size() >= kReadAhead) return receive(into);
    const std::size_t n = std::min(into.size(), end_ - begin_);
    std::memcpy(into.data(), buffer_.data() + begin_, n);
    skip(n);
    return n;
  }

  ConstBytes view(std::size_t limit) override {
    check_open();
    if (begin_ == end_) fill(std::min(limit, buffer_.size()));
    return ConstBytes(buffer_).subspan(begin_, std::min(limit, end_ - begin_));
  }

  void skip(std::size_t bytes) override { begin_ += bytes; }

  Task<> readable() override {
    if (begin_ < end_) co_return;
    auto waiting = wait(asio::ip::tcp::socket::wait_read);
    co_await std::move(waiting);
  }

  void close() override {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

  std::string remote() const override { return remote_; }
  std::size_t piece() const override { return kPiece; }

 private:
  void check_open() const {
    if (!socket_.is_open()) throw LinkError(Failure::kClosed, "", "the connection was closed");
  }

  std::size_t receive(MutableBytes into) {
    for (;;) {
      const ssize_t n = ::recv(socket_.native_handle(), into.data(), into.size(), MSG_DONTWAIT);
      if (n > 0) return static_cast<std::size_t>(n);
      if (n == 0) throw LinkError(Failure::kClosed, "", "the connection was closed");
      if (would_block(errno)) return 0;
      if (errno != EINTR) fail(errno);
    }
  }

  void fill(std::size_t most) {
    begin_ = 0;
    end_ = 0;
    end_ = receive(MutableBytes(buffer_).first(most));
  }

  // Ends also when the socket fails or is closed; the next call tells.
  Task<> wait(asio::ip::tcp::socket::wait_type what) {
    if (!socket_.is_open()) co_return;
    boost::system::error_code ended;
    co_await socket_.async_wait(what, asio::redirect_error(kAwaitable, ended));
  }

  asio::ip::tcp::socket socket_;
  std::string remote_;
  std::vector<std::byte> buffer_;  // [begin_, end_) has arrived and was not read
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace

std::unique_ptr<Pipe> make_tcp_pipe(asio::ip::tcp::socket socket) {
  return std::make_unique<TcpPipe>(std::move(socket));
}

}  // namespace rookery::net
