// raw_tcp BYTES ITERATIONS: two processes stream as much to each other as an all-reduce between two would, both ways at
// once, over one TCP connection on loopback, and do nothing with it. Seconds of each iteration as a JSON list.
#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives_timing.h"

namespace {

constexpr std::size_t kPiece = 256 * 1024;

void stream(int socket, const std::vector<char>& out, std::vector<char>& in) {
  std::size_t sent = 0, received = 0;
  while (sent < out.size() || received < in.size()) {
    bool moved = false;
    if (sent < out.size()) {
      const ssize_t n =
          ::send(socket, out.data() + sent, std::min(kPiece, out.size() - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n), moved = true;
    }
    if (received < in.size()) {
      const ssize_t n = ::recv(socket, in.data() + received, std::min(kPiece, in.size() - received), MSG_DONTWAIT);
      if (n == 0) std::abort();
      if (n > 0) received += static_cast<std::size_t>(n), moved = true;
    }
    if (moved) continue;
    pollfd wait{.fd = socket, .events = 0, .revents = 0};
    if (sent < out.size()) wait.events |= POLLOUT;
    if (received < in.size()) wait.events |= POLLIN;
    ::poll(&wait, 1, 1000);
  }
}

void run(int socket, std::size_t bytes, int iterations, bool prints) {
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::vector<char> out(bytes, 1), in(bytes), byte_out(1), byte_in(1);
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUp + iterations; ++i) {
    stream(socket, byte_out, byte_in);  // a barrier
    const double start = now();
    stream(socket, out, in);
    if (i >= kWarmUp) seconds.push_back(now() - start);
  }
  if (prints) print_seconds(seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::size_t bytes = std::strtoull(argv[1], nullptr, 10);
  const int iterations = std::atoi(argv[2]);
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 1;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 1;
    run(socket, bytes, iterations, false);
    return 0;
  }
  run(::accept(listener, nullptr, nullptr), bytes, iterations, true);
  ::waitpid(child, nullptr, 0);
}
