#include "net/shm/same_host.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <openssl/crypto.h>

#include "base/file.h"
#include "net/error.h"
#include "net/identity.h"

namespace rookery::net {
namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using boost::system::error_code;

// Abstract names start with a zero byte and leave nothing in the file system.
stream_protocol::endpoint endpoint_of(const std::string& name) {
  return stream_protocol::endpoint(std::string(1, '\0') + name);
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

}  // namespace

struct SharedMemoryOffer::Socket {
  stream_protocol::acceptor acceptor;
};

std::string same_host_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code unknown;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", unknown).string();
  if (boot.empty() || unknown) return "";
  const std::string both = boot + network;
  return digest(std::as_bytes(std::span(both))).substr(0, 32);
}

SharedMemoryOffer::SharedMemoryOffer(Clock& clock) : clock_(clock) {
  std::array<std::byte, 16> secret;
  fill_with_secret(secret);
  fill_with_secret(token_);
  name_ = "rookery-" + hexadecimal(secret);
  socket_ = std::make_unique<Socket>(Socket{stream_protocol::acceptor(clock.executor(), endpoint_of(name_))});
}

SharedMemoryOffer::~SharedMemoryOffer() = default;

Task<std::unique_ptr<Pipe>> SharedMemoryOffer::hand_over(Time deadline) {
  UnixSocket socket(clock_.executor());
  Alarm alarm(clock_);
  alarm.set(deadline, [&] {
    error_code ignored;
    socket_->acceptor.close(ignored);
    socket.close(ignored);
  });
  error_code error;
  co_await socket_->acceptor.async_accept(socket, asio::redirect_error(kAwaitable, error));
  std::array<std::byte, 16> said{};
  if (!error) {
    const auto buffer = asio::buffer(said.data(), said.size());
    co_await asio::async_read(socket, buffer, asio::redirect_error(kAwaitable, error));
  }
  if (error) throw LinkError(Failure::kLate, "", "did not pick up shared memory in time");
  if (CRYPTO_memcmp(said.data(), token_.data(), token_.size()) != 0) {
    throw LinkError(Failure::kRefused, "", "somebody else came for shared memory");
  }
  co_return offer_shm_pipe(std::move(socket));
}

Task<std::unique_ptr<Pipe>> pick_up_shared_memory(Clock& clock, std::string name, std::array<std::byte, 16> token,
                                                  Time deadline) {
  UnixSocket socket(clock.executor());
  {
    Alarm alarm(clock);
    alarm.set(deadline, [&] {
      error_code ignored;
      socket.close(ignored);
    });
    error_code error;
    const auto endpoint = endpoint_of(name);
    co_await socket.async_connect(endpoint, asio::redirect_error(kAwaitable, error));
    if (!error) {
      const auto buffer = asio::buffer(token.data(), token.size());
      co_await asio::async_write(socket, buffer, asio::redirect_error(kAwaitable, error));
    }
    if (error) throw LinkError(Failure::kUnreachable, "", "offers shared memory that cannot be picked up");
  }
  auto accepting = accept_shm_pipe(clock, std::move(socket), deadline);
  co_return co_await std::move(accepting);
}

}  // namespace rookery::net
