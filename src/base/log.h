#pragma once

#include <filesystem>

#include <spdlog/spdlog.h>

namespace rookery {

// Logging for the whole process, by spdlog's default logger: spdlog::info(...), spdlog::warn(...). Warnings and errors
// also go to standard error, unless others speak for this process. Call once, before threads start.
enum class LogTo { kFileAndStderr, kFileOnly };
void log_to(const std::filesystem::path& file, LogTo where = LogTo::kFileAndStderr);

// Before a run has a log file: warnings and errors to standard error only.
void log_to_stderr();

}  // namespace rookery
