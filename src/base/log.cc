#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include "base/error.h"

namespace rookery {
namespace {

spdlog::sink_ptr stderr_sink() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_level(spdlog::level::warn);
  sink->set_pattern("%^%l%$: %v");
  return sink;
}

void install(std::vector<spdlog::sink_ptr> sinks) {
  auto logger = std::make_shared<spdlog::logger>("rookery", sinks.begin(), sinks.end());
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

void log_to_stderr() { install({stderr_sink()}); }

void log_to(const std::filesystem::path& file, LogTo where) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %L %v");
    std::vector<spdlog::sink_ptr> sinks = {std::move(sink)};
    if (where == LogTo::kFileAndStderr) sinks.push_back(stderr_sink());
    install(std::move(sinks));
  } catch (const spdlog::spdlog_ex& e) {
    throw InputError("{}: cannot write the log: {}", file.string(), e.what());
  }
}

}  // namespace rookery
