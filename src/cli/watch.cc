#include <chrono>
#include <cstdio>
#include <functional>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/run_output.h"
#include "dashboard/client.h"
#include "dashboard/text.h"
#include "train/look_on.h"
#include "wire/bytes.h"

namespace rookery::cli {
namespace {

using dashboard::Json;

struct WatchOptions {
  std::string where;
  double every = 1;
  bool once = false, plain = false, json = false;
};

// Asks once more what there is to see.
std::function<Json()> source_of(const WatchOptions& options) {
  if (options.where.find("://") != std::string::npos) {
    const auto client = std::make_shared<dashboard::Client>(dashboard::parse_url(options.where));
    return [client] { return client->brief(); };
  }
  try {
    const auto coordinator = std::make_shared<train::LookOn>(wire::parse_ticket(options.where), !options.plain);
    return [coordinator] { return Json::parse(coordinator->brief(), nullptr, false); };
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

void draw(const Json& brief, const std::optional<Screen>& screen) {
  const Screen room = screen.value_or(Screen{});
  std::string picture = screen ? "\033[H" : "";
  for (const std::string& line : dashboard::lines_of(brief, room.columns, room.lines)) {
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

int watch(const WatchOptions& options) {
  const std::atomic<bool>& stop = stop_on_interrupt();
  const auto ask = source_of(options);
  Json brief = ask();
  if (options.json || options.once) {
    options.json ? print_json(brief) : draw(brief, std::nullopt);
    return 0;
  }
  if (terminal()) std::fputs("\033[2J", stdout);
  for (;;) {
    draw(brief, terminal());
    if (is_over(brief)) return 0;
    rest(options.every, stop);
    if (stop) return 0;
    try {
      brief = ask();
    } catch (const Error& error) {
      fmt::print(stderr, "{}; the run may be over\n", error.what());
      return 0;
    }
  }
}

}  // namespace

void add_watch(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("watch", "see in the terminal what a run is doing");
  auto options = std::make_shared<WatchOptions>();
  command->add_option("TICKET|URL", options->where, "a swarm's ticket, or the address of a dashboard as it was printed")
      ->required();
  command->add_option("--every", options->every, "seconds between two looks")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--once", options->once, "look once, and end");
  command->add_flag("--plain", options->plain, "for a swarm that was started with --plain");
  command->add_flag("--json", options->json, "what there is to see as JSON, once");
  command->callback([options, choose] { choose([options] { return watch(*options); }); });
}

}  // namespace rookery::cli
