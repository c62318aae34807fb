#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "dashboard/view.h"

namespace rookery::dashboard {

// Where a dashboard is: http://HOST:PORT/#token=TOKEN, or https://…&certificate=FINGERPRINT, as it is printed.
struct Url {
  std::string host, port;
  bool encrypted = false;
  std::string token{}, certificate{};  // may be empty

  bool operator==(const Url&) const = default;
};

// Throws InputError if it is none.
Url parse_url(const std::string& text);

// Whoever was asked cannot be reached, or says nothing: it may answer if it is asked again.
class NoAnswer : public Error {
 public:
  using Error::Error;
};

// Asks a dashboard, from a program. Waits for the answer, ten seconds at most.
class Client {
 public:
  explicit Client(Url url);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Throws NoAnswer if there is none, and another Error, one sentence, if it is not who it should be, or wants another
  // token.
  Json brief();

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace rookery::dashboard
