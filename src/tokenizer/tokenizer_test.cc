#include "tokenizer/tokenizer_folder.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/json.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "base/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A model directory with the given files.
class ModelDir {
 public:
  ModelDir& Write(const std::string& name, std::string_view content) {
    dir_.Write(name, content);
    return *this;
  }
  StatusOr<std::unique_ptr<Tokenizer>> Load() const { return LoadTokenizer(dir_.path()); }
  std::string Error() const {
    const auto tokenizer = Load();
    return tokenizer.ok() ? "" : Message(tokenizer.status());
  }

 private:
  TestDir dir_;
};

constexpr std::string_view kModel =
    R"({"type":"BPE","vocab":{"a":3,"b":4,"ab":5,"Ġ":6,"Ã":7,"©":8,"Ġa":9},)"
    R"("merges":["a b",["Ġ","a"]]})";
constexpr std::string_view kByteLevel =
    R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"})";
constexpr std::string_view kAdded =
    R"("added_tokens":[{"id":0,"content":"<s>","special":true},{"id":1,"content":"</s>","special":true}])";

std::string ByteLevelJson(std::string_view model = kModel) {
  return StrCat("{", kAdded, ",", kByteLevel, R"(,"model":)", model, "}");
}

TEST(Tokenizer, ByteLevelFile) {
  const auto tokenizer = ModelDir().Write("tokenizer.json", ByteLevelJson()).Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("ab a<s>\u00e9", {}), ElementsAre(5, 9, 0, 7, 8));
  EXPECT_EQ((*tokenizer)->vocab_size(), 10);
  EXPECT_TRUE((*tokenizer)->IsSpecial(1));
  EXPECT_FALSE((*tokenizer)->IsSpecial(3));
  EXPECT_EQ((*tokenizer)->bos_token_id(), std::nullopt);
  EXPECT_EQ((*tokenizer)->TokenBytes(7, false, false), "\xC3");
  EXPECT_EQ((*tokenizer)->TokenBytes(0, false, true), "");
  EXPECT_EQ((*tokenizer)->TokenBytes(0, false, false), "<s>");
  EXPECT_EQ((*tokenizer)->TokenBytes(-1, false, false), "");
  EXPECT_EQ((*tokenizer)->TokenBytes(1 << 30, false, false), "");
}

TEST(Tokenizer, UsersTextCannotForgeAddedTokens) {
  const auto tokenizer =
      ModelDir()
          .Write("tokenizer.json", ByteLevelJson(R"({"type":"BPE","ignore_merges":true,
              "vocab":{"<":3,"s":4,">":5,"t":6},"merges":[]})"))
          .Write("tokenizer_config.json",
                 R"({"added_tokens_decoder":{"7":{"content":"<t>","special":false}}})")
          .Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const Tokenizer::EncodeOptions plain = {.parse_special_tokens = false};
  EXPECT_THAT((*tokenizer)->Encode("<s><t>", {}), ElementsAre(0, 7));
  EXPECT_THAT((*tokenizer)->Encode("<s><t>", plain), ElementsAre(3, 4, 5, 3, 6, 5));
}

TEST(TokenizerConfig, ItsFlagsOfAddedTokensWin) {
  ModelDir dir;
  dir.Write("tokenizer.json", ByteLevelJson())
      .Write("added_tokens.json", R"({"<s>":0,"</s>":1})")
      .Write("tokenizer_config.json", "{}");
  const auto encode = [&dir] {
    const auto tokenizer = dir.Load();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_TRUE((*tokenizer)->IsSpecial(0));
    EXPECT_TRUE((*tokenizer)->IsSpecial(1));
    return (*tokenizer)->Encode("a <s> b</s>", {});
  };
  EXPECT_THAT(encode(), ElementsAre(3, 6, 0, 6, 4, 1));
  dir.Write("tokenizer_config.json", R"({"added_tokens_decoder":{
      "0":{"content":"<s>","special":true,"lstrip":true,"rstrip":true},
      "1":{"content":"</s>","special":false}}})");
  EXPECT_THAT(encode(), ElementsAre(3, 0, 4, 1));
}

TEST(TokenizerConfig, AddsAndOmitsBosAndEos) {
  const auto encode = [](std::string_view members) {
    const auto tokenizer =
        ModelDir()
            .Write("tokenizer.json", ByteLevelJson())
            .Write("tokenizer_config.json",
                   StrCat(R"({"tokenizer_class":"LlamaTokenizer",)", members, "}"))
            .Load();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? (*tokenizer)->Encode("a", {}) : std::vector<int32_t>();
  };
  EXPECT_THAT(encode(R"("bos_token":"<s>")"), ElementsAre(3));
  EXPECT_THAT(encode(R"("bos_token":"<s>","add_bos_token":true)"), ElementsAre(0, 3));
  EXPECT_THAT(encode(R"("bos_token":{"content":"<s>"},"add_bos_token":true,
                        "eos_token":"</s>","add_eos_token":true)"),
              ElementsAre(0, 3, 1));
  EXPECT_THAT(encode(R"("bos_token":null,"add_bos_token":true)"), ElementsAre(3));
  EXPECT_THAT(encode(R"("bos_token":"<absent>","add_bos_token":true)"), ElementsAre(3));
}

TEST(Tokenizer, VocabAndMergesByClass) {
  ModelDir dir;
  dir.Write("vocab.json", R"({"a":3,"b":4,"ab":5,"Ġ":6,"Ġa":9})")
      .Write("merges.txt", "#version: 0.2\na b\r\nĠ a\n\n")
      .Write("added_tokens.json", R"({"<x>":10})")
      .Write("tokenizer_config.json", R"({"tokenizer_class":"GPT2TokenizerFast"})");
  const auto tokenizer = dir.Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("ab a<x>", {}), ElementsAre(5, 9, 10));
  dir.Write("tokenizer_config.json", R"({"tokenizer_class":"BertTokenizer"})");
  EXPECT_THAT(dir.Error(),
              HasSubstr(R"(tokenizer_config.json: tokenizer_class is "BertTokenizer")"));
  dir.Write("tokenizer_config.json", R"({"tokenizer_class":"GPT2Tokenizer"})");
  dir.Write("merges.txt", "a b c\n");
  EXPECT_THAT(dir.Error(), HasSubstr(R"(merges.txt[0] is "a b c", not two tokens)"));
}

TEST(Tokenizer, ErrorsNameFileAndField) {
  const auto error = [](std::string_view json) {
    return ModelDir().Write("tokenizer.json", json).Error();
  };
  EXPECT_THAT(ModelDir().Error(), HasSubstr("has no tokenizer"));
  EXPECT_THAT(error("{"), HasSubstr("tokenizer.json: "));
  EXPECT_THAT(error("[]"), HasSubstr("tokenizer.json must be an object, not an array"));
  EXPECT_THAT(error("{}"), HasSubstr("tokenizer.json: model is missing"));
  EXPECT_THAT(error(R"({"model":{"type":"Unigram"}})"),
              HasSubstr(R"(model.type: the model "Unigram" is not implemented)"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})"),
              HasSubstr(R"(model.vocab: token "a" has id -1, outside of [0, 1048576))"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})"),
              HasSubstr(R"(id 0 has two tokens, "a" and "b")"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":1.5},"merges":[]}})"),
              HasSubstr("model.vocab.a must be a token id, not a number"));
  EXPECT_THAT(
      error(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a a"]}})"),
      HasSubstr(R"(model.merges[0] merges "a" and "a", but the vocabulary has no token "aa")"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[["a"]]}})"),
              HasSubstr(R"(model.merges[0] must be "left right")"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{},"merges":[],"unk_token":"<unk>"}})"),
              HasSubstr(R"(model.unk_token is "<unk>", which the vocabulary does not have)"));
  EXPECT_THAT(error(R"({"model":{"type":"BPE","vocab":{},"merges":[],"dropout":0.1}})"),
              HasSubstr("model.dropout is 0.1"));
}

TEST(Tokenizer, ComponentsThatAreNotImplementedAreNamed) {
  const auto error = [](std::string_view member) {
    return ModelDir()
        .Write("tokenizer.json",
               StrCat("{", member, R"(,"model":{"type":"BPE","vocab":{},"merges":[]}})"))
        .Error();
  };
  EXPECT_THAT(error(R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Nmt"}]})"),
              HasSubstr(R"(normalizer.normalizers[0]: the normalizer "Nmt" is not implemented)"));
  EXPECT_THAT(error(R"("pre_tokenizer":{"type":"UnicodeScripts"})"),
              HasSubstr(R"(pre_tokenizer: the pre-tokenizer "UnicodeScripts" is not)"));
  EXPECT_THAT(error(R"("pre_tokenizer":{"type":"Split","behavior":"Isolated",
                       "pattern":{"Regex":"[a&&b]"}})"),
              HasSubstr("pre_tokenizer.pattern.Regex: the pattern uses a class intersection"));
  EXPECT_THAT(error(R"("decoder":{"type":"CTC"})"), HasSubstr(R"(the decoder "CTC")"));
  EXPECT_THAT(error(R"("decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},
                       {"type":"Strip","content":" ","start":0,"stop":1}]})"),
              HasSubstr("decoder.decoders[1]: this decoder after Fuse"));
  EXPECT_THAT(error(R"("post_processor":{"type":"TemplateProcessing","single":[]})"),
              HasSubstr("post_processor.single has the text 0 times"));
  EXPECT_THAT(error(R"("post_processor":{"type":"RobertaProcessing","cls":["<s>",-1],
                       "sep":["<s>",0]})"),
              HasSubstr("post_processor.cls[1] must be a token id"));
  EXPECT_THAT(error(R"("pre_tokenizer":{"type":"Metaspace","replacement":"_",
                       "prepend_scheme":"last"})"),
              HasSubstr(R"(pre_tokenizer.prepend_scheme is "last")"));
}

TEST(Tokenizer, MalformedModelFiles) {
  const auto error = [](std::string_view file) {
    return ModelDir().Write("tokenizer.model", file).Error();
  };
  EXPECT_THAT(error(""), HasSubstr("tokenizer.model: there are no pieces"));
  EXPECT_THAT(error("\x0A\x7F"),
              AllOf(HasSubstr("tokenizer.model: malformed protocol buffer"), HasSubstr("cut off")));
  EXPECT_THAT(error(std::string_view("\x0A\x02\x0A\x00", 4)),
              HasSubstr("pieces[0]: the piece is empty"));
  EXPECT_THAT(error("\x0A\x05\x0A\x01x\x18\x09"), HasSubstr("there is no piece type 9"));
  EXPECT_THAT(error("\x0A\x03\x0A\x01x"), HasSubstr("model_type UNIGRAM is not implemented"));
  EXPECT_THAT(error("YQ== 0\nYg== 1\n"), HasSubstr("must list them in added_tokens_decoder"));
}

TEST(IncrementalDetokenizer, NeverEndsInsideOfACodePoint) {
  const auto tokenizer = ModelDir().Write("tokenizer.json", ByteLevelJson()).Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  IncrementalDetokenizer detokenizer(**tokenizer, true, true);
  EXPECT_EQ(detokenizer.Append(3), "a");
  EXPECT_EQ(detokenizer.Append(7), "");
  EXPECT_EQ(detokenizer.Append(1), "") << "a special token adds nothing";
  EXPECT_EQ(detokenizer.Append(8), "\u00e9");
  EXPECT_EQ(detokenizer.Append(7), "");
  EXPECT_EQ(detokenizer.Append(3), "\uFFFDa");
  EXPECT_EQ(detokenizer.Append(7), "");
  EXPECT_EQ(detokenizer.Flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.Flush(), "");
}

// A model of all 256 bytes, so that any ids spell any bytes.
std::string AllBytesJson() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    char name[16];
    std::snprintf(name, sizeof(name), "\"<0x%02X>\"", byte);
    vocab += StrCat(byte > 0 ? "," : "", name, ":", byte);
  }
  return StrCat(R"({"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},)",
                R"({"type":"Fuse"}]},"model":{"type":"BPE","byte_fallback":true,"merges":[],)",
                R"("vocab":{)", vocab, "}}}");
}

TEST(IncrementalDetokenizer, PiecesAreValidAndAddUpForAnyBytes) {
  const auto tokenizer = ModelDir().Write("tokenizer.json", AllBytesJson()).Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    std::vector<int32_t> ids;
    for (size_t i = 0; i < 12; ++i) {
      // Mostly lead and continuation bytes of long sequences.
      ids.push_back(
          static_cast<int32_t>(random() % 4 == 0 ? random() % 256 : 0x80 + random() % 128));
      bytes.push_back(static_cast<char>(ids.back()));
    }
    IncrementalDetokenizer detokenizer(**tokenizer, true, true);
    std::string text;
    for (const int32_t id : ids) {
      const std::string piece = detokenizer.Append(id);
      ASSERT_TRUE(IsValidUtf8(piece));
      text += piece;
    }
    text += detokenizer.Flush();
    ASSERT_EQ(text, LossyUtf8(bytes)) << JsonQuote(bytes);
    ASSERT_EQ((*tokenizer)->Decode(ids, true), text);
    // What was valid comes back as it was.
    ASSERT_EQ((*tokenizer)->Decode((*tokenizer)->Encode(text, {}), true), text);
  }
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const auto tokenizer = ModelDir().Write("tokenizer.json", ByteLevelJson()).Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::string text;
  for (int i = 0; i < 200; ++i) text += "ab a<s>ba ";
  const auto expected = (*tokenizer)->Encode(text, {});
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += (*tokenizer)->Encode(text, {}) == expected ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(equal, testing::Each(20));
}

TEST(Tokenizer, EmptyTexts) {
  const auto tokenizer = ModelDir().Write("tokenizer.json", ByteLevelJson()).Load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("", {}), IsEmpty());
  EXPECT_EQ((*tokenizer)->Decode({}, true), "");
}

}  // namespace
}  // namespace aril
