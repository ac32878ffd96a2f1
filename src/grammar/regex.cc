#include "grammar/regex.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "base/utf8.h"
#include "grammar/regex_parser.h"

namespace aril::grammar {
namespace {

// The nodes of code points whose encodings have the same number of bytes.
class Utf8Adder {
 public:
  Utf8Adder(GrammarBuilder& builder, NodeIdx next) : builder_(builder), tails_{next} {}

  NodeIdx Add(uint32_t first, uint32_t last) {
    std::string low;
    std::string high;
    AppendUtf8(first, &low);
    AppendUtf8(last, &high);
    return Between(low, high);
  }

 private:
  // Encodings from `low` to `high`, which are equally long.
  NodeIdx Between(std::string_view low, std::string_view high) {
    const auto first = static_cast<uint8_t>(low[0]);
    const auto last = static_cast<uint8_t>(high[0]);
    const size_t rest = low.size() - 1;
    if (rest == 0) return builder_.Bytes(first, last, tails_[0]);
    const std::string_view low_rest = low.substr(1);
    const std::string_view high_rest = high.substr(1);
    if (first == last) return builder_.Bytes(first, first, Between(low_rest, high_rest));
    const bool low_is_whole = low_rest == std::string(rest, '\x80');
    const bool high_is_whole = high_rest == std::string(rest, '\xBF');
    std::optional<NodeIdx> result;
    const auto add = [&](NodeIdx node) { result = result ? builder_.Either(node, *result) : node; };
    if (!low_is_whole)
      add(builder_.Bytes(first, first, Between(low_rest, std::string(rest, '\xBF'))));
    if (!high_is_whole)
      add(builder_.Bytes(last, last, Between(std::string(rest, '\x80'), high_rest)));
    const int begin = first + (low_is_whole ? 0 : 1);
    const int end = last - (high_is_whole ? 0 : 1);
    if (begin <= end) {
      add(builder_.Bytes(static_cast<uint8_t>(begin), static_cast<uint8_t>(end), Tail(rest)));
    }
    return *result;
  }

  // Any `length` continuation bytes.
  NodeIdx Tail(size_t length) {
    while (tails_.size() <= length) tails_.push_back(builder_.Bytes(0x80, 0xBF, tails_.back()));
    return tails_[length];
  }

  GrammarBuilder& builder_;
  std::vector<NodeIdx> tails_;
};

// Emits a parsed expression, from its end.
class Emitter {
 public:
  Emitter(GrammarBuilder& builder, const ParsedRegex& regex, const AddCharacter& add_character)
      : builder_(builder), regex_(regex), add_character_(add_character) {}

  NodeIdx Emit(RegexIdx idx, NodeIdx next) {
    const RegexPart& part = regex_.parts[idx];
    builder_.Charge(1 + part.characters.size());
    if (builder_.is_full()) return next;
    switch (part.kind) {
      case RegexPart::Kind::kCharacter:
        return add_character_(part.characters, next);
      case RegexPart::Kind::kSequence:
        for (auto inner = part.parts.rbegin(); inner != part.parts.rend(); ++inner) {
          next = Emit(*inner, next);
        }
        return next;
      case RegexPart::Kind::kAlternatives: {
        NodeIdx result = Emit(part.parts[0], next);
        for (size_t i = 1; i < part.parts.size(); ++i) {
          result = builder_.Either(Emit(part.parts[i], next), result);
        }
        return result;
      }
      case RegexPart::Kind::kRepeat: {
        const auto body = [&](NodeIdx behind) { return Emit(part.parts[0], behind); };
        return part.max == RegexPart::kUnbounded ? builder_.RepeatFrom(part.min, next, body)
                                                 : builder_.Repeat(part.min, part.max, next, body);
      }
    }
    return next;
  }

  // Any text, then `next`.
  NodeIdx Anything(NodeIdx next) {
    return builder_.RepeatFrom(0, next, [&](NodeIdx behind) {
      return add_character_({{0, kMaxCodePoint}}, behind);
    });
  }

 private:
  GrammarBuilder& builder_;
  const ParsedRegex& regex_;
  const AddCharacter& add_character_;
};

}  // namespace

NodeIdx AddUtf8(GrammarBuilder& builder, const std::vector<CodePointRange>& characters,
                NodeIdx next) {
  // Where encodings become a byte longer; and surrogates, which have none.
  constexpr std::array<CodePointRange, 5> kParts = {
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kMaxCodePoint}}};
  Utf8Adder adder(builder, next);
  std::optional<NodeIdx> result;
  for (const CodePointRange& range : characters) {
    for (const CodePointRange& part : kParts) {
      const uint32_t first = std::max(range.first, part.first);
      const uint32_t last = std::min(range.second, part.second);
      if (first > last) continue;
      const NodeIdx node = adder.Add(first, last);
      result = result ? builder.Either(node, *result) : node;
    }
  }
  return result ? *result : builder.Bytes(1, 0, next);
}

StatusOr<NodeIdx> AddRegex(GrammarBuilder& builder, std::string_view expression,
                           const RegexOptions& options, NodeIdx next) {
  ASSIGN_OR_RETURN(const ParsedRegex regex, ParseRegex(expression));
  Emitter emitter(builder, regex, options.add_character);
  std::optional<NodeIdx> result;
  for (const RegexAlternative& alternative : regex.alternatives) {
    const bool goes_on = options.searches && !alternative.is_held_at_end;
    const bool begins_anywhere = options.searches && !alternative.is_held_at_start;
    NodeIdx node = emitter.Emit(alternative.part, goes_on ? emitter.Anything(next) : next);
    if (begins_anywhere) node = emitter.Anything(node);
    result = result ? builder.Either(node, *result) : node;
  }
  return *result;
}

StatusOr<NodeIdx> AddWholeRegex(GrammarBuilder& builder, std::string_view expression) {
  const RegexOptions options = {
      .add_character = [&builder](const std::vector<CodePointRange>& characters, NodeIdx next) {
        return AddUtf8(builder, characters, next);
      }};
  return AddRegex(builder, expression, options, builder.Return());
}

}  // namespace aril::grammar
