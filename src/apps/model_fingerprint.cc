#include "apps/model_fingerprint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace aril {

namespace fs = std::filesystem;

namespace {

// Of each end of a file of weights: the header, which holds all names and shapes, and some values.
constexpr size_t kEndBytes = 64 << 10;

StatusOr<std::vector<std::string>> WeightFiles(const std::string& model_dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(model_dir, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") names.push_back(it->path().filename().string());
  }
  if (error) return InvalidArgument(model_dir + ": " + error.message());
  std::ranges::sort(names);
  return names;
}

}  // namespace

StatusOr<std::string> ModelFingerprint(const std::string& model_dir) {
  ASSIGN_OR_RETURN(const MappedFile config, MappedFile::Open(model_dir + "/config.json"));
  std::string manifest = StrCat("config.json ", Sha256(config.bytes()), "\n");
  ASSIGN_OR_RETURN(const std::vector<std::string> names, WeightFiles(model_dir));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(model_dir + "/" + name));
    const auto bytes = file.bytes();
    const size_t end_bytes = std::min(kEndBytes, bytes.size());
    manifest += StrCat(name, " ", bytes.size(), " ", Sha256(bytes.first(end_bytes)), " ",
                       Sha256(bytes.last(end_bytes)), "\n");
  }
  return Sha256(manifest);
}

}  // namespace aril
