#include "catalog/state_dir.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

// What an import left that never got a name, or a removal that was cut short.
Status RemoveStrays(const StateDir& state) {
  ASSIGN_OR_RETURN(const std::vector<std::string> stored, state.store.List());
  ASSIGN_OR_RETURN(const std::vector<std::string> needed, state.registry->Generations());
  for (const std::string& digest : stored) {
    if (std::ranges::binary_search(needed, digest)) continue;
    LogInfo(StrCat("removing generation ", digest, ", which no adapter stands for"));
    RETURN_IF_ERROR(state.store.Remove(digest));
  }
  return OkStatus();
}

}  // namespace

StatusOr<StateDir> OpenStateDir(const std::string& dir, const std::string& base) {
  std::error_code error;
  const bool is_new = std::filesystem::create_directories(dir, error);
  if (error) return InvalidArgument(StrCat("--state-dir ", dir, ": ", error.message()));
  // One that is there already may lie in a folder that we cannot read.
  if (is_new) RETURN_IF_ERROR(SyncFolder(std::filesystem::absolute(dir).parent_path()));
  // First: it is what keeps a second server out.
  ASSIGN_OR_RETURN(std::unique_ptr<Registry> registry,
                   Registry::Open(dir + "/registry.sqlite", base));
  ASSIGN_OR_RETURN(GenerationStore store, GenerationStore::Open(dir + "/adapters"));
  StateDir state{.registry = std::move(registry), .store = std::move(store)};
  RETURN_IF_ERROR(RemoveStrays(state));
  return state;
}

}  // namespace aril
