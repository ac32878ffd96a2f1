// What transformers adds around a text, by the class of the tokenizer: testdata/bos_eos.json, made
// by tools/goldens_bos_eos.py.

#include "tokenizer/tokenizer_config.h"

#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {
namespace {

// "<" for a BOS in front and ">" for an EOS behind.
std::string ShowEnds(const std::vector<int32_t>& ids) {
  constexpr int32_t kBos = 0;
  constexpr int32_t kEos = 1;
  return std::string(ids.front() == kBos ? "<" : "") + (ids.back() == kEos ? ">" : "");
}

std::string EndsOf(const Json& tokenizer_json, const Json& test) {
  Json::Object config = *test.Find("flags")->AsObject();
  config.emplace_back("tokenizer_class", *test.Find("class"));
  config.emplace_back("bos_token", Json(std::string("<s>")));
  config.emplace_back("eos_token", Json(std::string("</s>")));
  TestDir dir;
  dir.Write("tokenizer.json", tokenizer_json.Dump());
  dir.Write("tokenizer_config.json", Json(std::move(config)).Dump());
  const auto tokenizer = LoadTokenizer(dir.path());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? ShowEnds((*tokenizer)->Encode("a", {})) : "";
}

// Versions 4 and 5 agree on most. Where they do not, flags count as in 4; without any,
// tokenizer.json does, as in 5.
TEST(TokenizerConfig, AddsWhatTransformersAdds) {
  const auto text = ReadFile(SourcePath("src/tokenizer/testdata/bos_eos.json"), 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto goldens = Json::Parse(*text);
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  for (const Json& test : *goldens->Find("cases")->AsArray()) {
    SCOPED_TRACE(test.Dump());
    const bool has_flags = !test.Find("flags")->AsObject()->empty();
    const std::string& expected = *test.Find("results")->Find(has_flags ? "4" : "5")->AsString();
    const Json& tokenizer_json =
        *goldens->Find("tokenizers")->Find(*test.Find("post_processor")->AsString());
    EXPECT_EQ(EndsOf(tokenizer_json, test), expected);
  }
}

}  // namespace
}  // namespace aril
