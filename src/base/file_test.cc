#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& content) const { return dir_.Write("file", content); }

  const TestDir dir_;
};

TEST_F(FileTest, ReadsWhatIsWithinTheLimit) {
  const std::string path = Write("12345");
  EXPECT_EQ(*ReadFile(path, 5), "12345");
  EXPECT_THAT(Message(ReadFile(path, 4).status()), HasSubstr("5 bytes, more than the 4"));
  EXPECT_EQ(ReadFile(path + "x", 5).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Message(ReadFile(dir_.path(), 5).status()), HasSubstr("not a regular file"));
}

TEST_F(FileTest, NamesGitLfsPointers) {
  const std::string path = Write("version https://git-lfs.github.com/spec/v1\noid sha256:00\n");
  EXPECT_THAT(Message(ReadFile(path, 1000).status()), HasSubstr("git lfs pull"));
}

MappedFile MapGuarded(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  auto mapped = MappedFile::MapGuarded(file, path);
  EXPECT_TRUE(mapped.ok()) << mapped.status();
  return *std::move(mapped);
}

int SumOf(const MappedFile& file) {
  int sum = 0;
  for (const std::byte byte : file.bytes()) sum += std::to_integer<int>(byte);
  return sum;
}

// Two pages, so that the first one stays when the file is cut after it.
TEST_F(FileTest, WhatIsTruncatedIsReadAsZerosAndSaid) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const std::string path = Write(std::string(2 * page, '\1'));
  MappedFile file = MapGuarded(path);
  const MappedFile other = MapGuarded(dir_.Write("other", "\2"));
  std::filesystem::resize_file(path, page);
  EXPECT_TRUE(file.is_intact()) << "nobody has read there yet";
  EXPECT_EQ(SumOf(file), static_cast<int>(page));
  EXPECT_FALSE(file.is_intact());
  EXPECT_EQ(SumOf(file), static_cast<int>(page)) << "and goes on";
  const MappedFile moved = std::move(file);
  EXPECT_FALSE(moved.is_intact());
  EXPECT_EQ(SumOf(other), 2);
  EXPECT_TRUE(other.is_intact());
}

TEST_F(FileTest, WhatIsNotGuardedEndsTheProcessStill) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path = Write("12345");
  (void)MapGuarded(path);
  EXPECT_DEATH(
      {
        const auto file = MappedFile::Open(path);
        std::filesystem::resize_file(path, 0);
        _exit(SumOf(*file));
      },
      "");
}

}  // namespace
}  // namespace aril
