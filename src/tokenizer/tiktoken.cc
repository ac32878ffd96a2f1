#include "tokenizer/tiktoken.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/ranked_merges.h"
#include "tokenizer/tokenizer_json.h"

namespace aril {
namespace {

// Llama 3's words (llama3/tokenizer.py), as the members of a tokenizer.json.
constexpr std::string_view kComponents = R"({
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"}
})";

std::optional<uint32_t> Base64Digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return std::nullopt;
}

// RFC 4648 section 4, with padding.
std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const auto digit = Base64Digit(c);
    if (!digit) return std::nullopt;
    bits = (bits << 6 | *digit) & 0xFFF;
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes.push_back(static_cast<char>(bits >> num_bits & 0xFF));
  }
  return bytes;
}

struct RankedToken {
  std::string bytes;
  int32_t rank;
};

std::optional<RankedToken> ParseLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  auto bytes = DecodeBase64(line.substr(0, space));
  const char* begin = line.data() + space + 1;
  const char* end = line.data() + line.size();
  int32_t rank = -1;
  const auto parsed = std::from_chars(begin, end, rank);
  if (!bytes || parsed.ec != std::errc() || parsed.ptr != end || rank < 0) return std::nullopt;
  return RankedToken{*std::move(bytes), rank};
}

// The tokens, spelled in the byte-level alphabet.
StatusOr<std::unique_ptr<Vocabulary>> ReadRanks(std::string_view text) {
  auto vocabulary = std::make_unique<Vocabulary>();
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) continue;
    const auto token = ParseLine(line);
    if (!token) {
      return InvalidArgument(StrCat("line ", number, " is not \"<base64> <rank>\""));
    }
    std::string spelled;
    AppendInAlphabet(token->bytes, &spelled);
    if (Status added = vocabulary->Add(spelled, token->rank); !added.ok()) {
      return Annotate(added, StrCat("line ", number));
    }
  }
  return vocabulary;
}

StatusOr<BpeWithVocabulary> ReadModel(std::string_view file) {
  BpeWithVocabulary bpe;
  ASSIGN_OR_RETURN(bpe.vocabulary, ReadRanks(file));
  const Vocabulary& vocabulary = *bpe.vocabulary;
  // tiktoken looks up the whole word before it merges.
  bpe.model = std::make_unique<BpeModel>(BpeOptions{.ignore_merges = true}, &vocabulary);
  const auto find = [&](std::string_view part) { return vocabulary.Find(part).value_or(-1); };
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string* token = vocabulary.Token(id);
    if (token == nullptr) continue;
    AddSplitsOf(*token, id, static_cast<uint32_t>(id), find, bpe.model.get());
  }
  return bpe;
}

}  // namespace

bool LooksLikeTiktoken(std::string_view file) {
  return ParseLine(file.substr(0, file.find('\n'))).has_value();
}

StatusOr<std::unique_ptr<PipelineTokenizer>> ParseTiktoken(std::string_view file,
                                                           const std::string& path,
                                                           const TokenizerConfig& config) {
  if (config.added_tokens.empty() && config.plain_added_tokens.empty()) {
    return InvalidArgument(StrCat(path, " has tiktoken's format, which has no special tokens; ",
                                  config.path, " must list them in added_tokens_decoder"));
  }
  auto bpe = ReadModel(file);
  if (!bpe.ok()) return Annotate(bpe.status(), path);
  ASSIGN_OR_RETURN(const Json components, Json::Parse(kComponents));
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(components, path));
  TokenizerConfig with_bos = config;
  with_bos.add_bos_token = config.add_bos_token.value_or(true);
  return AssembleTokenizer(fields, *std::move(bpe), with_bos);
}

}  // namespace aril
