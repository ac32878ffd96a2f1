// The tokenizers of real models against reference encodings: llama.cpp's vectors, sentencepiece's
// and tokenizers' goldens. The data lie outside of the repository; without them the tests skip.

#include <cctype>
#include <iterator>
#include <ostream>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/tokenizer_folder.h"
#include "tokenizer/unicode.h"

namespace aril {
namespace {

using Ids = std::vector<int32_t>;

const std::string kData = SharedPath("data");
const std::string kGoldens = kData + "/tokenizers/goldens/encode.jsonl";
const std::string kStories = kData + "/models/stories260K";
constexpr Tokenizer::EncodeOptions kPlain = {.add_special_tokens = false,
                                             .parse_special_tokens = false};

#define SKIP_WITHOUT(path)                                                   \
  do {                                                                       \
    if (!FileExists(path)) GTEST_SKIP() << (path) << " is not present here"; \
  } while (false)

Ids IdsOf(const Json& list) {
  Ids ids;
  for (const Json& id : *list.AsArray()) ids.push_back(static_cast<int32_t>(*id.AsInt()));
  return ids;
}

std::string ReadAll(const std::string& path) {
  auto text = ReadFile(path, 64 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *std::move(text) : "";
}

std::vector<std::string> SplitBy(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at = text.find(separator); at != std::string::npos;
       at = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  return parts;  // what follows the last separator is empty in all of these files
}

// A test name: letters, digits and underscores.
std::string Identifier(std::string text) {
  for (char& c : text) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return text;
}

std::unique_ptr<Tokenizer> Load(const std::string& name) {
  auto tokenizer = LoadTokenizer(kData + "/tokenizers/" + name);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

struct Vectors {
  const char* tokenizer;
  const char* file;
  friend std::ostream& operator<<(std::ostream& out, const Vectors& vectors) {
    return out << Identifier(StrCat(vectors.tokenizer, "_", vectors.file));
  }
};

class LlamaCppVectors : public testing::TestWithParam<Vectors> {};

TEST_P(LlamaCppVectors, AllTexts) {
  const std::string base = StrCat(kData, "/tokenizers/llamacpp_vectors/", GetParam().file);
  SKIP_WITHOUT(base + ".inp");
  const auto tokenizer = Load(GetParam().tokenizer);
  ASSERT_NE(tokenizer, nullptr);
  const auto texts = SplitBy(ReadAll(base + ".inp"), "\n__ggml_vocab_test__\n");
  const auto lines = SplitBy(ReadAll(base + ".out"), "\n");
  ASSERT_EQ(texts.size(), 46u);
  ASSERT_EQ(lines.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::istringstream line(lines[i]);
    const Ids expected{std::istream_iterator<int32_t>(line), {}};
    EXPECT_EQ(tokenizer->Encode(texts[i], kPlain), expected) << JsonQuote(texts[i]);
    EXPECT_EQ(tokenizer->Decode(expected, true), texts[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Judge, LlamaCppVectors,
                         testing::Values(Vectors{"llama2-spm", "ggml-vocab-llama-spm.gguf"},
                                         Vectors{"llama2-spm", "ggml-vocab-phi-3.gguf"},
                                         Vectors{"tinyllama-1.1b-chat",
                                                 "ggml-vocab-llama-spm.gguf"},
                                         Vectors{"qwen2.5-instruct", "ggml-vocab-qwen2.gguf"}),
                         testing::PrintToStringParamName());

// What decoding an encoded text gives.
enum class RoundTrip { kSame, kNfc, kLossy };

void ExpectGoldens(const Tokenizer& tokenizer, const std::string& key, RoundTrip round_trip) {
  int compared = 0;
  for (const std::string& line : SplitBy(ReadAll(kGoldens), "\n")) {
    const auto golden = Json::Parse(line);
    ASSERT_TRUE(golden.ok()) << golden.status();
    const Json* ids = golden->Find("ids")->Find(key);
    if (ids == nullptr) continue;
    const std::string& text = *golden->Find("text")->AsString();
    EXPECT_EQ(tokenizer.Encode(text, kPlain), IdsOf(*ids)) << JsonQuote(text);
    const bool nfc = round_trip == RoundTrip::kNfc;
    if (round_trip != RoundTrip::kLossy) {
      EXPECT_EQ(tokenizer.Decode(IdsOf(*ids), true),
                nfc ? ToNormalForm(text, NormalForm::kNfc) : text);
    }
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

// The tokenizers that the goldens name, by folder; stories260K's tokenizer.json is not the judge of
// tok512, whose tokenizer.model collapses spaces.
struct Golden {
  const char* folder;
  const char* key;
  RoundTrip round_trip = RoundTrip::kSame;
  friend std::ostream& operator<<(std::ostream& out, const Golden& golden) {
    return out << Identifier(golden.folder);
  }
};

class Goldens : public testing::TestWithParam<Golden> {};

TEST_P(Goldens, AllTexts) {
  SKIP_WITHOUT(kGoldens);
  const auto tokenizer = Load(GetParam().folder);
  ASSERT_NE(tokenizer, nullptr);
  ExpectGoldens(*tokenizer, GetParam().key, GetParam().round_trip);
}

INSTANTIATE_TEST_SUITE_P(Judge, Goldens,
                         testing::Values(Golden{"llama2-spm", "llama2"},
                                         Golden{"tinyllama-1.1b-chat", "llama2"},
                                         Golden{"mistral-v3-spm", "mistral_v3"},
                                         Golden{"qwen2.5-instruct", "qwen2.5", RoundTrip::kNfc},
                                         Golden{"smollm2", "smollm2"}),
                         testing::PrintToStringParamName());

void ExpectGreedyPrompts(const Tokenizer& tokenizer, bool collapses_spaces) {
  const auto expected = Json::Parse(ReadAll(kStories + "/expected_greedy.json"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const Json& golden : *expected->Find("cases")->AsArray()) {
    const std::string& prompt = *golden.Find("prompt")->AsString();
    // The goldens are sentencepiece's; tokenizer.json keeps the spaces that it drops (SOURCES.md).
    if (prompt == " " && !collapses_spaces) continue;
    EXPECT_EQ(tokenizer.Encode(prompt, {}), IdsOf(*golden.Find("prompt_ids"))) << JsonQuote(prompt);
  }
}

TEST(Stories260K, PromptsOfTheGreedyGoldens) {
  SKIP_WITHOUT(kStories + "/expected_greedy.json");
  const auto tokenizer = LoadTokenizer(kStories);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectGreedyPrompts(**tokenizer, /*collapses_spaces=*/false);
}

TEST(Stories260K, TheSameFromTheSentencePieceFile) {
  const std::string path = kStories + "/tokenizer.model";
  SKIP_WITHOUT(path);
  const auto tokenizer = ParseSentencePieceModel(ReadAll(path), path, {});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ExpectGreedyPrompts(**tokenizer, /*collapses_spaces=*/true);
  ExpectGoldens(**tokenizer, "tok512", RoundTrip::kLossy);
}

}  // namespace
}  // namespace aril
