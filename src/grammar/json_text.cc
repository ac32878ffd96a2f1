#include "grammar/json_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/utf8.h"
#include "grammar/json_number.h"
#include "grammar/regex.h"
#include "grammar/trie.h"

namespace aril::grammar {
namespace {

// Of one line; models that indent further than this have lost their way.
constexpr int64_t kMaxIndentSpaces = 32;
constexpr int64_t kMaxIndentTabs = 8;

const std::vector<CodePointRange> kEverything = {{0, kMaxCodePoint}};
// What stands for itself in a string. Surrogates are no characters.
const std::vector<CodePointRange> kUnescaped = {{' ', '!'}, {'#', '['}, {']', kMaxCodePoint}};

std::vector<CodePointRange> Intersection(const std::vector<CodePointRange>& a,
                                         const std::vector<CodePointRange>& b) {
  std::vector<CodePointRange> common;
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    const CodePointRange both = {std::max(i->first, j->first), std::min(i->second, j->second)};
    if (both.first <= both.second) common.push_back(both);
    if (i->second < j->second) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

// How a character that cannot stand for itself is written.
std::string Escaped(uint32_t character) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (character) {
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '"':
    case '\\':
      return {'\\', static_cast<char>(character)};
    default:
      return {'\\', 'u', '0', '0', kHex[character >> 4], kHex[character & 15]};
  }
}

bool Contains(const std::vector<CodePointRange>& ranges, uint32_t character) {
  return std::ranges::any_of(ranges, [&](const CodePointRange& range) {
    return range.first <= character && character <= range.second;
  });
}

std::vector<uint32_t> CodePoints(std::string_view text) {
  std::vector<uint32_t> code_points;
  for (size_t at = 0; at < text.size();) code_points.push_back(NextCodePoint(text, &at));
  return code_points;
}

}  // namespace

NodeIdx JsonText::Whitespace(NodeIdx next) {
  if (!whitespace_) {
    const NodeIdx end = builder_.Return();
    const auto repeat = [&](uint8_t byte, int64_t min, int64_t max) {
      return builder_.Repeat(min, max, end,
                             [&](NodeIdx behind) { return builder_.Bytes(byte, byte, behind); });
    };
    const NodeIdx indent =
        builder_.Either(repeat(' ', 0, kMaxIndentSpaces), repeat('\t', 1, kMaxIndentTabs));
    const NodeIdx line = builder_.Literal("\n", indent);
    const NodeIdx any_line = builder_.Either(line, builder_.Literal("\r", line));
    whitespace_ = builder_.Either(builder_.Either(any_line, builder_.Literal(" ", end)), end);
  }
  return builder_.Call(*whitespace_, next);
}

NodeIdx JsonText::Opening(char token, NodeIdx next) {
  return builder_.Literal(std::string_view(&token, 1), Whitespace(next));
}

NodeIdx JsonText::Closing(char token, NodeIdx next) {
  return Whitespace(builder_.Literal(std::string_view(&token, 1), next));
}

NodeIdx JsonText::Name(std::string_view name, NodeIdx next) {
  const NodeIdx colon = builder_.Literal(":", builder_.Either(builder_.Literal(" ", next), next));
  return builder_.Literal(JsonQuote(name), colon);
}

NodeIdx JsonText::NameBesides(const std::vector<std::string>& names, NodeIdx next) {
  const NodeIdx colon = builder_.Literal(":", builder_.Either(builder_.Literal(" ", next), next));
  const NodeIdx end = builder_.Literal("\"", colon);
  // Every character has one spelling here (Character), so that no other one makes up a name.
  const NodeIdx free =
      builder_.RepeatFrom(0, end, [&](NodeIdx behind) { return Character(kEverything, behind); });
  Trie trie;
  for (const std::string& name : names) trie.Add(CodePoints(name));
  std::vector<NodeIdx> at(trie.nodes().size());
  for (size_t i = at.size(); i-- > 0 && !builder_.is_full();) {
    const Trie::Node& node = trie.nodes()[i];
    std::vector<CodePointRange> on_names;
    for (const auto& [character, child] : node.next) on_names.emplace_back(character, character);
    at[i] = Character(Complement(Normalized(on_names)), free);
    if (!node.is_end) at[i] = builder_.Either(at[i], end);
    for (const auto& [character, child] : node.next) {
      at[i] = builder_.Either(Character({{character, character}}, at[child]), at[i]);
    }
  }
  return builder_.Literal("\"", at[0]);
}

NodeIdx JsonText::String(int64_t min, std::optional<int64_t> max, NodeIdx next) {
  const NodeIdx end = builder_.Literal("\"", next);
  const auto character = [&](NodeIdx behind) { return AnyCharacter(behind); };
  return builder_.Literal("\"", max ? builder_.Repeat(min, *max, end, character)
                                    : builder_.RepeatFrom(min, end, character));
}

NodeIdx JsonText::AnyCharacter(NodeIdx next) {
  if (!any_character_) {
    const NodeIdx end = builder_.Return();
    NodeIdx escape = builder_.Literal("u", EscapedUnit(end));
    for (const char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) {
      escape = builder_.Either(builder_.Literal(std::string_view(&c, 1), end), escape);
    }
    any_character_ =
        builder_.Either(builder_.Literal("\\", escape), AddUtf8(builder_, kUnescaped, end));
  }
  return builder_.Call(*any_character_, next);
}

NodeIdx JsonText::HexDigit(NodeIdx next) {
  return builder_.Either(
      builder_.Bytes('0', '9', next),
      builder_.Either(builder_.Bytes('a', 'f', next), builder_.Bytes('A', 'F', next)));
}

// What comes behind \u: a character that is no surrogate, or two surrogates that make one.
NodeIdx JsonText::EscapedUnit(NodeIdx next) {
  const auto either_case = [&](char letter, NodeIdx behind) {
    const char upper = static_cast<char>(letter - 'a' + 'A');
    return builder_.Either(builder_.Literal(std::string_view(&letter, 1), behind),
                           builder_.Literal(std::string_view(&upper, 1), behind));
  };
  const auto between = [&](char first, char last, NodeIdx behind) {
    return builder_.Bytes(static_cast<uint8_t>(first), static_cast<uint8_t>(last), behind);
  };
  const NodeIdx two = HexDigit(HexDigit(next));
  const NodeIdx three = HexDigit(two);
  const NodeIdx low =  // DC00 to DFFF
      builder_.Literal(
          "\\u", either_case('d', builder_.Either(between('c', 'f', two), between('C', 'F', two))));
  const NodeIdx low_behind = HexDigit(HexDigit(low));
  const NodeIdx high =  // D800 to DBFF
      builder_.Either(
          between('8', '9', low_behind),
          builder_.Either(between('a', 'b', low_behind), between('A', 'B', low_behind)));
  const NodeIdx behind_d = builder_.Either(between('0', '7', two), high);
  NodeIdx unit = builder_.Either(between('0', '9', three), either_case('d', behind_d));
  unit = builder_.Either(builder_.Either(between('a', 'c', three), between('A', 'C', three)), unit);
  return builder_.Either(builder_.Either(between('e', 'f', three), between('E', 'F', three)), unit);
}

NodeIdx JsonText::Character(const std::vector<CodePointRange>& characters, NodeIdx next) {
  if (characters.size() == 1 && characters[0].second < 0x80 &&
      Intersection(characters, kUnescaped) == characters) {
    const auto [first, last] = characters[0];
    return builder_.Bytes(static_cast<uint8_t>(first), static_cast<uint8_t>(last), next);
  }
  const auto [entry, is_new] = characters_.try_emplace(characters, 0);
  if (is_new) entry->second = CharacterRule(characters);
  return builder_.Call(entry->second, next);
}

NodeIdx JsonText::CharacterRule(const std::vector<CodePointRange>& characters) {
  std::vector<std::string> escapes;
  for (uint32_t c = 0; c <= '\\'; ++c) {
    if (!Contains(kUnescaped, c) && Contains(characters, c)) escapes.push_back(Escaped(c));
  }
  const NodeIdx unescaped =
      AddUtf8(builder_, Intersection(characters, kUnescaped), builder_.Return());
  return escapes.empty() ? unescaped
                         : builder_.Either(Literals(escapes, builder_.Return()), unescaped);
}

StatusOr<NodeIdx> JsonText::StringLike(std::string_view expression, bool searches, NodeIdx next) {
  const RegexOptions options = {
      .searches = searches,
      .add_character = [this](const std::vector<CodePointRange>& characters, NodeIdx behind) {
        return Character(characters, behind);
      }};
  ASSIGN_OR_RETURN(const NodeIdx content,
                   AddRegex(builder_, expression, options, builder_.Literal("\"", next)));
  return builder_.Literal("\"", content);
}

NodeIdx JsonText::Literals(const std::vector<std::string>& texts, NodeIdx next) {
  Trie trie;
  for (const std::string& text : texts) {
    trie.Add(std::vector<uint8_t>(text.begin(), text.end()));
  }
  std::vector<NodeIdx> at(trie.nodes().size());
  for (size_t i = at.size(); i-- > 0;) {
    const Trie::Node& node = trie.nodes()[i];
    std::optional<NodeIdx> result;
    if (node.is_end) result = next;
    for (const auto& [symbol, child] : node.next) {
      const auto byte = static_cast<uint8_t>(symbol);
      const NodeIdx longer = builder_.Bytes(byte, byte, at[child]);
      result = result ? builder_.Either(longer, *result) : longer;
    }
    at[i] = result ? *result : builder_.Nothing();
  }
  return at[0];
}

NodeIdx JsonText::OneOf(const std::vector<const Json*>& values, NodeIdx next) {
  std::vector<std::string> scalars;
  std::optional<NodeIdx> result;
  for (const Json* value : values) {
    if (value->AsArray() == nullptr && value->AsObject() == nullptr) {
      scalars.push_back(value->Dump());
      continue;
    }
    const NodeIdx node = Value(*value, next);
    result = result ? builder_.Either(node, *result) : node;
  }
  if (scalars.empty() && result) return *result;
  const NodeIdx literals = Literals(scalars, next);
  return result ? builder_.Either(literals, *result) : literals;
}

NodeIdx JsonText::Value(const Json& value, NodeIdx next) {
  const Json::Array* array = value.AsArray();
  const Json::Object* object = value.AsObject();
  if (array == nullptr && object == nullptr) return builder_.Literal(value.Dump(), next);
  const size_t size = array != nullptr ? array->size() : object->size();
  NodeIdx at = Closing(array != nullptr ? ']' : '}', next);
  for (size_t i = size; i-- > 0;) {
    at = array != nullptr ? Value((*array)[i], at)
                          : Name((*object)[i].first, Value((*object)[i].second, at));
    if (i > 0) at = Opening(',', at);
  }
  // An empty one has no whitespace on both sides of nothing.
  return builder_.Literal(array != nullptr ? "[" : "{", size == 0 ? at : Whitespace(at));
}

NodeIdx JsonText::List(char open, char close, const std::function<NodeIdx(NodeIdx)>& part,
                       NodeIdx next) {
  const NodeIdx more = builder_.Later();
  const NodeIdx parts = part(more);
  builder_.Become(more, builder_.Either(Opening(',', parts), Closing(close, next)));
  return Opening(open, builder_.Either(builder_.Literal(std::string_view(&close, 1), next), parts));
}

NodeIdx JsonText::AnyValue(NodeIdx next) {
  if (!any_value_) {
    any_value_ = builder_.Later();  // it is called by its own arrays and objects
    const NodeIdx end = builder_.Return();
    const auto value = [&](NodeIdx behind) { return AnyValue(behind); };
    const auto member = [&](NodeIdx behind) { return NameBesides({}, AnyValue(behind)); };
    const NodeIdx lists = builder_.Either(List('[', ']', value, end), List('{', '}', member, end));
    const NodeIdx names = Literals({"null", "true", "false"}, end);
    // Without bounds there is always a number.
    const NodeIdx number = AddNumber(builder_, {}, end).value_or(end);
    builder_.Become(*any_value_,
                    builder_.Either(builder_.Either(lists, names),
                                    builder_.Either(number, String(0, std::nullopt, end))));
  }
  return builder_.Call(*any_value_, next);
}

}  // namespace aril::grammar
