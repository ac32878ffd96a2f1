// Every component against the reference implementations, on small models: testdata/goldens.json,
// made by tools/goldens_tokenizer.py.

#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tiktoken.h"
#include "tokenizer/tokenizer_json.h"

namespace aril {
namespace {

using Ids = std::vector<int32_t>;

const Json& Goldens() {
  static const Json goldens = [] {
    const auto text = ReadFile(SourcePath("src/tokenizer/testdata/goldens.json"), 1 << 20);
    return text.ok() ? Json::Parse(*text).value_or(Json()) : Json();
  }();
  return goldens;
}

const Json& Member(const Json& object, std::string_view key) {
  static const Json null;
  const Json* member = object.Find(key);
  return member == nullptr ? null : *member;
}

Ids IdsOf(const Json& list) {
  Ids ids;
  for (const Json& id : *list.AsArray()) ids.push_back(static_cast<int32_t>(*id.AsInt()));
  return ids;
}

std::vector<std::string> Texts() {
  std::vector<std::string> texts;
  for (const Json& text : *Member(Goldens(), "texts").AsArray()) texts.push_back(*text.AsString());
  return texts;
}

// The tokenizer.json of a case: the model that it names, changed by its options, and its parts.
std::string TokenizerJsonOf(const Json& golden) {
  Json model = Member(Member(Goldens(), "models"), *golden.Find("model")->AsString());
  if (const Json* options = golden.Find("model_options")) {
    for (const auto& option : *options->AsObject()) {
      std::erase_if(*model.AsObject(), [&](const auto& old) { return old.first == option.first; });
      model.AsObject()->push_back(option);
    }
  }
  Json::Object file = {{"model", std::move(model)}};
  for (const char* key :
       {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    file.emplace_back(key, Member(golden, key));
  }
  return Json(std::move(file)).Dump();
}

// `list` at `index`, or the same of the first case with this model (see `shorten` in the tool).
Ids ExpectedIds(const Json& golden, size_t index) {
  const Json* own = &(*golden.Find("ids")->AsArray())[index];
  if (!own->is_null()) return IdsOf(*own);
  for (const Json& other : *Member(Goldens(), "cases").AsArray()) {
    if (*other.Find("model")->AsString() != *golden.Find("model")->AsString()) continue;
    return IdsOf((*other.Find("ids")->AsArray())[index]);
  }
  return {};
}

// The entry of a sparse list of texts.
std::string TextOr(const Json& sparse, size_t index, const std::string& text_if_absent) {
  const Json* text = sparse.Find(StrCat(index));
  return text == nullptr ? text_if_absent : *text->AsString();
}

class ComponentGoldens : public testing::TestWithParam<size_t> {};

TEST_P(ComponentGoldens, EncodesAndDecodesAsTheReference) {
  const Json& golden = (*Member(Goldens(), "cases").AsArray())[GetParam()];
  SCOPED_TRACE(*golden.Find("name")->AsString());
  const auto tokenizer = ParseTokenizerJson(TokenizerJsonOf(golden), "tokenizer.json", {});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<std::string> texts = Texts();
  for (size_t i = 0; i < texts.size(); ++i) {
    const Ids ids = ExpectedIds(golden, i);
    EXPECT_EQ((*tokenizer)->Encode(texts[i], {}), ids) << JsonQuote(texts[i]);
    const std::string skipped = TextOr(*golden.Find("skipped"), i, texts[i]);
    EXPECT_EQ((*tokenizer)->Decode(ids, true), skipped);
    EXPECT_EQ((*tokenizer)->Decode(ids, false), TextOr(*golden.Find("kept"), i, skipped));
  }
}

size_t NumCases() {
  const Json::Array* cases = Member(Goldens(), "cases").AsArray();
  return cases == nullptr ? 0 : cases->size();
}

INSTANTIATE_TEST_SUITE_P(Golden, ComponentGoldens, testing::Range<size_t>(0, NumCases()));

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string DecodeBase64(const std::string& text) {
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<uint32_t>(kBase64.find(c));
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> num_bits & 0xFF));
  }
  return bytes;
}

std::string EncodeBase64(const std::string& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = i; j < i + 3; ++j) {
      bits = bits << 8 | (j < bytes.size() ? static_cast<uint8_t>(bytes[j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      text.push_back(i + j > bytes.size() ? '=' : kBase64[bits >> (18 - 6 * j) & 63]);
    }
  }
  return text;
}

TEST(TiktokenGoldens, EncodesAsTheReference) {
  const Json& vocab = Member(Member(Member(Goldens(), "models"), "bytes"), "vocab");
  std::string file;
  for (const auto& [token, rank] : *vocab.AsObject()) {
    if (token == "<s>" || token == "</s>") continue;
    file += StrCat(EncodeBase64(*FromAlphabet(token)), " ", *rank.AsInt(), "\n");
  }
  ASSERT_TRUE(LooksLikeTiktoken(file));
  TokenizerConfig config;
  config.added_tokens = {{.content = "<s>", .id = 0, .special = true}};
  config.bos_token = "<s>";
  const auto tokenizer = ParseTiktoken(file, "tokenizer.model", config);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<std::string> texts = Texts();
  for (size_t i = 0; i < texts.size(); ++i) {
    Ids ids = IdsOf((*Member(Goldens(), "tiktoken").AsArray())[i]);
    EXPECT_EQ((*tokenizer)->Decode(ids, true), texts[i]);
    ids.insert(ids.begin(), 0);
    EXPECT_EQ((*tokenizer)->Encode(texts[i], {.parse_special_tokens = false}), ids)
        << JsonQuote(texts[i]);
  }
}

TEST(SentencePieceGoldens, EncodesAndDecodesAsTheReference) {
  std::vector<std::string> texts = Texts();
  texts.push_back(DecodeBase64(*Member(Goldens(), "invalid_utf8").AsString()));
  ASSERT_EQ(Member(Goldens(), "sentencepiece").AsArray()->size(), 2u);
  for (const Json& golden : *Member(Goldens(), "sentencepiece").AsArray()) {
    SCOPED_TRACE(*golden.Find("name")->AsString());
    const auto tokenizer =
        ParseSentencePieceModel(DecodeBase64(*golden.Find("model")->AsString()), "m", {});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (size_t i = 0; i < texts.size(); ++i) {
      const Ids ids = IdsOf((*golden.Find("ids")->AsArray())[i]);
      const Ids encoded =
          (*tokenizer)
              ->Encode(texts[i], {.add_special_tokens = false, .parse_special_tokens = false});
      EXPECT_EQ(encoded, ids) << JsonQuote(texts[i]);
      // sentencepiece always writes out what it does not know; here that is a special token.
      std::string decoded;
      IncrementalDetokenizer detokenizer(**tokenizer, /*skip_special_tokens=*/false, true);
      for (const int32_t id : ids) decoded += detokenizer.Append(id);
      EXPECT_EQ(decoded + detokenizer.Flush(), *(*golden.Find("decoded")->AsArray())[i].AsString());
    }
  }
}

}  // namespace
}  // namespace aril
