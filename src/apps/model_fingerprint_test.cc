#include "apps/model_fingerprint.h"

#include <algorithm>

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

// As when an adapter is merged: sizes, names and ends stay the same.
TEST(ModelFingerprint, SeesWhatChangedInTheMiddle) {
  const TestDir dir;
  dir.Write("config.json", "{}");
  for (const size_t size : {size_t{1} << 20, size_t{80} << 20}) {
    std::string weights(size, 'a');
    dir.Write("model.safetensors", weights);
    const auto before = ModelFingerprint(dir.path());
    const size_t changed = std::min(size / 2, (size_t{1} << 20) + (4 << 10));
    weights.replace(size / 4, changed, changed, 'b');
    dir.Write("model.safetensors", weights);
    EXPECT_NE(*ModelFingerprint(dir.path()), *before) << size;
  }
}

TEST(ModelFingerprint, NeedsAModel) {
  const TestDir dir;
  EXPECT_EQ(ModelFingerprint(dir.path()).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ModelFingerprint(dir / "none").ok());
}

}  // namespace
}  // namespace aril
