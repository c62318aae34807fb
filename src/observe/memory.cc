#include "observe/memory.h"

#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace rookery::observe {
namespace {

Bytes status_of_this_process(std::string_view entry) {
  std::ifstream status("/proc/self/status");
  std::string field;
  while (status >> field) {
    Bytes kibibytes = 0;
    if (field == entry && status >> kibibytes) return kibibytes * 1024;
    std::getline(status, field);
  }
  throw Error("/proc/self/status does not say how much memory this process uses");
}

}  // namespace

Bytes peak_memory() { return status_of_this_process("VmHWM:"); }

void forget_peak_memory() {
  constexpr const char* kPeak = "5";  // of what is counted of a process
  std::ofstream("/proc/self/clear_refs") << kPeak;
}

Bytes resident_memory() { return status_of_this_process("VmRSS:"); }

}  // namespace rookery::observe
