#include "apps/adapter_roots.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class AdapterRootsTest : public ::testing::Test {
 protected:
  AdapterRootsTest() {
    for (const char* folder : {"root/a", "root/deep/b", "root2/c", "rootless/d", "outside/e"}) {
      fs::create_directories(dir_ / folder);
    }
    fs::create_symlink(dir_ / "outside", dir_ / "root/link");
    fs::create_symlink(dir_ / "root/a", dir_ / "root/inner");
    dir_.Write("root/file", "x");
    dir_.Write("root/a/config", "a");
    dir_.Write("root/a/sub/file", "a/sub");
    dir_.Write("root2/c/config", "c");
    dir_.Write("outside/config", "secret");
    dir_.Write("outside/sub/file", "secret");
    roots_ = {fs::canonical(dir_ / "root"), fs::canonical(dir_ / "root2")};
  }
  StatusOr<Folder> Find(const std::string& source) { return AdapterRoots(roots_).Find(source); }
  // The bytes of a file of a folder, or why it has none.
  static StatusOr<std::string> Read(const Folder& folder, const std::string& name) {
    return ReadFile(folder, name, 100);
  }

  TestDir dir_;
  std::vector<fs::path> roots_;
};

TEST_F(AdapterRootsTest, FindsFoldersOfTheRoots) {
  for (const auto& [source, folder] : std::vector<std::pair<std::string, std::string>>{
           {"a", "root/a"},
           {"./a/", "root/a"},
           {"deep/b", "root/deep/b"},
           {"deep/../a", "root/a"},
           {"c", "root2/c"},
           {"inner", "root/a"},
           {(roots_[0] / "a").string(), "root/a"},
           {(roots_[1] / "../root/a").string(), "root/a"}}) {
    const auto found = Find(source);
    ASSERT_TRUE(found.ok()) << source << ": " << found.status();
    EXPECT_EQ(fs::path(found->path()).lexically_normal() / "", fs::canonical(dir_ / folder) / "")
        << source;
  }
}

TEST_F(AdapterRootsTest, NothingLeadsOut) {
  const std::string outside = fs::canonical(dir_ / "outside").string();
  for (const std::string& source :
       {std::string("../outside/e"), std::string("../rootless/d"), std::string("link/e"),
        std::string("link"), std::string("a/../../outside/e"), std::string("/etc"),
        std::string("/"), outside + "/e", outside + "/nothing", std::string("../nothing"),
        roots_[0].string() + "less/d", std::string("a\0/../../../etc", 15), std::string("//etc"),
        std::string("a/../../../../../../../../etc")}) {
    EXPECT_FALSE(Find(source).ok()) << source;
    const auto found = AdapterRoots(std::vector<fs::path>{roots_[0]}).Find(source);
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument) << source;
    EXPECT_THAT(Message(found.status()), HasSubstr("--adapter-root")) << source;
  }
}

TEST_F(AdapterRootsTest, SaysThatThereIsNoSuchFolder) {
  for (const std::string& source : {std::string("nothing"), std::string("file"),
                                    (roots_[0] / "nothing").string(), std::string("a/nothing")}) {
    EXPECT_EQ(Find(source).status().code(), StatusCode::kNotFound) << source;
  }
  EXPECT_FALSE(AdapterRoots().Find("a").ok());
}

TEST_F(AdapterRootsTest, FilesMayBeLinksToFilesOfTheRoots) {
  for (const auto& [link, target] :
       std::vector<std::pair<std::string, std::string>>{{"near", "config"},
                                                        {"far", "../../root2/c/config"},
                                                        {"back", "../link/../root/a/config"}}) {
    fs::create_symlink(target, dir_ / ("root/a/" + link));
  }
  fs::create_symlink(dir_ / "root2/c/config", dir_ / "root/a/absolute");
  fs::create_directory_symlink("sub", dir_ / "root/a/sub2");
  const auto folder = Find("a");
  ASSERT_TRUE(folder.ok()) << folder.status();
  for (const auto& [name, content] :
       std::vector<std::pair<std::string, std::string>>{{"config", "a"},
                                                        {"near", "a"},
                                                        {"far", "c"},
                                                        {"back", "a"},
                                                        {"absolute", "c"},
                                                        {"sub/file", "a/sub"},
                                                        {"sub2/file", "a/sub"}}) {
    const auto read = Read(*folder, name);
    ASSERT_TRUE(read.ok()) << name << read.status();
    EXPECT_EQ(*read, content) << name;
  }
  for (const char* name : {"nothing", "sub/nothing", "nothing/file", "config/x"}) {
    EXPECT_EQ(Read(*folder, name).status().code(), StatusCode::kNotFound) << name;
    EXPECT_FALSE(folder->Has(name)) << name;
  }
}

TEST_F(AdapterRootsTest, NoFileLeadsOut) {
  fs::create_symlink(dir_ / "outside/config", dir_ / "root/a/out");
  fs::create_symlink("../../outside/config", dir_ / "root/a/up");
  fs::create_symlink(dir_ / "outside/nothing", dir_ / "root/a/dangling");
  fs::create_symlink("/proc/self/environ", dir_ / "root/a/environ");
  fs::create_symlink("loop", dir_ / "root/a/loop");
  fs::create_directory_symlink(dir_ / "outside/sub", dir_ / "root/a/folder");
  const auto folder = Find("a");
  ASSERT_TRUE(folder.ok()) << folder.status();
  for (const char* name : {"out", "up", "dangling", "environ", "loop", "folder/file"}) {
    const Status status = folder->Open(name).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(Message(status), HasSubstr("must be a file beneath")) << name;
    EXPECT_TRUE(folder->Has(name)) << "whether there is something is not told";
  }
}

// Whoever writes beneath a root puts a link in a folder's place after it has been found.
TEST_F(AdapterRootsTest, AFolderStaysWhatWasFound) {
  const auto folder = Find("a");
  ASSERT_TRUE(folder.ok()) << folder.status();
  fs::rename(dir_ / "root/a", dir_ / "root/away");
  fs::create_directory_symlink(dir_ / "outside", dir_ / "root/a");
  EXPECT_EQ(*Read(*folder, "config"), "a");
  EXPECT_EQ(*Read(*folder, "sub/file"), "a/sub");
  // What is gone is not looked for where the name leads now.
  fs::remove(dir_ / "root/away/config");
  EXPECT_EQ(Read(*folder, "config").status().code(), StatusCode::kNotFound);
  fs::rename(dir_ / "root/away/sub", dir_ / "root/away/sub2");
  fs::create_directory_symlink("sub2", dir_ / "root/away/sub");
  EXPECT_EQ(Read(*folder, "sub/file").status().code(), StatusCode::kInvalidArgument)
      << "the link is followed by the folder's name, which leads out now";
}

TEST_F(AdapterRootsTest, AnOpenFileStaysWhatItWas) {
  const auto folder = Find("a");
  ASSERT_TRUE(folder.ok()) << folder.status();
  const auto file = folder->Open("config");
  ASSERT_TRUE(file.ok()) << file.status();
  fs::remove(dir_ / "root/a/config");
  fs::create_symlink(dir_ / "outside/config", dir_ / "root/a/config");
  EXPECT_EQ(*ReadFile(*file, "config", 100), "a");
  EXPECT_EQ(folder->Open("config").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(AdapterRootsTest, AFifoIsNotWaitedFor) {
  ASSERT_EQ(mkfifo((dir_ / "root/a/fifo").c_str(), 0600), 0);
  const auto folder = Find("a");
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_THAT(Message(Read(*folder, "fifo").status()), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace aril
