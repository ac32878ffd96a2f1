#include "apps/token_texts.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;

class FewTokens final : public Tokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::string TokenBytes(int32_t id, bool is_first, bool skip_special_tokens) const override {
    EXPECT_FALSE(is_first);
    if (skip_special_tokens && IsSpecial(id)) return "";
    static const std::map<int32_t, std::string> kTexts = {
        {0, "<s>"}, {1, " a"}, {2, "\xFF"}, {3, "\xE2"}, {4, "</s>"}, {5, "<tool>"}, {6, "<end>"}};
    const auto found = kTexts.find(id);
    return found == kTexts.end() ? "" : found->second;
  }
  int64_t vocab_size() const override { return 7; }
  bool IsSpecial(int32_t id) const override { return id == 0 || id == 4 || id == 5; }
  std::optional<int32_t> bos_token_id() const override { return 0; }
  std::optional<int32_t> eos_token_id() const override { return 4; }
};

// Token 6 ends texts though the tokenizer does not know; 7 and 8 are padding.
TEST(TokenTexts, AreThoseThatATextMayHave) {
  ModelSpec spec;
  spec.vocab_size = 9;
  spec.eos_token_ids = {6, 100};
  EXPECT_THAT(TokenTexts(FewTokens(), spec),
              ElementsAre("\xFF<s>\xFF", " a", "", "\xE2", "", "\xFF<tool>\xFF", "", "", ""));
  spec.vocab_size = 5;
  EXPECT_EQ(TokenTexts(FewTokens(), spec).size(), 7u);
}

}  // namespace
}  // namespace aril
