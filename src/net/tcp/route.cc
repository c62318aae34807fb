#include "net/tcp/route.h"

#include <algorithm>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/redirect_error.hpp>

#include "base/signal.h"
#include "net/error.h"

namespace rookery::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

struct LocalAddress {
  std::string interface;
  asio::ip::address address;
};

// Of all interfaces that are up.
std::vector<LocalAddress> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<LocalAddress> found;
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const auto family = i->ifa_addr->sa_family;
    if (family == AF_INET) {
      sockaddr_in in{};
      std::memcpy(&in, i->ifa_addr, sizeof in);
      found.push_back({i->ifa_name, asio::ip::address_v4(ntohl(in.sin_addr.s_addr))});
    } else if (family == AF_INET6) {
      sockaddr_in6 in{};
      std::memcpy(&in, i->ifa_addr, sizeof in);
      asio::ip::address_v6::bytes_type bytes;
      std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
      found.push_back({i->ifa_name, asio::ip::address_v6(bytes, in.sin6_scope_id)});
    }
  }
  return found;
}

bool is_link_local(const asio::ip::address& address) {
  return address.is_v6() ? address.to_v6().is_link_local() : (address.to_v4().to_uint() >> 16) == 0xa9fe;
}

// A lookup that is on its way. The system's own cannot be interrupted; whoever does not wait any more leaves it alone.
struct Lookup {
  explicit Lookup(const Executor& executor) : resolver(executor) {}

  static Task<> run(std::shared_ptr<Lookup> self, HostPort name) {
    const auto found =
        co_await self->resolver.async_resolve(name.host, name.port, asio::redirect_error(kAwaitable, self->error));
    for (const auto& entry : found) self->endpoints.push_back(entry.endpoint());
    self->done = true;
    self->changed.notify();
  }

  asio::ip::tcp::resolver resolver;
  Endpoints endpoints;
  error_code error;
  bool done = false;
  Signal changed;
};

}  // namespace

Task<Endpoints> look_up(Clock& clock, HostPort name, Time deadline) {
  const auto lookup = std::make_shared<Lookup>(clock.executor());
  asio::co_spawn(clock.executor(), Lookup::run(lookup, name), asio::detached);
  for (bool in_time = true; in_time && !lookup->done;) {
    auto wait = lookup->changed.wait_until(clock, deadline);
    in_time = co_await std::move(wait);
  }
  if (!lookup->done) throw LinkError(Failure::kUnreachable, name.host, "nobody says in time what the name stands for");
  if (lookup->error) throw LinkError(Failure::kUnreachable, name.host, lookup->error.message());
  co_return lookup->endpoints;
}

Task<std::vector<std::string>> resolve(Clock& clock, HostPort name, Time deadline) {
  auto looking_up = look_up(clock, std::move(name), deadline);
  const Endpoints found = co_await std::move(looking_up);
  std::vector<std::string> addresses;
  for (const auto& endpoint : found) {
    std::string address = endpoint.address().to_string();
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(std::move(address));
  }
  co_return addresses;
}

// A datagram socket that is connected, and never used, knows the way.
Route route_to(const std::string& address) {
  error_code error;
  asio::io_context io;
  const asio::ip::udp::endpoint there(asio::ip::make_address(address, error), 9);
  asio::ip::udp::socket socket(io);
  if (!error) socket.open(there.protocol(), error);
  if (!error) socket.connect(there, error);
  const auto here = error ? asio::ip::udp::endpoint() : socket.local_endpoint(error);
  if (error) throw LinkError(Failure::kUnreachable, address, error.message());
  const auto known = interfaces();
  const auto own = std::ranges::find(known, here.address(), &LocalAddress::address);
  return {.interface = own == known.end() ? "" : own->interface, .address = here.address().to_string()};
}

std::vector<std::string> local_addresses() {
  std::vector<std::string> local, loopback;
  for (const LocalAddress& own : interfaces()) {
    if (is_link_local(own.address)) continue;
    (own.address.is_loopback() ? loopback : local).push_back(own.address.to_string());
  }
  local.insert(local.end(), loopback.begin(), loopback.end());
  return local;
}

bool is_loopback(const std::string& address) {
  error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  return !error && parsed.is_loopback();
}

bool is_private(const std::string& address) {
  error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  if (error) return false;
  if (parsed.is_v6())
    return parsed.is_loopback() || is_link_local(parsed) || (parsed.to_v6().to_bytes()[0] & 0xfe) == 0xfc;
  const std::uint32_t bits = parsed.to_v4().to_uint();
  return parsed.is_loopback() || is_link_local(parsed) || (bits >> 24) == 10 || (bits >> 20) == 0xac1 ||
         (bits >> 16) == 0xc0a8 || (bits >> 22) == 0x191;  // 10/8, 172.16/12, 192.168/16, 100.64/10
}

std::string join_host_port(const std::string& host, unsigned port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::vector<std::string> dialable_addresses(const std::string& listening, std::size_t most) {
  const HostPort parts = parse_host_port(listening);
  if (parts.host != "0.0.0.0" && parts.host != "::") return {listening};
  std::vector<std::string> addresses;
  for (const std::string& own : local_addresses()) {
    const bool fits = parts.host == "::" || own.find(':') == std::string::npos;
    if (!addresses.empty() && is_loopback(own)) break;  // of no use to others
    if (fits && addresses.size() < most) {
      addresses.push_back(join_host_port(own, static_cast<unsigned>(std::stoul(parts.port))));
    }
  }
  return addresses;
}

}  // namespace rookery::net
