#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace aril::internal {

void CheckFailed(const char* file, int line, const char* expression, const std::string& values) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s %s\n", file, line, expression, values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace aril::internal
