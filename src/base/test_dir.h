// For tests: a folder of the test's own, so that tests can run beside each other.

#ifndef ARIL_BASE_TEST_DIR_H_
#define ARIL_BASE_TEST_DIR_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"

namespace aril {

// Deleted with its content.
class TestDir {
 public:
  TestDir() {
    std::string name = std::filesystem::temp_directory_path() / "aril-test-XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  // Starts as a copy of another folder, without its sub-folders.
  explicit TestDir(const std::string& from) : TestDir() { std::filesystem::copy(from, path_); }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;
  ~TestDir() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  // The path of a file or folder in it.
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Writes a file, with the folders that it is in. Returns its path.
  std::string Write(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = *this / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

 private:
  std::string path_;
};

}  // namespace aril

#endif  // ARIL_BASE_TEST_DIR_H_
