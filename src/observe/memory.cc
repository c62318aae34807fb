#include "observe/memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rookery::observe {
namespace {

// Of a file with lines like "VmRSS:   1234 kB".
std::optional<Bytes> entry_of(const char* file, std::string_view entry, Bytes unit) {
  std::ifstream lines(file);
  std::string field;
  while (lines >> field) {
    Bytes number = 0;
    if (field == entry && lines >> number) return number * unit;
    std::getline(lines, field);
  }
  return std::nullopt;
}

Bytes status_of_this_process(std::string_view entry) {
  if (const auto bytes = entry_of("/proc/self/status", entry, 1024)) return *bytes;
  throw Error("/proc/self/status does not say how much memory this process uses");
}

// Nothing where the file is not there, or says "max".
std::optional<Bytes> number_in(const char* file) {
  Bytes bytes = 0;
  if (std::ifstream(file) >> bytes) return bytes;
  return std::nullopt;
}

}  // namespace

Bytes peak_memory() { return status_of_this_process("VmHWM:"); }

void forget_peak_memory() {
  constexpr const char* kPeak = "5";  // of what is counted of a process
  std::ofstream("/proc/self/clear_refs") << kPeak;
}

Bytes resident_memory() { return status_of_this_process("VmRSS:"); }

Bytes available_memory() {
  const auto free = entry_of("/proc/meminfo", "MemAvailable:", 1024);
  if (!free) throw Error("/proc/meminfo does not say how much memory is free");
  const auto most = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (!most || !used) return *free;
  Bytes cached = 0;  // of files: goes when it is needed
  for (const char* entry : {"inactive_file", "active_file"}) {
    cached += entry_of("/sys/fs/cgroup/memory.stat", entry, 1).value_or(0);
  }
  return std::min(*free, std::max<Bytes>(0, *most - *used + cached));
}

}  // namespace rookery::observe
