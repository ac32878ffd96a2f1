#include "apps/model_fingerprint.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace aril {

namespace fs = std::filesystem;

namespace {

constexpr size_t kWholeBytes = size_t{64} << 20;
// The header, which holds all names and shapes, and some values.
constexpr size_t kEndBytes = 64 << 10;
constexpr size_t kSampleBytes = 4 << 10;
constexpr size_t kMaxSamples = 4096;

std::string DigestOf(std::span<const std::byte> bytes) {
  if (bytes.size() <= kWholeBytes) return Sha256(bytes);
  const size_t stride = std::max(size_t{1} << 20, bytes.size() / kMaxSamples);
  std::vector<std::byte> sampled;
  const auto add = [&](std::span<const std::byte> part) {
    sampled.insert(sampled.end(), part.begin(), part.end());
  };
  add(bytes.first(kEndBytes));
  for (size_t at = stride; at + kSampleBytes <= bytes.size(); at += stride) {
    add(bytes.subspan(at, kSampleBytes));
  }
  add(bytes.last(kEndBytes));
  return Sha256(sampled);
}

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
    manifest += StrCat(name, " ", file.bytes().size(), " ", DigestOf(file.bytes()), "\n");
  }
  return Sha256(manifest);
}

}  // namespace aril
