#include "apps/adapter_text.h"

#include <string>

#include "apps/adapter_text_test_support.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOwnTokens =
    R"({"eos_token": "<|user|>", "added_tokens_decoder": {"1024": {"content": "<call>", "special": true}}})";

class AdapterTextTest : public ::testing::Test {
 protected:
  gateway::ModelTextPtr Read(const std::string& folder) const {
    auto text = reader_->ReadStrictly(dir_ / folder, kVocabSize);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *std::move(text) : nullptr;
  }
  std::vector<int32_t> Encode(const gateway::ModelText& text) const {
    return text.tokenizer->Encode("<call>", {.add_special_tokens = false});
  }
  void WriteTokenizerJson(const std::string& folder) const {
    const auto text = ReadFile(SourcePath("models/demo/base/tokenizer.json"), 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    auto json = Json::Parse(*text);
    ASSERT_TRUE(json.ok()) << json.status();
    json->Find("added_tokens")
        ->AsArray()
        ->push_back(Json::Object{{"id", 1024}, {"content", "<call>"}, {"special", true}});
    dir_.Write(folder + "/tokenizer.json", json->Dump());
  }

  const std::shared_ptr<const AdapterTextReader> reader_ = MakeAdapterTextReader();
  const TestDir dir_;
};

TEST_F(AdapterTextTest, IsNothingOfAFolderThatBringsNone) {
  dir_.Write("plain/adapter_config.json", "{}");
  EXPECT_EQ(Read("plain"), nullptr);
  dir_.Write("same/tokenizer_config.json", R"({"eos_token": "<|end|>"})");
  EXPECT_EQ(Read("same"), nullptr);
}

TEST_F(AdapterTextTest, OfATemplateAloneHasTheBaseModelsTokenizer) {
  dir_.Write("a/chat_template.jinja", "own");
  dir_.Write("b/chat_template.jinja", "another");
  const gateway::ModelTextPtr a = Read("a"), b = Read("b");
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(a->tokenizer, b->tokenizer);
  EXPECT_EQ(*(*a->chat_dialect)->chat_template().Render({}), "own");
}

TEST_F(AdapterTextTest, OfTokensAloneHasTheBaseModelsTemplate) {
  dir_.Write("own/tokenizer_config.json", kOwnTokens);
  const gateway::ModelTextPtr text = Read("own");
  ASSERT_NE(text, nullptr);
  EXPECT_THAT(Encode(*text), ElementsAre(1024));
  EXPECT_EQ(text->tokenizer->eos_token_id(), 2);
  EXPECT_EQ(*(*text->chat_dialect)->chat_template().Render({}), "base");
}

TEST_F(AdapterTextTest, SharesTheTokenizersOfTheSameTokens) {
  dir_.Write("a/tokenizer_config.json", kOwnTokens);
  dir_.Write("b/tokenizer_config.json", kOwnTokens);
  dir_.Write("c/tokenizer_config.json", R"({"eos_token": "<|user|>"})");
  const gateway::ModelTextPtr a = Read("a"), b = Read("b"), c = Read("c");
  EXPECT_EQ(a->tokenizer, b->tokenizer);
  EXPECT_NE(a->tokenizer, c->tokenizer);
}

TEST_F(AdapterTextTest, KnowsATokenizerJsonAgain) {
  for (const std::string folder : {"a", "b", "c"}) {
    WriteTokenizerJson(folder);
    // What lies beside it counts as well.
    dir_.Write(folder + "/tokenizer_config.json",
               folder == "c" ? R"({"eos_token": "<call>"})" : "{}");
  }
  const gateway::ModelTextPtr a = Read("a"), b = Read("b"), c = Read("c");
  EXPECT_THAT(Encode(*a), ElementsAre(1024));
  EXPECT_EQ(a->tokenizer, b->tokenizer);
  EXPECT_EQ(a->tokenizer->eos_token_id(), 1);
  EXPECT_EQ(c->tokenizer->eos_token_id(), 1024);
}

TEST_F(AdapterTextTest, OfTokensThatCannotBeHadIsAnError) {
  dir_.Write("bad/tokenizer_config.json",
             R"({"added_tokens_decoder": {"300": {"content": "<call>"}}})");
  EXPECT_THAT(reader_->Read(dir_ / "bad", kVocabSize).status().message(), HasSubstr("id 300"));
  EXPECT_THAT(reader_->ReadStrictly(dir_ / "bad", kVocabSize).status().message(),
              HasSubstr("id 300"));
}

// Where the base model's tokens would stand for something else.
TEST_F(AdapterTextTest, SaysWhetherFormatsCanBeKept) {
  const auto why = [&](const std::string& config) {
    dir_.Write("own/tokenizer_config.json", config);
    const gateway::ModelTextPtr text = Read("own");
    return text == nullptr ? "no text" : std::string(text->keeps_formats.message());
  };
  EXPECT_EQ(why(kOwnTokens), "");
  EXPECT_EQ(why(R"({"added_tokens_decoder": {"3": {"content": "<call>"}}})"), "")
      << "a special token";
  const auto a = reader_->Read(dir_ / "own", kVocabSize);
  ASSERT_TRUE(a.ok()) << a.status();
  const std::vector<int32_t> word = (*a)->tokenizer->Encode("a", {.add_special_tokens = false});
  ASSERT_EQ(word.size(), 1u);
  EXPECT_THAT(why(StrCat(R"({"added_tokens_decoder": {")", word[0],
                         R"(": {"content": "a", "special": true}}})")),
              HasSubstr("to this adapter \"a\" is what is text"));
  EXPECT_EQ(why(StrCat(R"({"added_tokens_decoder": {")", word[0],
                       R"(": {"content": "a", "special": false}}})")),
            "");
}

TEST_F(AdapterTextTest, WithoutARowForItsEndIsAnError) {
  dir_.Write("own/tokenizer_config.json",
             R"({"eos_token": "<e>", "added_tokens_decoder": {"1024": {"content": "<e>"}}})");
  EXPECT_THAT(reader_->Read(dir_ / "own", 1024).status().message(),
              HasSubstr("token 1024 begins or ends texts, and the model has a vocabulary of 1024"));
  EXPECT_TRUE(reader_->Read(dir_ / "own", 1025).ok());
  // Of others those that are in prompts are refused.
  dir_.Write("own/tokenizer_config.json",
             R"({"added_tokens_decoder": {"1024": {"content": "[PAD]"}}})");
  EXPECT_TRUE(reader_->Read(dir_ / "own", 1024).ok());
}

// Which the adapter's weights say, whether or not its folder says anything of text.
TEST_F(AdapterTextTest, HasTheAdaptersVocabulary) {
  dir_.Write("plain/README.md", "");
  EXPECT_EQ(Read("plain"), nullptr) << "the base model's";
  const auto resized = reader_->Read(dir_ / "plain", kVocabSize + 3);
  ASSERT_TRUE(resized.ok() && *resized != nullptr) << resized.status();
  EXPECT_EQ((*resized)->vocab_size, kVocabSize + 3);
  const auto shared = reader_->Share(dir_ / "plain", kVocabSize + 3);
  ASSERT_TRUE(shared.ok()) << shared.status();
  const auto text = reader_->FromShared(*shared);
  ASSERT_TRUE(text.ok() && *text != nullptr) << text.status();
  EXPECT_EQ((*text)->vocab_size, kVocabSize + 3);
  dir_.Write("own/tokenizer_config.json", kOwnTokens);
  EXPECT_EQ(Read("own")->vocab_size, kVocabSize);
}

// As it was registered: not served without what it says, where there is no row for that.
TEST_F(AdapterTextTest, OfBeforeHasTheBaseModelsVocabulary) {
  dir_.Write("own/tokenizer_config.json",
             R"({"eos_token": "<e>", "added_tokens_decoder": {"1024": {"content": "<e>"}}})");
  auto shared = reader_->Share(dir_ / "own", kVocabSize);
  ASSERT_TRUE(shared.ok()) << shared.status();
  shared->vocab_size = 0;
  EXPECT_TRUE(reader_->FromShared(*shared).ok());
  EXPECT_THAT(MakeAdapterTextReader(1024)->FromShared(*shared).status().message(),
              HasSubstr("token 1024 begins or ends texts"));
}

TEST_F(AdapterTextTest, OfAWrongTemplateIsAnErrorForWhoLoadsIt) {
  dir_.Write("bad/chat_template.jinja", "{% if %}");
  EXPECT_FALSE(reader_->ReadStrictly(dir_ / "bad", kVocabSize).ok());
  const auto text = reader_->Read(dir_ / "bad", kVocabSize);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT((*text)->chat_dialect.status().message(), HasSubstr("the server's log says why"));
  EXPECT_THAT((*text)->chat_dialect.status().message(), Not(HasSubstr(dir_.path())));
}

TEST_F(AdapterTextTest, IsTheSameForOthers) {
  dir_.Write("own/tokenizer_config.json", kOwnTokens);
  dir_.Write("own/chat_template.jinja", "own");
  const auto shared = reader_->Share(dir_ / "own", kVocabSize);
  ASSERT_TRUE(shared.ok()) << shared.status();
  const auto text = MakeAdapterTextReader()->FromShared(*shared);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(Encode(**text), ElementsAre(1024));
  EXPECT_EQ((*text)->tokenizer->eos_token_id(), 2);
  EXPECT_EQ(*(*(*text)->chat_dialect)->chat_template().Render({}), "own");
  const auto nothing = reader_->FromShared({});
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(*nothing, nullptr);
}

TEST_F(AdapterTextTest, OfOthersIsLookedAt) {
  EXPECT_FALSE(reader_->FromShared({.chat_template = Json::Object{{"main", 1}}}).ok());
  EXPECT_FALSE(reader_->FromShared({.tokens = Json::Object{{"added_tokens", 1}}}).ok());
}

}  // namespace
}  // namespace aril
