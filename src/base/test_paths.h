// For tests and benchmarks: where files of the repository are, and those beside it, which may be
// absent.

#ifndef ARIL_BASE_TEST_PATHS_H_
#define ARIL_BASE_TEST_PATHS_H_

#include <string>

namespace aril {

// "tests/goldens" as an absolute path. A function of its own library, not a definition for each
// source: so compilers' caches find what another clone has compiled.
std::string SourcePath(const std::string& path);

// The same, in the folder `shared` beside the repository.
std::string SharedPath(const std::string& path);

}  // namespace aril

#endif  // ARIL_BASE_TEST_PATHS_H_
