#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

namespace rookery::observe::internal {

// Calls `use` with each whole line of a file, without its end, and its number, which counts from 1. A last line without
// an end is left out: somebody is writing it, or died in it. Holds a piece of the file and one line in memory.
//
// Throws InputError naming the file if it is missing or not a regular file, and naming the line if that is longer than
// 1 MiB.
void for_each_line(const std::filesystem::path& path,
                   const std::function<void(std::string_view line, std::int64_t number)>& use);

}  // namespace rookery::observe::internal
