#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "config/settings.h"

// One file per command. Each adds its options to the program and what to do when it is chosen.
namespace rookery::cli {

using Action = std::function<int()>;  // returns the exit code

// Called with the action of the command that was chosen on the command line.
using Choose = std::function<void(Action)>;

void add_train(CLI::App& app, const Choose& choose);
void add_coordinate(CLI::App& app, const Choose& choose);
void add_join(CLI::App& app, const Choose& choose);
void add_config(CLI::App& app, const Choose& choose);
void add_plan(CLI::App& app, const Choose& choose);
void add_simulate(CLI::App& app, const Choose& choose);
void add_watch(CLI::App& app, const Choose& choose);
void add_report(CLI::App& app, const Choose& choose);
void add_inspect(CLI::App& app, const Choose& choose);
void add_export(CLI::App& app, const Choose& choose);
void add_generate(CLI::App& app, const Choose& choose);
void add_data(CLI::App& app, const Choose& choose);
void add_bench(CLI::App& app, const Choose& choose);
void add_doctor(CLI::App& app, const Choose& choose);

// The [run.toml] and --set options that several commands share.
struct SettingsOptions {
  std::string file;
  std::vector<std::string> overrides;

  void add_to(CLI::App& command);
  config::Settings load() const;
};

// One JSON object on a line of its own on standard output.
void print_json(const nlohmann::ordered_json& object);

// Rows as aligned columns on standard output; the first row is the heading. Columns after the first are numbers.
void print_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace rookery::cli
