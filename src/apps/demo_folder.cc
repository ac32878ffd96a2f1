#include "apps/demo_folder.h"

#include <filesystem>
#include <system_error>

#include "base/strings.h"

namespace aril {

StatusOr<std::string> FindDemoFolder() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (const char* place : {"../share/aril/demo", "../../models/demo"}) {
    const fs::path folder = (program.parent_path() / place).lexically_normal();
    if (fs::is_regular_file(folder / "base" / "config.json", error)) return folder.string();
  }
  return NotFound(StrCat("--demo: there is no demo beside ", program.string(),
                         " (share/aril/demo of the installation, or models/demo of the sources); "
                         "install it, or serve a model of your own with --model"));
}

}  // namespace aril
