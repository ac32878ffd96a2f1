// Files that a flag asks for.

#ifndef ARIL_APPS_OUTPUT_FILE_H_
#define ARIL_APPS_OUTPUT_FILE_H_

#include <string>

#include "base/status.h"

namespace aril {

// InvalidArgument, with the flag's name, if it cannot be written. Replaces what is there.
Status WriteTextFile(const std::string& flag, const std::string& path, const std::string& text);

}  // namespace aril

#endif  // ARIL_APPS_OUTPUT_FILE_H_
