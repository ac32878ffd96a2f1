// Tokenizers beside adapters, against transformers: testdata/adapter_tokens.json, made by
// tools/goldens_adapter_tokens.py.

#include "tokenizer/tokenizer_changes.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/tokenizer_folder.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

constexpr const char* kDemo = "models/demo/base";

Json Parse(const std::string& text) {
  auto json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *std::move(json) : Json();
}

Json ReadJson(const std::string& path) {
  const auto text = ReadFile(path, 64 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  auto json = Json::Parse(text.ok() ? *text : "", {.max_bytes = 64 << 20, .max_values = 8'000'000});
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *std::move(json) : Json();
}

const std::string& Text(const Json& json, std::string_view key) {
  return *json.Find(key)->AsString();
}

std::vector<int32_t> Ids(const Json& json) {
  std::vector<int32_t> ids;
  for (const Json& id : *json.AsArray()) ids.push_back(static_cast<int32_t>(*id.AsInt()));
  return ids;
}

std::string PathOf(const std::string& base) {
  constexpr std::string_view kShared = "../shared/";
  return base.starts_with(kShared) ? SharedPath(base.substr(kShared.size())) : SourcePath(base);
}

std::unique_ptr<PipelineTokenizer> LoadBase(const std::string& folder) {
  auto base = LoadTokenizer(folder);
  EXPECT_TRUE(base.ok()) << base.status();
  return base.ok() ? *std::move(base) : nullptr;
}

// As versions 4.34 to 4.57 of transformers say which tokens were added.
void ListAddedTokens(const Json& added_tokens, Json* config) {
  Json::Object listed;
  for (const Json& token : *added_tokens.AsArray()) {
    Json::Object flags;
    for (const auto& [key, value] : *token.AsObject()) {
      if (key != "id") flags.emplace_back(key, value);
    }
    listed.emplace_back(StrCat(*token.Find("id")->AsInt()), std::move(flags));
  }
  config->AsObject()->emplace_back("added_tokens_decoder", std::move(listed));
}

void WriteVersion4(const Json& test, const TestDir& dir) {
  Json config = *test.Find("config");
  ListAddedTokens(*test.Find("added_tokens"), &config);
  dir.Write("tokenizer_config.json", config.Dump());
}

void WriteVersion5(const Json& test, const std::string& base, const TestDir& dir) {
  Json tokenizer = ReadJson(base + "/tokenizer.json");
  Json::Object& vocabulary = *tokenizer.Find("model")->Find("vocab")->AsObject();
  // What has another text is not there any more under its old one.
  for (const Json& token : *test.Find("added_tokens")->AsArray()) {
    for (auto& [name, id] : vocabulary) {
      if (*id.AsInt() == *token.Find("id")->AsInt()) name = Text(token, "content");
    }
  }
  *tokenizer.Find("added_tokens") = *test.Find("added_tokens");
  *tokenizer.Find("post_processor") = *test.Find("post_processor");
  dir.Write("tokenizer.json", tokenizer.Dump());
  dir.Write("tokenizer_config.json", test.Find("config")->Dump());
}

void ExpectResults(const Json& test, const Tokenizer& tokenizer) {
  EXPECT_EQ(tokenizer.eos_token_id(), *test.Find("eos")->AsInt());
  for (const Json& result : *test.Find("results")->AsArray()) {
    SCOPED_TRACE(Text(result, "text"));
    const std::vector<int32_t> ids = Ids(*result.Find("ids"));
    EXPECT_EQ(tokenizer.Encode(Text(result, "text"), {.add_special_tokens = false}), ids);
    EXPECT_EQ(tokenizer.Encode(Text(result, "text"), {}), Ids(*result.Find("around")));
    EXPECT_EQ(tokenizer.Decode(ids, false), Text(result, "decoded"));
    EXPECT_EQ(tokenizer.Decode(ids, true), Text(result, "without_special"));
  }
}

StatusOr<TokenizerChanges> LoadChanges(const Folder& dir, const PipelineTokenizer& base) {
  ASSIGN_OR_RETURN(const AdapterTokenizerFiles files, ReadAdapterTokenizer(dir));
  return ChangesIn(files, base);
}

// As in the folder, and as others get to know of it.
void ExpectSame(const Json& test, const Folder& dir, const PipelineTokenizer& base) {
  const auto changes = LoadChanges(dir, base);
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(changes->empty(), Text(test, "name") == "nothing");
  ExpectResults(test, *WithChanges(base, *changes));
  const auto sent = ReadTokenizerChanges(Parse(ToJson(*changes).Dump()), "sent");
  ASSERT_TRUE(sent.ok()) << sent.status();
  EXPECT_EQ(*sent, *changes);
}

TEST(TokenizerChanges, AreThoseOfTransformers) {
  const Json goldens = ReadJson(SourcePath("src/tokenizer/testdata/adapter_tokens.json"));
  int num_cases = 0;
  for (const Json& test : *goldens.Find("cases")->AsArray()) {
    const std::string base_dir = PathOf(Text(test, "base"));
    if (!FileExists(base_dir)) continue;
    SCOPED_TRACE(StrCat(Text(test, "name"), " on ", Text(test, "base")));
    const auto base = LoadBase(base_dir);
    ASSERT_NE(base, nullptr);
    const TestDir version4;
    WriteVersion4(test, version4);
    ExpectSame(test, version4.path(), *base);
    const TestDir version5;
    WriteVersion5(test, base_dir, version5);
    ExpectSame(test, version5.path(), *base);
    ++num_cases;
  }
  if (num_cases < 7) GTEST_SKIP() << "without ../shared, " << num_cases << " cases of 7";
}

class TokenizerChangesTest : public ::testing::Test {
 protected:
  StatusOr<TokenizerChanges> Load(const std::string& config) const {
    dir_.Write("tokenizer_config.json", config);
    return LoadChanges(dir_.path(), *base_);
  }

  const std::unique_ptr<PipelineTokenizer> base_ = LoadBase(SourcePath(kDemo));
  const TestDir dir_;
};

TEST_F(TokenizerChangesTest, AreNoneWhereTheFolderSaysNothingOfTokens) {
  const auto without = LoadChanges(dir_.path(), *base_);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_TRUE(without->empty());
  for (const char* config : {"{}", R"({"chat_template": "x", "eos_token": null})",
                             R"({"bos_token": "no token of either", "eos_token": ""})",
                             R"({"added_tokens_decoder": {}, "eos_token": "<|end|>"})"}) {
    const auto changes = Load(config);
    ASSERT_TRUE(changes.ok()) << changes.status();
    EXPECT_TRUE(changes->empty()) << config;
  }
}

// A tokenizer.json without a tokenizer_config.json is nobody's, as in PEFT; so is one that is not
// needed.
TEST_F(TokenizerChangesTest, LeaveATokenizerJsonAloneThatDoesNotCount) {
  dir_.Write("tokenizer.json", "no JSON");
  const auto alone = LoadChanges(dir_.path(), *base_);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(alone->empty());
  EXPECT_TRUE(Load(R"({"added_tokens_decoder": {}})").ok());
  EXPECT_THAT(Load("{}").status().message(), HasSubstr("tokenizer.json"));
}

TEST_F(TokenizerChangesTest, KeepAnEndThatTheBaseModelHasAsText) {
  const auto changes = Load(R"({"eos_token": "<|user|>"})");
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(changes->eos_token_id, 2);
  EXPECT_THAT(changes->tokens, ::testing::IsEmpty());
  EXPECT_EQ(WithChanges(*base_, *changes)->eos_token_id(), 2);
}

TEST_F(TokenizerChangesTest, RefuseToTakeTheIdOfAWord) {
  const auto changes = Load(R"({"added_tokens_decoder": {"300": {"content": "<call>"}}})");
  EXPECT_EQ(changes.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(changes.status().message(), HasSubstr("the token of id 300 is \"<call>\""));
  EXPECT_THAT(changes.status().message(), HasSubstr("added_tokens_decoder"));
}

TEST_F(TokenizerChangesTest, RefuseTwoIdsForATokenAndTooManyTokens) {
  EXPECT_THAT(Load(R"({"added_tokens_decoder": {"1024": {"content": "<a>"},
                                                "1025": {"content": "<a>"}}})")
                  .status()
                  .message(),
              HasSubstr("the token \"<a>\" has two ids, 1024 and 1025"));
  const auto config = [](size_t num_tokens) {
    std::string list;
    for (size_t i = 0; i < num_tokens; ++i) {
      list += StrCat(i == 0 ? "" : ",", "\"", 1024 + i, R"(":{"content":"<)", i, ">\"}");
    }
    return StrCat(R"({"added_tokens_decoder":{)", list, "}}");
  };
  EXPECT_TRUE(Load(config(kMaxChangedTokens)).ok());
  EXPECT_THAT(Load(config(kMaxChangedTokens + 1)).status().message(), HasSubstr("16384 tokens"));
}

TEST_F(TokenizerChangesTest, RefuseIdsOutOfBounds) {
  const auto changes = Load(R"({"added_tokens_decoder": {"99999999": {"content": "<call>"}}})");
  EXPECT_THAT(changes.status().message(), HasSubstr("99999999"));
  const auto of_bytes = [&](size_t bytes) {
    return Load(StrCat(R"({"added_tokens_decoder": {"1024": {"content": ")",
                       std::string(bytes, 'x'), "\"}}}"))
        .ok();
  };
  EXPECT_TRUE(of_bytes(kMaxChangedTokenBytes));
  EXPECT_FALSE(of_bytes(kMaxChangedTokenBytes + 1));
}

// Each would take the rest along, and find it again.
TEST_F(TokenizerChangesTest, TakeWhiteSpaceAlongInOneGo) {
  const auto changes =
      Load(R"({"added_tokens_decoder": {"1024": {"content": " ", "rstrip": true}}})");
  ASSERT_TRUE(changes.ok()) << changes.status();
  const auto tokenizer = WithChanges(*base_, *changes);
  // Quadratic, it would take hours.
  const std::string spaces(4 << 20, ' ');
  EXPECT_EQ(tokenizer->Encode(spaces, {}), std::vector<int32_t>(spaces.size(), 1024));
}

// It may lie in a file that was forgotten.
TEST_F(TokenizerChangesTest, RefuseAnEndThatIsNoToken) {
  for (const char* list : {"", R"(, "added_tokens_decoder": {})"}) {
    const auto changes = Load(StrCat(R"({"eos_token": "<e>")", list, "}"));
    EXPECT_EQ(changes.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(changes.status().message(), HasSubstr("eos_token is \"<e>\", which is no token"));
  }
}

TEST_F(TokenizerChangesTest, RefuseAnotherVocabulary) {
  const Json whole = ReadJson(SourcePath(kDemo) + "/tokenizer.json");
  const auto error = [&](auto edit) {
    Json tokenizer = whole;
    Json::Object& vocabulary = *tokenizer.Find("model")->Find("vocab")->AsObject();
    EXPECT_GT(vocabulary.size(), 21u);
    edit(vocabulary);
    dir_.Write("tokenizer.json", tokenizer.Dump());
    return std::string(Load("{}").status().message());
  };
  EXPECT_THAT(error([](Json::Object& words) { std::swap(words[20].second, words[21].second); }),
              HasSubstr("which is no token of the base model's: an adapter may add tokens"));
  EXPECT_THAT(error([](Json::Object& words) { words.pop_back(); }),
              HasSubstr("has 1019 words, and the base model's tokenizer 1020"));
  EXPECT_EQ(error([](Json::Object&) {}), "");
}

// Only what counts is read, so that nothing else can be wrong, or too much.
TEST_F(TokenizerChangesTest, LookAtNothingElseInATokenizerJson) {
  Json tokenizer = ReadJson(SourcePath(kDemo) + "/tokenizer.json");
  for (const char* part : {"normalizer", "pre_tokenizer", "decoder"}) {
    *tokenizer.Find(part) = Parse(R"({"type": "of no kind"})");
  }
  dir_.Write("tokenizer.json", tokenizer.Dump());
  const auto changes = Load("{}");
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_TRUE(changes->empty());
}

TEST_F(TokenizerChangesTest, BoundWhatGoesAroundAText) {
  Json tokenizer = ReadJson(SourcePath(kDemo) + "/tokenizer.json");
  const auto error = [&](const std::string& post_processor) {
    *tokenizer.Find("post_processor") = Parse(post_processor);
    dir_.Write("tokenizer.json", tokenizer.Dump());
    return std::string(Load("{}").status().message());
  };
  const auto around = [](size_t items, size_t ids) {
    const std::vector<std::string> item(items, R"({"SpecialToken":{"id":"x"}})");
    return StrCat(R"({"type":"TemplateProcessing","single":[)", Join(item, ","),
                  R"(,{"Sequence":{}}],"special_tokens":{"x":{"ids":[)",
                  Join(std::vector<int>(ids, 1), ","), "]}}}");
  };
  EXPECT_EQ(error(around(8, 8)), "");
  EXPECT_THAT(error(around(8, 9)), HasSubstr("more than 64"));
  EXPECT_THAT(error(around(64, 1)), HasSubstr("more than 64")) << "the text is an item as well";
  const std::vector<std::string> processors(9, around(8, 1));
  EXPECT_THAT(error(StrCat(R"({"type":"Sequence","processors":[)", Join(processors, ","), "]}")),
              HasSubstr("more than 64"));
}

TEST_F(TokenizerChangesTest, RefuseJsonThatNobodyHasMade) {
  for (const char* json :
       {"[]", R"({"added_tokens": 1})", R"({"added_tokens": [{"content": "x"}]})",
        R"({"added_tokens": [{"content": "x", "id": -1}]})",
        R"({"added_tokens": [{"content": "", "id": 1}]})", R"({"eos": "x"})", R"({"prefix": [1]})",
        R"({"prefix": [1], "suffix": [99999999]})"}) {
    EXPECT_EQ(ReadTokenizerChanges(Parse(json), "x").status().code(), StatusCode::kInvalidArgument)
        << json;
  }
}

}  // namespace
}  // namespace aril
