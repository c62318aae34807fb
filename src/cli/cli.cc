#include "cli/cli.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "tensor/allocator.h"

namespace rookery::cli {
namespace {

constexpr int kFailed = 1, kWrongInput = 2;

int report(const std::string& message, int exit_code) {
  std::fputs(("rookery: " + message + "\n").c_str(), stderr);  // must not fail where standard error is closed
  return exit_code;
}

int perform(const Action& action) {
  try {
    const int exit_code = action();
    if (std::fflush(stdout) != 0) throw Error("cannot write to standard output: {}", std::strerror(errno));
    return exit_code;
  } catch (const InputError& e) {
    return report(e.what(), kWrongInput);
  } catch (const Error& e) {
    return report(e.what(), kFailed);
  } catch (const std::bad_alloc&) {
    return report("out of memory; use a smaller model or batch", kFailed);
  } catch (const c10::Error& e) {
    return report(fmt::format("libtorch failed: {}", e.what_without_backtrace()), kFailed);
  } catch (const std::filesystem::filesystem_error& e) {
    return report(fmt::format("{}: {}", e.path1().string(), e.code().message()), kWrongInput);
  } catch (const std::exception& e) {
    return report(e.what(), kFailed);
  }
}

}  // namespace

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then a failed write, like a full disk
  std::signal(SIGPIPE, SIG_IGN);
  log_to_stderr();
  install_tensor_allocator();

  CLI::App app("Rookery trains one neural network on many ordinary computers.", "rookery");
  app.require_subcommand(1);
  app.set_version_flag("--version", "rookery " ROOKERY_VERSION);
  app.footer("Start with: rookery train");
  Action chosen;
  const Choose choose = [&](Action action) { chosen = std::move(action); };
  for (const auto add : {add_train, add_coordinate, add_join, add_config, add_plan, add_simulate, add_watch, add_report,
                         add_inspect, add_export, add_generate, add_data, add_bench, add_doctor})
    add(app, choose);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e, std::cout, std::cerr) == 0 ? 0 : kWrongInput;
  }
  return perform(chosen);
}

void SettingsOptions::add_to(CLI::App& command) {
  command.add_option("run.toml", file, "configuration; the built-in default if left out");
  command.add_option("--set", overrides, "change one setting: --set train.lr=3e-4 (may be repeated)")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
}

config::Settings SettingsOptions::load() const {
  return config::load(file.empty() ? std::nullopt : std::optional<std::filesystem::path>(file), overrides);
}

void print_json(const nlohmann::ordered_json& object) {
  // A language model of bytes may write anything; JSON is UTF-8.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  fmt::print("{}\n", object.dump(-1, ' ', false, kReplace));
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
    }
    fmt::print("{}\n", line);
  }
}

}  // namespace rookery::cli
