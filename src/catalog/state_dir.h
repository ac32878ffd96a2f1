// The folder in which a server keeps what must survive it: `registry.sqlite`, the names of
// adapters, and `adapters`, their files.

#ifndef ARIL_CATALOG_STATE_DIR_H_
#define ARIL_CATALOG_STATE_DIR_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "catalog/generation_store.h"
#include "catalog/registry.h"

namespace aril {

struct StateDir {
  std::unique_ptr<Registry> registry;
  GenerationStore store;
};

// Makes the folder if need be, and removes files that no name needs any more. An error if another
// process uses it, or if it was made for another base model than `base` stands for.
StatusOr<StateDir> OpenStateDir(const std::string& dir, const std::string& base);

}  // namespace aril

#endif  // ARIL_CATALOG_STATE_DIR_H_
