#include "base/file_watch.h"

#include <filesystem>
#include <string>

#include "base/test_dir.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;

TEST(FileWatch, SaysNothingOfFilesThatStayAsTheyAre) {
  const TestDir dir;
  FileWatch watch({dir.Write("a", "x"), dir / "absent"});
  EXPECT_FALSE(watch.HasChanged());
  EXPECT_FALSE(watch.HasChanged());
  EXPECT_FALSE(FileWatch().HasChanged());
}

TEST(FileWatch, SaysOnceThatAFileHasChangedWhenItChangesNoMore) {
  const TestDir dir;
  FileWatch watch({dir.Write("a", "x"), dir.Write("b", "y")});
  dir.Write("b", "half");
  EXPECT_FALSE(watch.HasChanged());
  dir.Write("b", "half and half");
  EXPECT_FALSE(watch.HasChanged());
  EXPECT_TRUE(watch.HasChanged());
  EXPECT_FALSE(watch.HasChanged());
}

TEST(FileWatch, SeesReplacedFilesAndMovedLinks) {
  const TestDir dir;
  const std::string file = dir.Write("file", "x");
  const std::string link = dir / "link";
  fs::create_symlink(dir.Write("v1", "x"), link);
  FileWatch watch({file, link});
  fs::rename(dir.Write("new", "x"), file);
  EXPECT_FALSE(watch.HasChanged());
  EXPECT_TRUE(watch.HasChanged());
  fs::create_symlink(dir.Write("v2", "x"), dir / "next");
  fs::rename(dir / "next", link);
  EXPECT_FALSE(watch.HasChanged());
  EXPECT_TRUE(watch.HasChanged());
}

TEST(FileWatch, SeesFilesThatGoAndComeBack) {
  const TestDir dir;
  FileWatch watch({dir.Write("a", "x")});
  fs::remove(dir / "a");
  EXPECT_FALSE(watch.HasChanged());
  EXPECT_TRUE(watch.HasChanged());
  dir.Write("a", "x");
  EXPECT_FALSE(watch.HasChanged());
  EXPECT_TRUE(watch.HasChanged());
}

}  // namespace
}  // namespace aril
