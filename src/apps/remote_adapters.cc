#include "apps/remote_adapters.h"

#include <vector>

namespace aril {
namespace {

std::vector<WantedFile> WantedFiles() {
  std::vector<WantedFile> files;
  for (const AdapterFile& file : AdapterFiles()) {
    files.push_back({.name = file.name, .required = file.required, .max_bytes = file.max_bytes});
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
