// From what is registered of a name to what is served under it.

#ifndef ARIL_CATALOG_RESTORE_ENTRY_H_
#define ARIL_CATALOG_RESTORE_ENTRY_H_

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "catalog/catalog.h"
#include "catalog/name_store.h"

namespace aril {

// Gives the generation that was registered so; what it is given has no adapter yet.
using FindGeneration =
    std::function<StatusOr<std::shared_ptr<const Generation>>(const Generation::Description&)>;

// What a row says, whole, but for what keeps a pinned one in place. The errors of `find` and of
// MakeSplit.
StatusOr<CatalogEntry> RestoreEntry(const RegisteredAdapter& row, const std::string& parent,
                                    const FindGeneration& find);

}  // namespace aril

#endif  // ARIL_CATALOG_RESTORE_ENTRY_H_
