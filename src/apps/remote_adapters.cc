#include "apps/remote_adapters.h"

#include <string>
#include <utility>
#include <vector>

#include "base/folder.h"

namespace aril {
namespace {

// Behind the others those of which they say whether they are read.
std::vector<WantedFile> WantedFiles() {
  std::vector<WantedFile> files;
  for (const bool always : {true, false}) {
    for (const AdapterFile& file : AdapterFiles()) {
      WantedFile wanted = {
          .name = file.name, .required = file.required, .max_bytes = file.max_bytes};
      if (file.is_read != nullptr) {
        wanted.is_wanted = [is_read = file.is_read](const std::string& dir) {
          return is_read(Folder(dir));
        };
      }
      const bool is_always_read = file.is_read == nullptr;
      if (is_always_read == always) files.push_back(std::move(wanted));
    }
  }
  return files;
}

}  // namespace

StatusOr<GenerationStore::Incoming> RemoteAdapters::Fetch(const std::string& source,
                                                          TransferMonitor& monitor) {
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, store_.Begin());
  RETURN_IF_ERROR(fetcher_.Fetch(source, WantedFiles(), incoming.dir(), monitor));
  RETURN_IF_ERROR(GenerationStore::Seal(&incoming));
  return incoming;
}

}  // namespace aril
