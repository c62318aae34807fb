#include "net/tcp/tcp_transport.h"

#include <charconv>
#include <optional>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>

#include "base/units.h"
#include "net/error.h"
#include "net/tcp/route.h"
#include "net/tcp/tcp_pipe.h"

namespace rookery::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", host, endpoint.port())
                                    : fmt::format("{}:{}", host, endpoint.port());
}

class TcpListener final : public Listener {
 public:
  TcpListener(Clock& clock, const tcp::endpoint& endpoint, const std::string& wanted)
      : clock_(clock), acceptor_(clock.executor()) {
    try {
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
    } catch (const boost::system::system_error& error) {
      throw InputError("cannot listen on {}: {}", wanted, error.code().message());
    }
    address_ = text_of(acceptor_.local_endpoint());
  }

  Task<std::unique_ptr<Pipe>> accept() override {
    for (;;) {
      error_code error;
      tcp::socket socket(acceptor_.get_executor());
      if (acceptor_.is_open()) {
        co_await acceptor_.async_accept(socket, asio::redirect_error(kAwaitable, error));
      }
      if (!acceptor_.is_open()) throw LinkError(Failure::kClosed, address_, "does not listen any more");
      if (!error) co_return make_tcp_pipe(std::move(socket));
      // A connection that was gone before it was accepted, or too many open files: others may have more luck soon.
      auto pausing = clock_.sleep_for(std::chrono::milliseconds(50));
      co_await std::move(pausing);
    }
  }

  const std::string& address() const override { return address_; }

  void close() override {
    error_code ignored;
    acceptor_.close(ignored);
  }

 private:
  Clock& clock_;
  tcp::acceptor acceptor_;
  std::string address_;
};

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(Clock& clock) : clock_(clock) {}

  std::unique_ptr<Listener> listen(const std::string& address) override {
    const HostPort wanted = parse_host_port(address);
    tcp::resolver resolver(clock_.executor());
    error_code error;
    const auto found = resolver.resolve(wanted.host, wanted.port, tcp::resolver::passive, error);
    if (error || found.empty()) throw InputError("cannot listen on {}: {}", address, error.message());
    return std::make_unique<TcpListener>(clock_, found.begin()->endpoint(), address);
  }

  Task<std::unique_ptr<Pipe>> dial(std::string address, Time deadline) override {
    const HostPort wanted = parse_host_port(address);
    auto looking_up = look_up(clock_, wanted, deadline);
    const Endpoints found = co_await std::move(looking_up);
    tcp::socket socket(clock_.executor());
    bool late = false;
    Alarm alarm(clock_);
    alarm.set(deadline, [&] {
      error_code ignored;
      late = true;
      socket.close(ignored);
    });
    error_code error;
    co_await asio::async_connect(socket, found, asio::redirect_error(kAwaitable, error));
    if (late) throw LinkError(Failure::kUnreachable, address, "does not answer");
    if (error) throw LinkError(Failure::kUnreachable, address, error.message());
    co_return make_tcp_pipe(std::move(socket));
  }

 private:
  Clock& clock_;
};

}  // namespace

HostPort parse_host_port(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const auto bad = [&] { return InputError("'{}' is no address; write HOST:PORT, as in 192.168.1.5:4700", address); };
  if (colon == std::string::npos || colon == 0) throw bad();
  HostPort result{.host = address.substr(0, colon), .port = address.substr(colon + 1)};
  unsigned port = 0;
  const char* end = result.port.data() + result.port.size();
  const auto [parsed, error] = std::from_chars(result.port.data(), end, port);
  if (error != std::errc{} || parsed != end || port > 65535) throw bad();
  if (result.host.front() == '[' && result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  } else if (result.host.find(':') != std::string::npos) {
    throw InputError("'{}' is no address; put an IPv6 address in brackets, as in [::1]:4700", address);
  }
  return result;
}

std::unique_ptr<Transport> make_tcp_transport(Clock& clock) { return std::make_unique<TcpTransport>(clock); }

}  // namespace rookery::net
