#pragma once

#include <memory>

#include <boost/asio/ip/tcp.hpp>

#include "net/pipe.h"

namespace rookery::net {

// A pipe over a connected socket: no delay for small frames, large buffers for large ones.
std::unique_ptr<Pipe> make_tcp_pipe(boost::asio::ip::tcp::socket socket);

}  // namespace rookery::net
