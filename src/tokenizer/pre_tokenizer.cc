#include "tokenizer/pre_tokenizer.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

namespace aril {
namespace {

using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;

// GPT-2's words (encoder.py).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class SplitPreTokenizer : public PreTokenizer {
 public:
  SplitPreTokenizer(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void Apply(Pieces* pieces) const override {
    Pattern::Finder finder(pattern_);
    pieces->Split(behavior_, [&](std::string_view text) { return finder.Find(text, invert_); });
  }

 private:
  const Pattern pattern_;
  const SplitBehavior behavior_;
  const bool invert_;
};

// Every code point that has a property is a match of its own.
class PropertyPreTokenizer : public PreTokenizer {
 public:
  using Property = bool (*)(char32_t);
  PropertyPreTokenizer(Property property, SplitBehavior behavior)
      : property_(property), behavior_(behavior) {}

  void Apply(Pieces* pieces) const override {
    pieces->Split(behavior_, [this](std::string_view text) { return Find(text); });
  }

 private:
  std::vector<Stretch> Find(std::string_view text) const {
    std::vector<Stretch> stretches;
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      const bool is_match = property_(NextCodePoint(text, &pos));
      if (!is_match && !stretches.empty() && !stretches.back().is_match) {
        stretches.back().end = pos;
      } else {
        stretches.push_back({begin, pos, is_match});
      }
    }
    return stretches;
  }

  const Property property_;
  const SplitBehavior behavior_;
};

// Runs of word characters and runs of anything else but white space: Rust's \w+|[^\w\s]+.
class WhitespacePreTokenizer : public PreTokenizer {
 public:
  void Apply(Pieces* pieces) const override {
    pieces->Split(SplitBehavior::kRemoved, [](std::string_view text) { return Find(text); });
  }

 private:
  enum class Kind { kWord, kSpace, kOther };
  static Kind KindOf(char32_t c) {
    if (IsWordCharacter(c)) return Kind::kWord;
    return IsWhitespace(c) ? Kind::kSpace : Kind::kOther;
  }

  static std::vector<Stretch> Find(std::string_view text) {
    std::vector<Stretch> stretches;
    std::optional<Kind> previous;
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      const Kind kind = KindOf(NextCodePoint(text, &pos));
      if (previous == kind) {
        stretches.back().end = pos;
      } else {
        stretches.push_back({begin, pos, kind == Kind::kSpace});
      }
      previous = kind;
    }
    return stretches;
  }
};

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, std::optional<Pattern> words)
      : add_prefix_space_(add_prefix_space), words_(std::move(words)) {}

  void Apply(Pieces* pieces) const override {
    if (add_prefix_space_) {
      pieces->Rewrite([](std::string_view text, bool, std::string* out) {
        if (!text.starts_with(' ')) out->push_back(' ');
        out->append(text);
      });
    }
    if (words_) {
      Pattern::Finder finder(*words_);
      pieces->Split(SplitBehavior::kIsolated,
                    [&](std::string_view text) { return finder.Find(text); });
    }
    pieces->Rewrite(
        [](std::string_view text, bool, std::string* out) { AppendInAlphabet(text, out); });
  }

 private:
  const bool add_prefix_space_;
  const std::optional<Pattern> words_;
};

// Spaces become "▁", one may be put in front, and every one begins a word.
class MetaspacePreTokenizer : public PreTokenizer {
 public:
  enum class Prepend { kNever, kFirst, kAlways };

  MetaspacePreTokenizer(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)),
        pattern_(Pattern::Literal(replacement_)),
        prepend_(prepend),
        split_(split) {}

  void Apply(Pieces* pieces) const override {
    pieces->Rewrite([this](std::string_view text, bool starts_text, std::string* out) {
      const bool has_one = text.starts_with(' ') || text.starts_with(replacement_);
      const bool wanted =
          prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && starts_text);
      if (wanted && !has_one) *out += replacement_;
      for (const char c : text) {
        if (c == ' ') {
          *out += replacement_;
        } else {
          out->push_back(c);
        }
      }
    });
    if (!split_) return;
    Pattern::Finder finder(pattern_);
    pieces->Split(SplitBehavior::kMergedWithNext,
                  [&](std::string_view text) { return finder.Find(text); });
  }

 private:
  const std::string replacement_;
  const Pattern pattern_;
  const Prepend prepend_;
  const bool split_;
};

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<PreTokenizerPtr> parts) : parts_(std::move(parts)) {}
  void Apply(Pieces* pieces) const override {
    for (const PreTokenizerPtr& part : parts_) part->Apply(pieces);
  }

 private:
  const std::vector<PreTokenizerPtr> parts_;
};

StatusOr<SplitBehavior> ReadBehavior(const JsonFields& fields) {
  struct Entry {
    std::string_view name;
    SplitBehavior behavior;
  };
  static constexpr std::array<Entry, 5> kBehaviors = {{
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  ASSIGN_OR_RETURN(const std::string name, fields.String("behavior"));
  for (const Entry& entry : kBehaviors) {
    if (entry.name == name) return entry.behavior;
  }
  return InvalidArgument(
      StrCat(fields.PathOf("behavior"), " is ", JsonQuote(name), ", which is no split behavior"));
}

StatusOr<PreTokenizerPtr> ReadSequence(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const Json::Array* list, fields.Array("pretokenizers"));
  std::vector<PreTokenizerPtr> parts;
  for (size_t i = 0; i < list->size(); ++i) {
    // The depth of the recursion is the depth of the JSON, which its parser bounds.
    ASSIGN_OR_RETURN(PreTokenizerPtr part,
                     ReadPreTokenizer((*list)[i], ElementPath(fields.PathOf("pretokenizers"), i)));
    parts.push_back(std::move(part));
  }
  return PreTokenizerPtr(new SequencePreTokenizer(std::move(parts)));
}

StatusOr<PreTokenizerPtr> ReadSplit(const JsonFields& fields) {
  ASSIGN_OR_RETURN(Pattern pattern, Pattern::Read(fields, "pattern"));
  ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadBehavior(fields));
  ASSIGN_OR_RETURN(const bool invert, fields.Bool("invert", false));
  return PreTokenizerPtr(new SplitPreTokenizer(std::move(pattern), behavior, invert));
}

StatusOr<PreTokenizerPtr> ReadCharDelimiterSplit(const JsonFields& fields) {
  ASSIGN_OR_RETURN(std::string delimiter, fields.String("delimiter"));
  return PreTokenizerPtr(new SplitPreTokenizer(Pattern::Literal(std::move(delimiter)),
                                               SplitBehavior::kRemoved, false));
}

StatusOr<PreTokenizerPtr> ReadDigits(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const bool individual, fields.Bool("individual_digits", false));
  return PreTokenizerPtr(new PropertyPreTokenizer(
      IsNumeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
}

StatusOr<PreTokenizerPtr> ReadPunctuation(const JsonFields& fields) {
  SplitBehavior behavior = SplitBehavior::kIsolated;
  if (fields.Has("behavior")) {
    ASSIGN_OR_RETURN(behavior, ReadBehavior(fields));
  }
  return PreTokenizerPtr(new PropertyPreTokenizer(IsPunctuation, behavior));
}

StatusOr<PreTokenizerPtr> ReadByteLevel(const JsonFields& fields) {
  ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space", true));
  ASSIGN_OR_RETURN(const bool use_regex, fields.Bool("use_regex", true));
  std::optional<Pattern> words;
  if (use_regex) {
    ASSIGN_OR_RETURN(words, Pattern::Expression(kGpt2Pattern));
  }
  return PreTokenizerPtr(new ByteLevelPreTokenizer(add_prefix_space, std::move(words)));
}

StatusOr<MetaspacePreTokenizer::Prepend> ReadPrependScheme(const JsonFields& fields) {
  using Prepend = MetaspacePreTokenizer::Prepend;
  ASSIGN_OR_RETURN(const auto scheme, fields.OptionalString("prepend_scheme"));
  if (!scheme) {  // files from before prepend_scheme
    ASSIGN_OR_RETURN(const bool add_prefix_space, fields.Bool("add_prefix_space", true));
    return add_prefix_space ? Prepend::kAlways : Prepend::kNever;
  }
  if (*scheme == "always") return Prepend::kAlways;
  if (*scheme == "first") return Prepend::kFirst;
  if (*scheme == "never") return Prepend::kNever;
  return InvalidArgument(StrCat(fields.PathOf("prepend_scheme"), " is ", JsonQuote(*scheme),
                                R"(, not "always", "first" or "never")"));
}

StatusOr<PreTokenizerPtr> ReadMetaspace(const JsonFields& fields) {
  ASSIGN_OR_RETURN(std::string replacement, fields.String("replacement"));
  ASSIGN_OR_RETURN(const auto prepend, ReadPrependScheme(fields));
  ASSIGN_OR_RETURN(const bool split, fields.Bool("split", true));
  return PreTokenizerPtr(new MetaspacePreTokenizer(std::move(replacement), prepend, split));
}

}  // namespace

StatusOr<PreTokenizerPtr> ReadPreTokenizer(const Json& json, const std::string& where) {
  if (json.is_null()) return PreTokenizerPtr(new SequencePreTokenizer({}));
  ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Of(json, where));
  ASSIGN_OR_RETURN(const std::string type, fields.String("type"));
  if (type == "Sequence") return ReadSequence(fields);
  if (type == "ByteLevel") return ReadByteLevel(fields);
  if (type == "Metaspace") return ReadMetaspace(fields);
  if (type == "Split") return ReadSplit(fields);
  if (type == "Digits") return ReadDigits(fields);
  if (type == "Punctuation") return ReadPunctuation(fields);
  if (type == "CharDelimiterSplit") return ReadCharDelimiterSplit(fields);
  if (type == "Whitespace") return PreTokenizerPtr(new WhitespacePreTokenizer());
  if (type == "WhitespaceSplit") {
    return PreTokenizerPtr(new PropertyPreTokenizer(IsWhitespace, SplitBehavior::kRemoved));
  }
  return Unimplemented(
      StrCat(where, ": the pre-tokenizer ", JsonQuote(type), " is not implemented"));
}

}  // namespace aril
