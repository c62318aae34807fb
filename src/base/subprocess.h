#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

namespace rookery {

// One end of a conversation between a process and a child it has forked: whole messages, in order. Throws Error when
// the other end is gone.
class ControlSocket {
 public:
  explicit ControlSocket(int fd) : fd_(fd) {}
  ~ControlSocket();
  ControlSocket(ControlSocket&& other) noexcept;
  ControlSocket& operator=(ControlSocket&&) = delete;

  static constexpr std::size_t kMaxMessage = 64 * 1024;

  void send(const std::string& message);

  // The next message; nothing if none comes in time.
  std::optional<std::string> receive(std::chrono::milliseconds patience);

  int fd() const { return fd_; }

 private:
  int fd_;
};

// A child process that runs a function. It never outlives its parent, nor this object.
class Subprocess {
 public:
  // Forks. `work` runs in the child, which ends with the exit code it returns, or 1 if it throws. Requires: no other
  // thread runs.
  explicit Subprocess(const std::function<int(ControlSocket&)>& work);
  ~Subprocess();  // kills it, if it still runs
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&&) = delete;

  ControlSocket& control() { return *control_; }
  pid_t pid() const { return pid_; }

  // Waits for its end: the exit code, 128 + N if signal N ended it; nothing if it still runs. Requires: its end has not
  // been seen before.
  std::optional<int> wait(std::chrono::milliseconds patience);
  bool has_ended();

 private:
  pid_t pid_ = -1;
  std::optional<ControlSocket> control_;
};

// Whether there is such a process, and it has not ended: one whose parent has not asked how it ended does not count.
bool is_running(pid_t pid);

}  // namespace rookery
