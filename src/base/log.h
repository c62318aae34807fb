#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <spdlog/spdlog.h>

namespace rookery {

// Logging for the whole process, by spdlog's default logger: spdlog::info(...), spdlog::warn(...). Warnings and errors
// also go to standard error, unless others speak for this process. Call once, before threads start.
enum class LogTo { kFileAndStderr, kFileOnly };
void log_to(const std::filesystem::path& file, LogTo where = LogTo::kFileAndStderr);

// The last lines of the log, those after the first `known` of them, at most so many; `known` then counts them, too. A
// few dozen are kept, wherever else they go. Thread-safe.
std::vector<std::string> log_lines_after(std::uint64_t& known, std::size_t most);

// Before a run has a log file: warnings and errors to standard error only.
void log_to_stderr();

}  // namespace rookery
