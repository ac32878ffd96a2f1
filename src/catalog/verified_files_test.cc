#include "catalog/verified_files.h"

#include <chrono>
#include <filesystem>

#include "base/test_dir.h"
#include "catalog/generation_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class VerifiedFilesTest : public ::testing::Test {
 protected:
  VerifiedFilesTest() {
    Write("1");
    // The files' times are the system's: this clock is ahead of it, so that they are old.
    clock_.Advance(std::chrono::seconds(RealClock().UnixSeconds() + 3600));
  }

  void Write(const std::string& weights) {
    dir_.Write("a/adapter_config.json", "{}");
    dir_.Write("a/adapter_model.safetensors", weights);
  }

  const TestDir dir_;
  ManualClock clock_;
};

TEST_F(VerifiedFilesTest, AreReadOnceIfNothingChanges) {
  auto files = VerifiedFiles::Read(dir_ / "a", clock_);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->digest(), *DigestOfAdapter(dir_ / "a"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(files->Check(dir_ / "a").ok());
  EXPECT_EQ(files->num_readings(), 1);
}

TEST_F(VerifiedFilesTest, OthersAreNoticed) {
  auto files = VerifiedFiles::Read(dir_ / "a", clock_);
  // As long, and with the times that it had.
  const fs::path weights = dir_ / "a/adapter_model.safetensors";
  const auto written = fs::last_write_time(weights);
  Write("2");
  fs::last_write_time(weights, written);
  const Status other = files->Check(dir_ / "a");
  EXPECT_EQ(other.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(other), HasSubstr("put the files back"));
  EXPECT_FALSE(files->Check(dir_ / "a").ok()) << "what is wrong is not remembered";
  EXPECT_EQ(files->num_readings(), 3);
  Write("1");
  EXPECT_TRUE(files->Check(dir_ / "a").ok());
  EXPECT_TRUE(files->Check(dir_ / "a").ok());
  EXPECT_EQ(files->num_readings(), 4);
  // One that was not there is a change as well.
  dir_.Write("a/chat_template.jinja", "{{ messages }}");
  EXPECT_EQ(files->Check(dir_ / "a").code(), StatusCode::kFailedPrecondition);
}

TEST_F(VerifiedFilesTest, EqualOnesElsewhereAreRead) {
  auto files = VerifiedFiles::Read(dir_ / "a", clock_);
  fs::copy(dir_ / "a", dir_ / "b");
  EXPECT_TRUE(files->Check(dir_ / "b").ok());
  EXPECT_EQ(files->num_readings(), 2);
}

TEST_F(VerifiedFilesTest, WhatHasJustChangedIsReadAgain) {
  auto files = VerifiedFiles::Read(dir_ / "a");  // by the system's time
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_TRUE(files->Check(dir_ / "a").ok());
  EXPECT_EQ(files->num_readings(), 2);
}

TEST_F(VerifiedFilesTest, WhatIsNotThereIsAnError) {
  EXPECT_EQ(VerifiedFiles::Read(dir_ / "none", clock_).status().code(), StatusCode::kNotFound);
  auto files = VerifiedFiles::Read(dir_ / "a", clock_);
  fs::remove_all(dir_ / "a");
  EXPECT_EQ(files->Check(dir_ / "a").code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace aril
