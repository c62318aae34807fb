#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace rookery::internal {

void check_failed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "%s:%d: this is a bug in rookery: '%s' does not hold. %s\n", file, line, condition,
               values.c_str());
  std::abort();
}

}  // namespace rookery::internal
