#include "apps/model_fingerprint.h"

#include "base/test_dir.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

TEST(ModelFingerprint, IsAnotherOneForAnotherModel) {
  const TestDir dir;
  const auto fingerprint = [&] {
    auto result = ModelFingerprint(dir.path());
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : "";
  };
  dir.Write("config.json", "{}");
  dir.Write("model.safetensors", std::string(200'000, 'a'));
  dir.Write("README.md", "x");
  const std::string first = fingerprint();
  EXPECT_EQ(first.size(), 64u);
  dir.Write("README.md", "y");
  EXPECT_EQ(fingerprint(), first) << "what is not served does not count";

  dir.Write("model.safetensors", std::string(199'999, 'a') + 'b');
  const std::string other_end = fingerprint();
  EXPECT_NE(other_end, first);
  dir.Write("model.safetensors", 'b' + std::string(199'999, 'a'));
  EXPECT_NE(fingerprint(), first);
  dir.Write("model.safetensors", std::string(200'001, 'a'));
  EXPECT_NE(fingerprint(), first);
  dir.Write("model.safetensors", std::string(200'000, 'a'));
  EXPECT_EQ(fingerprint(), first);
  dir.Write("model-2.safetensors", "");
  EXPECT_NE(fingerprint(), first);
}

TEST(ModelFingerprint, NeedsAModel) {
  const TestDir dir;
  EXPECT_EQ(ModelFingerprint(dir.path()).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ModelFingerprint(dir / "none").ok());
}

}  // namespace
}  // namespace aril
