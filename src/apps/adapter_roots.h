// The folders that the operator allows adapters to be loaded from, which clients may be able to
// write to.

#ifndef ARIL_APPS_ADAPTER_ROOTS_H_
#define ARIL_APPS_ADAPTER_ROOTS_H_

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/folder.h"
#include "base/status.h"

namespace aril {

// Nothing outside of the roots is ever opened, whatever is renamed or linked beneath them
// meanwhile: links are followed by name, and what they lead to is then opened on a way without any
// (base/folder.h). Immutable; thread-safe.
class AdapterRoots {
 public:
  AdapterRoots() = default;
  // InvalidArgument if one of --adapter-root is no folder.
  static StatusOr<AdapterRoots> Of(const std::vector<std::string>& dirs);
  // Canonical paths; what leads to them is the operator's.
  explicit AdapterRoots(std::vector<std::filesystem::path> roots) : roots_(std::move(roots)) {}

  // The folder that `source` names beneath a root: an absolute path, or one relative to a root.
  // InvalidArgument if it leads out of all of them, by ".." or by a symbolic link, whether there is
  // something or not; NotFound if it is beneath one and there is no such folder.
  //
  // It is held open, and its files are looked up in it. They may be links to files beneath any
  // root; to open one that leads elsewhere is InvalidArgument.
  StatusOr<Folder> Find(const std::string& source) const;

 private:
  std::vector<std::filesystem::path> roots_;
};

}  // namespace aril

#endif  // ARIL_APPS_ADAPTER_ROOTS_H_
