#include "apps/synth_files.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/file.h"
#include "base/strings.h"

namespace aril {
namespace {

namespace fs = std::filesystem;

// One of these two makes a tokenizer; the others refine it.
constexpr const char* kTokenizers[] = {"tokenizer.json", "tokenizer.model"};
constexpr const char* kCompanions[] = {"tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "vocab.json",
                                       "merges.txt",
                                       "chat_template.jinja",
                                       "chat_template.json"};

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
  int num_tokenizers = 0;
  const auto copy = [&](const char* name) -> Status {
    if (!FileExists(from + "/" + name)) return OkStatus();
    std::error_code error;
    fs::copy_file(from + "/" + name, to + "/" + name, error);
    if (error) return Unavailable(StrCat(from, "/", name, ": cannot copy: ", error.message()));
    return OkStatus();
  };
  for (const char* name : kTokenizers) {
    num_tokenizers += FileExists(from + "/" + name);
    RETURN_IF_ERROR(copy(name));
  }
  if (num_tokenizers == 0) {
    return NotFound(from + ": neither tokenizer.json nor tokenizer.model is there");
  }
  for (const char* name : kCompanions) RETURN_IF_ERROR(copy(name));
  return OkStatus();
}

}  // namespace aril
