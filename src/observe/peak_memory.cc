#include "observe/peak_memory.h"

#include <fstream>
#include <string>

#include "base/error.h"

namespace rookery::observe {

Bytes peak_memory() {
  std::ifstream status("/proc/self/status");
  std::string field;
  while (status >> field) {
    Bytes kibibytes = 0;
    if (field == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
    std::getline(status, field);
  }
  throw Error("/proc/self/status does not say how much memory this process used");
}

}  // namespace rookery::observe
