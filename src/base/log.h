#pragma once

#include <filesystem>

#include <spdlog/spdlog.h>

namespace rookery {

// Logging for the whole process, by spdlog's default logger: spdlog::info(...), spdlog::warn(...). Warnings and errors
// also go to standard error. Call once, before threads start.
void log_to(const std::filesystem::path& file);

// Before a run has a log file: warnings and errors to standard error only.
void log_to_stderr();

}  // namespace rookery
