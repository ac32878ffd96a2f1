#include "base/file_descriptor.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "gtest/gtest.h"

namespace aril {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(FileDescriptor, ClosesWhatItOwns) {
  FileDescriptor none;
  EXPECT_FALSE(none.is_open());
  int fd = -1;
  {
    FileDescriptor first(open("/dev/null", O_RDONLY | O_CLOEXEC));
    fd = first.get();
    ASSERT_TRUE(first.is_open());
    const FileDescriptor second(std::move(first));
    EXPECT_EQ(second.get(), fd);
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(FileDescriptor, WhatIsAssignedToKeepsOneOwner) {
  FileDescriptor first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int fd = first.get();
  {
    FileDescriptor second(open("/dev/null", O_RDONLY | O_CLOEXEC));
    first = std::move(second);
    EXPECT_NE(first.get(), fd);
  }
  EXPECT_FALSE(IsOpen(fd));
  EXPECT_TRUE(IsOpen(first.get()));
}

TEST(ErrnoStatus, SaysWhatKindOfErrorItIs) {
  const auto code = [](int error) {
    errno = error;
    return ErrnoStatus("/x").code();
  };
  EXPECT_EQ(code(ENOENT), StatusCode::kNotFound);
  EXPECT_EQ(code(ENOTDIR), StatusCode::kNotFound);
  EXPECT_EQ(code(ENOSPC), StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EDQUOT), StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EMFILE), StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EIO), StatusCode::kUnavailable);
  EXPECT_EQ(code(EACCES), StatusCode::kInvalidArgument);
  errno = ENOENT;
  EXPECT_EQ(Message(ErrnoStatus("/x")), "/x: No such file or directory");
}

}  // namespace
}  // namespace aril
