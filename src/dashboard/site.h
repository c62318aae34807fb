#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "dashboard/view.h"

namespace rookery::dashboard {

// What is asked for, and what is answered, without the network.

struct Request {
  std::string method{};
  std::string target{};
  std::map<std::string, std::string, std::less<>> fields{};  // by their names in lower case

  std::string_view field(std::string_view name) const;
};

struct Answer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
  std::map<std::string, std::string> fields{};
  bool upgrades = false;   // to a WebSocket, as it was asked for
  std::string protocol{};  // of it, if some were offered
};

// What somebody with the token may ask for.
enum class Command { kPause, kResume, kCheckpoint, kStop };

// A file of the page.
struct Page {
  std::string_view type, body;
};
using Pages = std::map<std::string_view, Page>;  // by their paths

// Those of web/, which are part of the program.
const Pages& built_in_pages();

// Who may see and do what.
//
// Whoever knows the token may do everything: it stands in the Authorization, or, where a browser asks for a WebSocket,
// among the protocols that are offered, as "rookery-token.TOKEN" beside "rookery". It is never in a cookie: browsers
// send those to all ports of a computer, whoever listens there. An `open` site, which is for this computer alone, shows
// everything without; any other says nothing of the run: it answers 401, and with the page, in which the token can be
// given. No page of another site makes a browser do anything here: it does not know the token, whoever names another
// origin is refused, and an open site answers only to this computer's own addresses.
//
// Confined to one thread.
class Site {
 public:
  struct Options {
    std::string token;
    bool open = true;
    bool encrypted = false;
  };

  // Asked for by somebody who may: one sentence if it cannot be done now.
  using Obey = std::function<std::optional<std::string>(Command command, View& view)>;

  Site(Options options, const Pages& pages, Obey obey);

  Answer answer(const Request& request, View& view, double seconds) const;

  // Whether it may control the run; what an upgrade that was granted is good for.
  bool has_token(const Request& request) const;

 private:
  bool is_for_this_computer(const Request& request) const;
  bool is_of_this_site(const Request& request) const;
  Answer get(const Request& request, const View& view, double seconds) const;
  Answer post(const Request& request, View& view) const;
  Answer without_token(const Request& request) const;
  std::optional<Answer> page(std::string_view path) const;

  Options options_;
  const Pages& pages_;
  Obey obey_;
};

// 128 random bits, in hexadecimal.
std::string new_token();

}  // namespace rookery::dashboard
