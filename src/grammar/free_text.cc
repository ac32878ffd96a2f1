#include "grammar/free_text.h"

#include <algorithm>

#include "base/strings.h"
#include "grammar/token_table.h"

namespace aril::grammar {
namespace {

constexpr char kSpecialByte = static_cast<char>(kSpecialTokenByte);

// Of a state, by the byte that is read: those that do not lead to state 0.
using Moves = std::map<uint8_t, size_t>;

std::vector<Moves> MovesOf(std::string_view marker) {
  std::vector<Moves> moves;
  size_t border = 0;  // the state behind the bytes so far but for the first
  for (size_t i = 0; i < marker.size(); ++i) {
    const auto byte = static_cast<uint8_t>(marker[i]);
    Moves of_state = i == 0 ? Moves() : moves[border];
    if (i > 0) border = of_state.contains(byte) ? of_state[byte] : 0;
    of_state[byte] = i + 1;
    moves.push_back(std::move(of_state));
  }
  return moves;
}

// `text` has no marker in it.
size_t StateBehind(std::string_view text, const std::vector<Moves>& moves) {
  size_t state = 0;
  for (const char c : text) {
    const auto to = moves[state].find(static_cast<uint8_t>(c));
    state = to == moves[state].end() ? 0 : to->second;
  }
  return state;
}

}  // namespace

std::string WithSpecialBytes(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kSpecialTokenMark)) {
      bytes.push_back(kSpecialByte);
      at += kSpecialTokenMark.size();
    } else {
      bytes.push_back(text[at++]);
    }
  }
  return bytes;
}

std::string WithoutSpecialMarks(std::string_view text) {
  std::string plain = WithSpecialBytes(text);
  std::erase(plain, kSpecialByte);
  return plain;
}

std::optional<std::vector<std::string>> SpecialTokensIn(std::string_view text) {
  const std::string bytes = WithSpecialBytes(text);
  std::vector<std::string> tokens;
  for (size_t at = bytes.find(kSpecialByte); at != std::string::npos;) {
    const size_t end = bytes.find(kSpecialByte, at + 1);
    if (end == std::string::npos || end == at + 1) return std::nullopt;
    tokens.push_back(bytes.substr(at + 1, end - at - 1));
    at = bytes.find(kSpecialByte, end + 1);
  }
  return tokens;
}

bool IsMarker(std::string_view text) {
  const std::string plain = WithoutSpecialMarks(text);
  const auto tokens = SpecialTokensIn(text);
  return !plain.empty() && tokens && (tokens->empty() || text.starts_with(kSpecialTokenMark));
}

// The automaton of Knuth, Morris and Pratt: in state i the text ends with the first i bytes of the
// marker, and with no more of them. Whoever reads the text cannot tell a special token from what is
// spelled like it.
NodeIdx FreeText::Until(std::string_view marker, bool may_end, NodeIdx behind,
                        std::string_view unlike) {
  const std::string spelled = WithoutSpecialMarks(marker);
  const bool is_special = spelled != marker;
  const NodeIdx behind_spelled = is_special ? builder_.Nothing() : behind;
  NodeIdx otherwise =
      is_special ? builder_.Literal(WithSpecialBytes(marker), behind) : builder_.Nothing();
  if (may_end) otherwise = builder_.Either(otherwise, builder_.Return());
  std::vector<NodeIdx> states(spelled.size());
  for (NodeIdx& state : states) state = builder_.Later();
  states.push_back(behind_spelled);
  const std::vector<Moves> moves = MovesOf(spelled);
  const auto targets_of = [&](size_t state) {
    Targets targets;
    for (const auto& [byte, to] : moves[state]) targets[byte] = states[to];
    return targets;
  };
  for (size_t i = 0; i < moves.size(); ++i) {
    const NodeIdx step = Step(targets_of(i), states[0], states[i]);
    builder_.Become(states[i], builder_.Either(step, otherwise));
  }
  if (unlike.empty()) return states[0];
  // The same, but for where the text has been nothing but spaces and the beginning of `unlike`.
  const auto unlike_at = [&](size_t i, NodeIdx next, std::optional<NodeIdx> behind_space) {
    const NodeIdx here = builder_.Later();
    Targets targets = targets_of(StateBehind(unlike.substr(0, i), moves));
    targets[static_cast<uint8_t>(unlike[i])] = next;
    if (behind_space) {
      for (const char space : kSpaces) targets[static_cast<uint8_t>(space)] = *behind_space;
    }
    builder_.Become(here, builder_.Either(Step(targets, states[0], here), otherwise));
    return here;
  };
  NodeIdx behind_first = builder_.Nothing();
  for (size_t i = unlike.size(); i-- > 1;) behind_first = unlike_at(i, behind_first, std::nullopt);
  NodeIdx start = unlike_at(0, behind_first, std::nullopt);
  for (int64_t i = 0; i < kMaxSpaces; ++i) start = unlike_at(0, behind_first, start);
  return start;
}

NodeIdx FreeText::Step(const Targets& targets, NodeIdx other, NodeIdx behind_special) {
  NodeIdx result = own_ ? builder_.Call(OtherSpecialToken(), behind_special) : builder_.Nothing();
  int first = 0;
  for (const auto& [byte, target] : targets) {
    result = ByteOr(first, byte - 1, other, result);
    result = ByteOr(byte, byte, target, result);
    first = byte + 1;
  }
  return ByteOr(first, kSpecialTokenByte - 1, other, result);
}

NodeIdx FreeText::Spaces(NodeIdx next) {
  return builder_.Repeat(0, kMaxSpaces, next, [&](NodeIdx behind) {
    NodeIdx result = builder_.Nothing();
    for (const char space : kSpaces) {
      const auto byte = static_cast<uint8_t>(space);
      result = ByteOr(byte, byte, behind, result);
    }
    return result;
  });
}

// Any special token but one's own, as a rule.
NodeIdx FreeText::OtherSpecialToken() {
  if (other_special_) return *other_special_;
  const NodeIdx rest = builder_.Later();
  builder_.Become(rest, builder_.Either(builder_.Bytes(0, kSpecialTokenByte - 1, rest),
                                        SpecialByte(builder_.Return())));
  other_special_ = SpecialByte(SpecialTokenBesides(*own_, 0, rest));
  return *other_special_;
}

// What follows the bytes before `at`, with which all of `own` begin, in any other special token.
NodeIdx FreeText::SpecialTokenBesides(const std::set<std::string>& own, size_t at, NodeIdx rest) {
  std::map<uint8_t, std::set<std::string>> longer;
  for (const std::string& token : own) {
    if (token.size() > at) longer[static_cast<uint8_t>(token[at])].insert(token);
  }
  const bool is_own =
      std::ranges::any_of(own, [at](const std::string& token) { return token.size() == at; });
  NodeIdx result = at == 0 || is_own ? builder_.Nothing() : SpecialByte(builder_.Return());
  int first = 0;
  for (const auto& [byte, tokens] : longer) {
    result = ByteOr(first, byte - 1, rest, result);
    result = ByteOr(byte, byte, SpecialTokenBesides(tokens, at + 1, rest), result);
    first = byte + 1;
  }
  return ByteOr(first, kSpecialTokenByte - 1, rest, result);
}

// A byte of [first, last], if there are any, then `next`; or `or_else`.
NodeIdx FreeText::ByteOr(int first, int last, NodeIdx next, NodeIdx or_else) {
  if (first > last) return or_else;
  return builder_.Either(
      builder_.Bytes(static_cast<uint8_t>(first), static_cast<uint8_t>(last), next), or_else);
}

NodeIdx FreeText::SpecialByte(NodeIdx next) {
  return builder_.Bytes(kSpecialTokenByte, kSpecialTokenByte, next);
}

}  // namespace aril::grammar
