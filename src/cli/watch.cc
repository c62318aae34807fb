#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run_output.h"
#include "dashboard/client.h"
#include "dashboard/text.h"
#include "net/error.h"
#include "train/look_on.h"
#include "wire/bytes.h"

namespace rookery::cli {
namespace {

using dashboard::Json;

struct WatchOptions {
  std::string where, peer;
  double every = 1;
  bool once = false, plain = false, json = false;
};

// Asks once more what there is to see. Throws NoAnswer if there may be an answer later.
using Ask = std::function<Json()>;

Ask source_of(const WatchOptions& options) {
  if (options.where.find("://") != std::string::npos) {
    const auto client = std::make_shared<dashboard::Client>(dashboard::parse_url(options.where));
    return [client] { return client->brief(); };
  }
  try {
    return [ticket = wire::parse_ticket(options.where), encrypt = !options.plain,
            coordinator = std::shared_ptr<train::LookOn>()]() mutable {
      try {
        if (!coordinator) coordinator = std::make_shared<train::LookOn>(ticket, encrypt);
        return Json::parse(coordinator->brief(), nullptr, false);
      } catch (const net::LinkError& error) {
        coordinator.reset();
        if (error.failure() == net::Failure::kRefused || error.failure() == net::Failure::kProtocol) throw;
        throw dashboard::NoAnswer("{}", error.what());
      }
    };
  } catch (const wire::WireError& error) {
    throw InputError("{}; or give the address of the dashboard, http://…", error.what());
  }
}

struct Screen {
  std::size_t columns = 100, lines = 1000;
};

// Without a terminal there is no limit.
std::optional<Screen> terminal() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return Screen{.columns = size.ws_col, .lines = size.ws_row > 1 ? size.ws_row - 1u : 1u};
}

// All, or one peer; with a note above it, if there is one.
void draw(const Json& brief, const std::string& peer, const std::optional<Screen>& screen,
          const std::string& note = "") {
  const Screen room = screen.value_or(Screen{});
  std::string picture = screen ? "\033[H" : "";
  const std::size_t most_lines = room.lines - (note.empty() ? 0 : 1);
  std::vector<std::string> lines = peer.empty() ? dashboard::lines_of(brief, room.columns, most_lines)
                                                : dashboard::lines_of_peer(brief, peer, room.columns, most_lines);
  if (!note.empty()) lines.insert(lines.begin(), note.substr(0, room.columns));
  for (const std::string& line : lines) {
    picture += line + (screen ? "\033[K\n" : "\n");
  }
  if (screen) picture += "\033[J";
  std::fputs(picture.c_str(), stdout);
  std::fflush(stdout);
}

bool is_over(const Json& brief) {
  const std::string phase = brief.value("run", Json::object()).value("phase", "");
  return phase == "ended" || phase == "failed";
}

void rest(double seconds, const std::atomic<bool>& stop) {
  constexpr std::chrono::milliseconds kLookAgain(50);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!stop && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kLookAgain);
}

// Asks ever later, as the page does, until there is an answer, or somebody has had enough: then there is none. Throws
// what `ask` does when there was none for so many seconds. `lost` learns why, and for how many there has been none.
std::optional<Json> answer_of(const Ask& ask, const std::atomic<bool>& stop, double patience,
                              const std::function<void(const dashboard::NoAnswer&, double seconds)>& lost) {
  constexpr double kShortestDelay = 0.5, kLongestDelay = 5;
  const auto since = std::chrono::steady_clock::now();
  for (double delay = kShortestDelay;; delay = std::min(2 * delay, kLongestDelay)) {
    try {
      return ask();
    } catch (const dashboard::NoAnswer& error) {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
      if (seconds >= patience) throw;
      lost(error, seconds);
    }
    rest(delay, stop);
    if (stop) return std::nullopt;
  }
}

// Once for a silence, so that a file does not fill with it; a terminal shows how old its picture is.
void say_lost(const Json& brief, const std::string& peer, const dashboard::NoAnswer& error, double seconds,
              bool& was_said) {
  if (const auto screen = terminal()) {
    return draw(brief, peer, screen,
                fmt::format("connection lost, trying again; what you see is {:.0f} s old", std::floor(seconds)));
  }
  if (!std::exchange(was_said, true)) fmt::print(stderr, "connection lost, trying again: {}\n", error.what());
}

int watch(const WatchOptions& options) {
  constexpr double kPatience = 10;  // with one that has never answered: its address may be wrong
  const std::atomic<bool>& stop = stop_on_interrupt();
  const Ask ask = source_of(options);
  std::optional<Json> brief = answer_of(ask, stop, kPatience, [](const auto&, double) {});
  if (!brief) return 0;
  if (options.json || options.once) {
    options.json ? print_json(*brief) : draw(*brief, options.peer, std::nullopt);
    return 0;
  }
  if (terminal()) std::fputs("\033[2J", stdout);
  for (;;) {
    draw(*brief, options.peer, terminal());
    if (is_over(*brief)) return 0;
    rest(options.every, stop);
    if (stop) return 0;
    bool was_said = false;
    std::optional<Json> next =
        answer_of(ask, stop, std::numeric_limits<double>::infinity(), [&](const auto& error, double seconds) {
          say_lost(*brief, options.peer, error, options.every + seconds, was_said);
        });
    if (!next) return 0;
    brief = std::move(next);
  }
}

}  // namespace

void add_watch(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("watch", "see in the terminal what a run is doing");
  auto options = std::make_shared<WatchOptions>();
  command->add_option("TICKET|URL", options->where, "a swarm's ticket, or the address of a dashboard as it was printed")
      ->required();
  command->add_option("--peer", options->peer, "what is known of this one, instead of all")->type_name("NAME");
  command->add_option("--every", options->every, "seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--once", options->once, "look once, and end");
  command->add_flag("--plain", options->plain, "for a swarm that was started with --plain");
  command->add_flag("--json", options->json, "what there is to see as JSON, once");
  command->callback([options, choose] { choose([options] { return watch(*options); }); });
}

}  // namespace rookery::cli
