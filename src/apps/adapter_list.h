// Which adapters an operator asked to serve.

#ifndef ARIL_APPS_ADAPTER_LIST_H_
#define ARIL_APPS_ADAPTER_LIST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"

namespace aril {

struct NamedAdapter {
  std::string name;
  std::string dir;
};

// Each sub-folder of `dir` that has an adapter_config.json, under the folder's name, in the order
// of the names. An error if `dir` cannot be read or has none.
StatusOr<std::vector<NamedAdapter>> FindAdapters(const std::string& dir);

// "name=path".
StatusOr<NamedAdapter> ParseLoraModule(const std::string& text);

// The last component of a path, as a model's name; "model" if that is no valid name.
std::string DefaultModelName(const std::string& model_dir);

// The base model's names, of which the first is every adapter's parent, and the adapters, of which
// `generations[i]` is what adapter i stands for: everybody may use them.
std::vector<CatalogEntry> EntriesOf(
    const std::vector<std::string>& base_names, const std::string& model_dir,
    const std::vector<NamedAdapter>& adapters,
    const std::vector<std::shared_ptr<const Generation>>& generations, int64_t now_unix);

}  // namespace aril

#endif  // ARIL_APPS_ADAPTER_LIST_H_
