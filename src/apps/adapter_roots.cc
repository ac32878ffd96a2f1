#include "apps/adapter_roots.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <system_error>

#include "base/file_descriptor.h"
#include "base/strings.h"

namespace aril {

namespace fs = std::filesystem;

namespace {

constexpr int kFileFlags = O_RDONLY | O_NONBLOCK;  // opening a FIFO must not wait for a writer

bool IsBeneath(const fs::path& path, const fs::path& root) {
  const auto [in_root, in_path] = std::ranges::mismatch(root, path);
  return in_root == root.end();
}

// Where an absolute path leads, whether there is something or not, with no link and no ".." left.
// (weakly_canonical leaves the links that stand behind a missing element, and those that lead to
// nothing.) nullopt for what the system would not follow either.
std::optional<fs::path> Follow(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // Linux's: path_resolution(7)
  if (path.native().size() >= PATH_MAX) return std::nullopt;
  std::list<fs::path> ahead(path.begin(), path.end());
  fs::path at;
  for (int num_links = 0; !ahead.empty(); ahead.pop_front()) {
    const fs::path& element = ahead.front();
    if (element.empty() || element == ".") continue;
    if (element == "..") {
      at = at.parent_path();
      continue;
    }
    std::error_code error;
    const fs::path target = fs::read_symlink(at / element, error);
    if (error) {
      at /= element;  // no link
    } else if (++num_links > kMaxLinks) {
      return std::nullopt;
    } else {
      ahead.insert(std::next(ahead.begin()), target.begin(), target.end());
    }
  }
  return at;
}

// What `path`, of a place that Follow has found beneath the root, is on a way without links.
FileDescriptor OpenBeneath(const fs::path& root, const fs::path& path, int flags) {
  const FileDescriptor folder(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) return FileDescriptor();
  auto [in_root, in_path] = std::ranges::mismatch(root, path);
  fs::path relative;
  for (; in_path != path.end(); ++in_path) relative /= *in_path;
  return OpenWithoutLinks(folder, relative, flags);
}

// A file of an open folder, whose path is `dir`.
StatusOr<FileDescriptor> OpenFile(const std::vector<fs::path>& roots, const FileDescriptor& folder,
                                  const fs::path& dir, const std::string& name) {
  const fs::path path = dir / name;
  FileDescriptor file = OpenWithoutLinks(folder, name, kFileFlags);
  if (file.is_open()) return file;
  if (errno != ELOOP && errno != ENOTDIR) return ErrnoStatus(path);
  // There is a link, or was.
  const std::optional<fs::path> target = Follow(path);
  const auto is_above = [&](const fs::path& root) { return IsBeneath(*target, root); };
  const auto root = target.has_value() ? std::ranges::find_if(roots, is_above) : roots.end();
  if (root == roots.end()) {
    return InvalidArgument(path.string() +
                           ": must be a file beneath a folder that the operator allowed with "
                           "--adapter-root");
  }
  file = OpenBeneath(*root, *target, kFileFlags);
  if (file.is_open()) return file;
  return ErrnoStatus(path);
}

}  // namespace

StatusOr<AdapterRoots> AdapterRoots::Of(const std::vector<std::string>& dirs) {
  std::vector<fs::path> roots;
  for (const std::string& dir : dirs) {
    std::error_code error;
    roots.push_back(fs::canonical(dir, error));
    if (error || !fs::is_directory(roots.back(), error)) {
      return InvalidArgument(StrCat("--adapter-root ", dir, ": no such folder"));
    }
  }
  return AdapterRoots(std::move(roots));
}

StatusOr<Folder> AdapterRoots::Find(const std::string& source) const {
  bool is_inside = false;
  for (const fs::path& root : roots_) {
    if (source.find('\0') != std::string::npos) break;  // the system would read what is before it
    const std::optional<fs::path> path = Follow(root / source);
    if (!path.has_value() || !IsBeneath(*path, root)) continue;
    auto folder =
        std::make_shared<const FileDescriptor>(OpenBeneath(root, *path, O_PATH | O_DIRECTORY));
    if (folder->is_open()) {
      return Folder(path->string(), [roots = roots_, folder, dir = *path](const std::string& name) {
        return OpenFile(roots, *folder, dir, name);
      });
    }
    is_inside = true;
  }
  if (is_inside) return NotFound(StrCat("there is no folder ", source));
  return InvalidArgument(
      "the path must lead to an adapter's folder beneath one that the operator allowed with "
      "--adapter-root");
}

}  // namespace aril
