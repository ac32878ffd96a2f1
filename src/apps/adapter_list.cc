#include "apps/adapter_list.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/strings.h"

namespace aril {

namespace fs = std::filesystem;

StatusOr<std::vector<NamedAdapter>> FindAdapters(const std::string& dir) {
  std::error_code error;
  std::vector<NamedAdapter> adapters;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    if (!FileExists(it->path() / "adapter_config.json")) continue;
    adapters.push_back({it->path().filename().string(), it->path().string()});
  }
  if (error || adapters.empty()) {
    return InvalidArgument(
        StrCat("--adapters ", dir, ": ",
               error ? error.message() : "no sub-folder has an adapter_config.json",
               "; name the folder that holds the adapters' folders"));
  }
  std::sort(adapters.begin(), adapters.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return adapters;
}

StatusOr<NamedAdapter> ParseLoraModule(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    return InvalidArgument(StrCat("--lora-modules ", text, ": expected name=path"));
  }
  return NamedAdapter{text.substr(0, equals), text.substr(equals + 1)};
}

std::string DefaultModelName(const std::string& model_dir) {
  // The empty component after a trailing '/' does not count; "." stands for a folder with a name.
  std::error_code error;
  fs::path path = fs::canonical(model_dir, error);
  if (error) path = model_dir;
  const std::string name = path.filename().string();
  return IsValidName(name) ? name : "model";
}

std::vector<CatalogEntry> EntriesOf(
    const std::vector<std::string>& base_names, const std::string& model_dir,
    const std::vector<NamedAdapter>& adapters,
    const std::vector<std::shared_ptr<const Generation>>& generations, int64_t now_unix) {
  CHECK_EQ(generations.size(), adapters.size());
  std::vector<CatalogEntry> entries;
  for (const std::string& name : base_names) entries.push_back({.name = name, .root = model_dir});
  for (size_t i = 0; i < adapters.size(); ++i) {
    entries.push_back({.name = adapters[i].name,
                       .parent = base_names.front(),
                       .root = adapters[i].dir,
                       .generation = generations[i],
                       .is_given = true,
                       .history = {{.digest = (*generations[i])->digest,
                                    .since_unix = now_unix,
                                    .source = adapters[i].dir}}});
  }
  return entries;
}

}  // namespace aril
