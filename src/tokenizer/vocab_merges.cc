#include "tokenizer/vocab_merges.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "tokenizer/bpe_json.h"
#include "tokenizer/tokenizer_json.h"

namespace aril {
namespace {

// What `transformers` builds around the two files (models/gpt2 and models/qwen2,
// tokenization_*.py), as the members of a tokenizer.json; %PREFIX% is add_prefix_space.
constexpr std::string_view kGpt2 = R"({
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": %PREFIX%, "use_regex": true},
  "decoder": {"type": "ByteLevel"}
})";
constexpr std::string_view kQwen2 = R"({
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": %PREFIX%, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"}
})";

StatusOr<Json> ComponentsOf(const TokenizerConfig& config) {
  std::string name = config.tokenizer_class;
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  std::string text;
  if (name == "GPT2Tokenizer") {
    text = kGpt2;
  } else if (name == "Qwen2Tokenizer") {
    text = kQwen2;
  } else {
    return Unimplemented(StrCat(config.path, ": tokenizer_class is ",
                                JsonQuote(config.tokenizer_class),
                                "; with vocab.json and merges.txt only GPT2Tokenizer and "
                                "Qwen2Tokenizer are implemented"));
  }
  constexpr std::string_view kHole = "%PREFIX%";
  text.replace(text.find(kHole), kHole.size(),
               config.add_prefix_space.value_or(false) ? "true" : "false");
  return Json::Parse(text);
}

Status ReadMerges(std::string_view text, const std::string& path, const Vocabulary& vocabulary,
                  BpeModel* model) {
  size_t rank = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    RETURN_IF_ERROR(AddMergeLine(line, rank++, path, vocabulary, model));
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<PipelineTokenizer>> ParseVocabMerges(std::string_view vocab,
                                                              const std::string& vocab_path,
                                                              std::string_view merges,
                                                              const std::string& merges_path,
                                                              const TokenizerConfig& config) {
  ASSIGN_OR_RETURN(const Json components, ComponentsOf(config));
  auto json = Json::Parse(vocab, kTokenizerFileLimits);
  if (!json.ok()) return Annotate(json.status(), vocab_path);
  ASSIGN_OR_RETURN(const JsonFields entries, JsonFields::Of(*json, vocab_path));
  BpeWithVocabulary bpe;
  ASSIGN_OR_RETURN(bpe.vocabulary, ReadVocabulary(entries));
  bpe.model = std::make_unique<BpeModel>(BpeOptions{}, bpe.vocabulary.get());
  RETURN_IF_ERROR(ReadMerges(merges, merges_path, *bpe.vocabulary, bpe.model.get()));
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(components, config.path));
  return AssembleTokenizer(fields, std::move(bpe), config);
}

}  // namespace aril
