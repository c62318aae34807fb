#pragma once

#include <memory>

#include "base/clock.h"
#include "net/transport.h"

namespace rookery::net {

// TCP. An address is HOST:PORT, with HOST a name, an IPv4 address or an IPv6 address in brackets; port 0 lets the
// system choose one to listen on.
std::unique_ptr<Transport> make_tcp_transport(Clock& clock);

struct HostPort {
  std::string host;
  std::string port;
};

// Throws InputError unless the address has both parts.
HostPort parse_host_port(const std::string& address);

}  // namespace rookery::net
