#include "base/subprocess.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace rookery {
namespace {

[[noreturn]] void fail(const char* what) { throw Error("{} failed: {}", what, std::system_category().message(errno)); }

using Steady = std::chrono::steady_clock;

int left_until(Steady::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// Runs in the child, and never returns.
[[noreturn]] void run_child(const std::function<int(ControlSocket&)>& work, pid_t parent, int fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent ended before that took effect
  int exit_code = 1;
  try {
    ControlSocket control(fd);
    exit_code = work(control);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rookery: %s\n", error.what());
  }
  std::fflush(nullptr);
  ::_exit(exit_code);  // what the parent has set up is the parent's to clean up
}

}  // namespace

ControlSocket::~ControlSocket() {
  if (fd_ >= 0) ::close(fd_);
}

ControlSocket::ControlSocket(ControlSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

void ControlSocket::send(const std::string& message) {
  ROOKERY_CHECK(message.size() <= kMaxMessage, "size = {}", message.size());
  ssize_t sent = -1;
  do {
    sent = ::send(fd_, message.data(), message.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent != static_cast<ssize_t>(message.size())) fail("sending to a local process");
}

std::optional<std::string> ControlSocket::receive(std::chrono::milliseconds patience) {
  const auto deadline = Steady::now() + patience;
  std::string message(kMaxMessage, '\0');
  for (;;) {
    pollfd poll_fd{.fd = fd_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&poll_fd, 1, left_until(deadline));
    if (ready == 0) return std::nullopt;
    if (ready < 0 && errno != EINTR) fail("poll");
    if (ready < 0) continue;
    const ssize_t size = ::recv(fd_, message.data(), message.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) throw Error("a local process ended without a word");
    message.resize(static_cast<std::size_t>(size));
    return message;
  }
}

Subprocess::Subprocess(const std::function<int(ControlSocket&)>& work) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  ControlSocket ours(ends[0]), theirs(ends[1]);
  std::fflush(nullptr);  // or it would be printed twice
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    ::close(ends[0]);
    run_child(work, parent, ends[1]);
  }
  control_.emplace(std::move(ours));
}

Subprocess::~Subprocess() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), control_(std::move(other.control_)) {}

std::optional<int> Subprocess::wait(std::chrono::milliseconds patience) {
  const auto deadline = Steady::now() + patience;
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) fail("waitpid");
    if (ended == pid_) {
      pid_ = -1;
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (left_until(deadline) == 0) return std::nullopt;
    // The socket closes when the child ends; a child that keeps talking is looked at again soon.
    pollfd poll_fd{.fd = control_->fd(), .events = 0, .revents = 0};
    ::poll(&poll_fd, 1, std::min(left_until(deadline), 10));
  }
}

bool Subprocess::has_ended() { return pid_ < 0 || wait(std::chrono::milliseconds(0)).has_value(); }

bool is_running(pid_t pid) {
  if (pid <= 0 || (::kill(pid, 0) != 0 && errno == ESRCH)) return false;
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(stat, line)) return true;     // it runs, and is not ours to look at
  const std::size_t name_ends = line.rfind(')');  // a name can have parentheses itself
  const std::size_t state = name_ends + 2;
  return name_ends == std::string::npos || state >= line.size() || (line[state] != 'Z' && line[state] != 'X');
}

}  // namespace rookery
