#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace rookery {

// What the world can break: a file, a configuration, a peer, the network. The message is one sentence that a user can
// act on; it names the file, key or peer, and needs no further context.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}

  template <typename... Args>
  explicit Error(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

// The user's input was wrong (a key, a unit, a file's content). A command ends with exit code 2.
class InputError : public Error {
 public:
  using Error::Error;
};

namespace internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);
}  // namespace internal
}  // namespace rookery

// A broken invariant is a bug: prints the condition with the values given as a format string, and aborts.
//   ROOKERY_CHECK(i < n, "i = {}, n = {}", i, n);
#define ROOKERY_CHECK(condition, ...)                                                                   \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]]                                                                      \
      ::rookery::internal::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
