#include "apps/output_file.h"

#include <fstream>

#include "base/strings.h"

namespace aril {

Status WriteTextFile(const std::string& flag, const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return OkStatus();
  return InvalidArgument(StrCat(flag, " ", path, ": cannot be written"));
}

}  // namespace aril
