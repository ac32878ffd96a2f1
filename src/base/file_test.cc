#include "base/file.h"

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

}  // namespace
}  // namespace aril
