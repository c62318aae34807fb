#include "observe/computer.h"

#include <algorithm>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "base/units.h"

namespace rookery::observe {
namespace {

// The rest of the first line that begins so, without what separates it.
std::string line_of(const char* file, const std::string& beginning) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(beginning)) continue;
    const std::size_t first = line.find_first_not_of(" \t:", beginning.size());
    return first == std::string::npos ? "" : line.substr(first);
  }
  return "";
}

}  // namespace

std::string describe_computer() {
  constexpr std::size_t kLongest = 60;
  std::string processor = line_of("/proc/cpuinfo", "model name").substr(0, kLongest);
  if (processor.empty()) processor = "unknown processor";
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::string text = fmt::format("{}, {} core{}", processor, cores, cores > 1 ? "s" : "");
  const std::string memory = line_of("/proc/meminfo", "MemTotal");
  if (!memory.empty()) text += fmt::format(", {}", format_bytes(std::strtoll(memory.c_str(), nullptr, 10) * 1024));
  return text;
}

}  // namespace rookery::observe
