#include "apps/local_adapters.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "apps/served_model.h"
#include "base/strings.h"

namespace aril {

namespace fs = std::filesystem;

namespace {

bool IsBeneath(const fs::path& path, const fs::path& root) {
  const auto [in_root, in_path] = std::ranges::mismatch(root, path);
  return in_root == root.end();
}

}  // namespace

StatusOr<std::string> FindBeneath(const std::vector<fs::path>& roots, const std::string& source) {
  bool is_inside = false;
  for (const fs::path& root : roots) {
    if (source.find('\0') != std::string::npos) break;  // the system would read what is before it
    std::error_code error;
    // Symbolic links and ".." are resolved, also where the rest does not exist.
    const fs::path path = fs::weakly_canonical(root / source, error);
    if (error || !IsBeneath(path, root)) continue;
    if (fs::is_directory(path, error)) return path.string();
    is_inside = true;
  }
  if (is_inside) return NotFound(StrCat("there is no folder ", source));
  return InvalidArgument(
      "the path must lead to an adapter's folder beneath one that the operator allowed with "
      "--adapter-root");
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::Load(const std::string& source) {
  ASSIGN_OR_RETURN(const std::string dir, FindBeneath(options_.roots, source));
  ASSIGN_OR_RETURN(const LoadedAdapter loaded, runner_.LoadAdapter(dir));
  return MakeGeneration(loaded, dir);
}

std::shared_ptr<const Generation> LocalAdapters::Adopt(AdapterId adapter, const std::string& dir) {
  return MakeGeneration(runner_.Describe(adapter), dir);
}

std::shared_ptr<const Generation> LocalAdapters::MakeGeneration(const LoadedAdapter& loaded,
                                                                const std::string& dir) {
  if (auto own = ReadAdapterTemplate(dir, options_.special_tokens)) {
    options_.templates->Set(loaded.id, *std::move(own));
  }
  return std::make_shared<const Generation>(
      Generation::Description{.adapter = loaded.id,
                              .digest = loaded.digest,
                              .source = dir,
                              .rank = loaded.rank,
                              .bytes = loaded.bytes},
      [runner = &runner_, templates = options_.templates, id = loaded.id] {
        templates->Erase(id);
        runner->UnloadAdapter(id);
      });
}

}  // namespace aril
