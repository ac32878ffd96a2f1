// Where the demo's model and adapters lie.

#ifndef ARIL_APPS_DEMO_FOLDER_H_
#define ARIL_APPS_DEMO_FOLDER_H_

#include <string>

#include "base/status.h"

namespace aril {

// The folder that has them as `base/` and `adapters/`: that of an installation (share/aril/demo
// beside bin/), else that of a build tree (models/demo of the sources). Looked for from this
// program's own place. NotFound if neither is there.
StatusOr<std::string> FindDemoFolder();

}  // namespace aril

#endif  // ARIL_APPS_DEMO_FOLDER_H_
