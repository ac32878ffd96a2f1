#include "apps/synth_files.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/file.h"
#include "base/strings.h"

namespace aril {
namespace {

namespace fs = std::filesystem;

// What LoadTokenizer reads, and what stands beside it. The first two are a tokenizer each, and so
// are the next two together.
constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",    "tokenizer.model",       "vocab.json",
    "merges.txt",        "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja",   "chat_template.json"};

}  // namespace

Status CreateEmptyDirectory(const std::string& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return InvalidArgument(StrCat(dir, ": cannot create: ", error.message()));
  const bool empty = fs::is_empty(dir, error);
  if (error) return InvalidArgument(StrCat(dir, ": ", error.message()));
  if (!empty) {
    return FailedPrecondition(dir + ": not empty; name a new directory or empty this one");
  }
  return OkStatus();
}

Status WriteJsonFile(const std::string& path, const Json& json) {
  std::ofstream file(path, std::ios::binary);
  file << json.Dump() << '\n';
  file.close();
  if (!file) return Unavailable(path + ": cannot write");
  return OkStatus();
}

Status CopyTokenizerFiles(const std::string& from, const std::string& to) {
  const auto has = [&](const char* name) { return FileExists(StrCat(from, "/", name)); };
  if (!has("tokenizer.json") && !has("tokenizer.model") &&
      !(has("vocab.json") && has("merges.txt"))) {
    return NotFound(from +
                    " has no tokenizer: expected tokenizer.json, tokenizer.model, or vocab.json "
                    "and merges.txt");
  }
  for (const char* name : kTokenizerFiles) {
    if (!has(name)) continue;
    std::error_code error;
    fs::copy_file(StrCat(from, "/", name), StrCat(to, "/", name), error);
    if (error) return Unavailable(StrCat(from, "/", name, ": cannot copy: ", error.message()));
  }
  return OkStatus();
}

}  // namespace aril
