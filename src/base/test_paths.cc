#include "base/test_paths.h"

namespace aril {

std::string SourcePath(const std::string& path) { return ARIL_SOURCE_DIR "/" + path; }

std::string SharedPath(const std::string& path) { return SourcePath("../shared/" + path); }

}  // namespace aril
