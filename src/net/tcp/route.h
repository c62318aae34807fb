#pragma once

#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "base/clock.h"
#include "net/tcp/tcp_transport.h"

namespace rookery::net {

// What the system knows of the way to other computers. Addresses here are numeric, and without a port.

// Where a name and a port lead. Throws LinkError if they lead nowhere, or nobody knows by the deadline.
using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
Task<Endpoints> look_up(Clock& clock, HostPort name, Time deadline);

// The addresses that a name stands for. Throws LinkError if it stands for none, or nobody knows by the deadline.
Task<std::vector<std::string>> resolve(Clock& clock, HostPort name, Time deadline);

struct Route {
  std::string interface;  // its name, as in eth0
  std::string address;    // this computer's, there
};

// How this computer would send to an address. Throws LinkError if there is no way.
Route route_to(const std::string& address);

// Where others may find this computer: its addresses, those of the local network before those of this host alone.
std::vector<std::string> local_addresses();

// Where others may dial whoever listens at HOST:PORT, which may stand for all addresses of this computer; at most so
// many.
std::vector<std::string> dialable_addresses(const std::string& listening, std::size_t most);

bool is_loopback(const std::string& address);
bool is_private(const std::string& address);  // of a home or office network, which others cannot dial from outside

// HOST:PORT, with brackets where they are needed.
std::string join_host_port(const std::string& host, unsigned port);

}  // namespace rookery::net
