#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"

namespace rookery::cli {

void add_config(CLI::App& app, const Choose& choose) {
  CLI::App* command = app.add_subcommand("config", "print the complete effective configuration, commented");
  auto options = std::make_shared<SettingsOptions>();
  auto json = std::make_shared<bool>(false);
  options->add_to(*command);
  command->add_flag("--json", *json, "print it as JSON");
  command->callback([=] {
    choose([=] {
      const config::Settings settings = options->load();
      if (*json) {
        print_json(config::to_json(settings));
      } else {
        fmt::print("{}", config::to_toml(settings));
      }
      return 0;
    });
  });
}

}  // namespace rookery::cli
