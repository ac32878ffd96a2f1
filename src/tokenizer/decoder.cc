#include "tokenizer/decoder.h"

#include <charconv>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/pattern.h"

namespace aril {
namespace {

std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return out.append(text.substr(done));
}

// Builds the steps of a chain, keeping track of whether the reference has joined the tokens.
class ChainReader {
 public:
  Status Read(const Json& json, const std::string& where) {
    ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where));
    ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
    if (type == "Sequence") return ReadSequence(fields);
    if (type == "Fuse") {
      fused_ = true;
      return OkStatus();
    }
    if (type == "Strip") return ReadStrip(fields);
    if (type == "Replace") return ReadReplace(fields);
    if (type == "Metaspace") return ReadMetaspace(fields);
    if (type == "ByteFallback") return Add(fields, DecodeByteFallback);
    if (type == "ByteLevel") {
      RETURN_IF_ERROR(Add(fields, DecodeByteLevel));
      fused_ = true;
      return OkStatus();
    }
    return Unimplemented(StrCat(where, ": the decoder ", JsonQuote(type), " is not implemented"));
  }

  std::vector<Decoder::Step> Take() { return std::move(steps_); }

 private:
  // A step that the reference applies to every token by itself.
  Status Add(const JsonFields& fields, Decoder::Step step) {
    if (fused_) return AfterFuse(fields);
    steps_.push_back(std::move(step));
    return OkStatus();
  }

  static Status AfterFuse(const JsonFields& fields) {
    return Unimplemented(StrCat(fields.where(),
                                ": this decoder after Fuse or ByteLevel looks beyond one token, "
                                "which is not implemented"));
  }

  Status ReadSequence(const JsonFields& fields) {
    ASSIGN_OR_RETURN(const Json::Array* list, fields.Array("decoders"));
    for (size_t i = 0; i < list->size(); ++i) {
      // The depth of the recursion is the depth of the JSON, which its parser bounds.
      RETURN_IF_ERROR(Read((*list)[i], ElementPath(fields.PathOf("decoders"), i)));
    }
    return OkStatus();
  }

  // Up to `start` times `content` off the front and `stop` times off the end.
  Status ReadStrip(const JsonFields& fields) {
    ASSIGN_OR_RETURN(const std::string content, fields.String("content"));
    ASSIGN_OR_RETURN(const int64_t start, fields.Int("start"));
    ASSIGN_OR_RETURN(const int64_t stop, fields.Int("stop"));
    // One code point off the front of the whole text is off the front of its first token.
    if (fused_ && (start > 1 || stop > 0)) return AfterFuse(fields);
    steps_.push_back([content, start, stop, fused = fused_](bool is_first, std::string* token) {
      if (fused && !is_first) return;
      for (int64_t i = 0; i < start && !content.empty() && token->starts_with(content); ++i) {
        token->erase(0, content.size());
      }
      for (int64_t i = 0; i < stop && !content.empty() && token->ends_with(content); ++i) {
        token->resize(token->size() - content.size());
      }
    });
    return OkStatus();
  }

  Status ReadReplace(const JsonFields& fields) {
    ASSIGN_OR_RETURN(const Pattern pattern, Pattern::Read(fields, "pattern"));
    ASSIGN_OR_RETURN(const std::string content, fields.String("content"));
    if (pattern.literal() == nullptr) {
      return Unimplemented(
          StrCat(fields.PathOf("pattern"), ": a regex in a decoder is not implemented"));
    }
    if (pattern.literal()->empty()) {
      return InvalidArgument(StrCat(fields.PathOf("pattern"), " is empty"));
    }
    return Add(fields, [from = *pattern.literal(), content](bool, std::string* token) {
      *token = ReplaceAll(*token, from, content);
    });
  }

  Status ReadMetaspace(const JsonFields& fields) {
    ASSIGN_OR_RETURN(const std::string replacement, fields.String("replacement"));
    ASSIGN_OR_RETURN(const auto scheme, fields.OptionalString("prepend_scheme"));
    ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space", true));
    const bool prepends = scheme ? *scheme != "never" : add_prefix_space;
    if (replacement.empty()) {
      return InvalidArgument(StrCat(fields.PathOf("replacement"), " is empty"));
    }
    return Add(fields, [replacement, prepends](bool is_first, std::string* token) {
      *token = ReplaceAll(*token, replacement, is_first && prepends ? "" : " ");
    });
  }

  std::vector<Decoder::Step> steps_;
  bool fused_ = false;
};

}  // namespace

std::string Decoder::Decode(std::string token, bool is_first) const {
  for (const Step& step : steps_) step(is_first, &token);
  return token;
}

StatusOr<Decoder> ReadDecoder(const Json& json, const std::string& where) {
  if (json.is_null()) {
    return Decoder({[](bool is_first, std::string* token) {
      if (!is_first) token->insert(0, " ");
    }});
  }
  ChainReader reader;
  RETURN_IF_ERROR(reader.Read(json, where));
  return Decoder(reader.Take());
}

void DecodeByteFallback(bool, std::string* token) {
  if (token->size() != 6 || !token->starts_with("<0x") || token->back() != '>') return;
  unsigned byte = 0;
  const char* end = token->data() + 5;
  const auto parsed = std::from_chars(token->data() + 3, end, byte, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end) return;
  *token = std::string(1, static_cast<char>(byte));
}

void DecodeByteLevel(bool, std::string* token) {
  if (auto bytes = FromAlphabet(*token)) *token = *std::move(bytes);
}

}  // namespace aril
