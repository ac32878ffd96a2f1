#include "base/folder.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    dir_.Write("root/file", "file");
    dir_.Write("root/a/b/file", "a/b/file");
    dir_.Write("outside/b/file", "outside");
    root_ = FileDescriptor(open((dir_ / "root").c_str(), O_PATH | O_DIRECTORY));
  }
  FileDescriptor Walk(const std::string& path) { return OpenWithoutLinks(root_, path, O_RDONLY); }
  // What the walk to a path that cannot be opened says.
  int WalkError(const std::string& path) {
    errno = 0;
    const FileDescriptor file = Walk(path);
    const int error = errno;
    EXPECT_FALSE(file.is_open()) << path;
    return error;
  }

  TestDir dir_;
  FileDescriptor root_;
};

TEST_F(FolderTest, APathIsAFolder) {
  const Folder folder(dir_ / "root");
  EXPECT_EQ(folder.PathOf("file"), dir_ / "root/file");
  EXPECT_EQ(*ReadFile(folder, "file", 10), "file");
  EXPECT_EQ(*ReadFile(folder, "a/b/file", 10), "a/b/file");
  EXPECT_EQ(MapFile(folder, "file")->bytes().size(), 4u);
  EXPECT_TRUE(folder.Has("file"));
  EXPECT_TRUE(folder.Has("a"));
  EXPECT_FALSE(folder.Has("b"));
  EXPECT_EQ(ReadFile(folder, "b", 10).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(MapFile(folder, "b").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(ReadFile(folder, "file", 3).status()), HasSubstr("root/file: 4 bytes"));
  EXPECT_THAT(Message(MapFile(folder, "a").status()), HasSubstr("root/a: not a regular file"));
}

TEST_F(FolderTest, AnOpenerDecidesWhatIsThere) {
  const Folder folder("shown", [this](const std::string& name) -> StatusOr<FileDescriptor> {
    if (name != "config") return NotFound("none");
    return FileDescriptor(open((dir_ / "root/file").c_str(), O_RDONLY));
  });
  EXPECT_EQ(*ReadFile(folder, "config", 10), "file");
  EXPECT_FALSE(folder.Has("file"));
  EXPECT_THAT(Message(ReadFile(folder, "config", 3).status()), HasSubstr("shown/config: 4 bytes"));
}

TEST_F(FolderTest, TheWalkOpensWhatIsThere) {
  EXPECT_EQ(*ReadFile(Walk("file"), "file", 10), "file");
  EXPECT_EQ(*ReadFile(Walk("a/b/file"), "file", 10), "a/b/file");
  EXPECT_TRUE(OpenWithoutLinks(root_, "a/b", O_PATH | O_DIRECTORY).is_open());
  EXPECT_TRUE(OpenWithoutLinks(root_, "", O_PATH | O_DIRECTORY).is_open()) << "the root itself";
  EXPECT_EQ(WalkError("nothing"), ENOENT);
  EXPECT_EQ(WalkError("nothing/file"), ENOENT);
  EXPECT_EQ(WalkError("file/x"), ENOTDIR);
  EXPECT_FALSE(OpenWithoutLinks(root_, "file", O_PATH | O_DIRECTORY).is_open());
}

TEST_F(FolderTest, TheWalkFollowsNoLinks) {
  fs::create_symlink("file", dir_ / "root/inner");
  fs::create_symlink(dir_ / "outside/b/file", dir_ / "root/outer");
  fs::create_directory_symlink("a", dir_ / "root/inner-folder");
  fs::create_directory_symlink("../outside", dir_ / "root/outer-folder");
  fs::create_directory_symlink("/proc/self/root", dir_ / "root/magic");
  EXPECT_EQ(WalkError("inner"), ELOOP);
  EXPECT_EQ(WalkError("outer"), ELOOP);
  for (const char* path : {"inner-folder/b/file", "outer-folder/b/file", "magic/etc/passwd"}) {
    EXPECT_EQ(WalkError(path), ENOTDIR) << path;
  }
  for (const char* path : {"..", "../outside/b/file", "a/../../outside/b/file", "a/./b", "/etc"}) {
    EXPECT_EQ(WalkError(path), EINVAL) << path;
  }
}

TEST_F(FolderTest, TheWalkIsOfWhatWasOpen) {
  fs::rename(dir_ / "root", dir_ / "moved");
  fs::create_directory_symlink(dir_ / "outside", dir_ / "root");
  EXPECT_EQ(*ReadFile(Walk("a/b/file"), "file", 10), "a/b/file");
  EXPECT_EQ(WalkError("b/file"), ENOENT);
}

}  // namespace
}  // namespace aril
