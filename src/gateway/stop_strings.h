// Cutting generated text at stop strings, with no more text held back than could still become one.
//
// The stop strings form an Aho-Corasick automaton over bytes (Aho and Corasick, CACM 1975). Its
// state is the longest suffix of the text so far that begins some stop string, so that the depth of
// the state is exactly how many bytes must be held back. As texts and stop strings are whole code
// points, so is every piece released.

#ifndef ARIL_GATEWAY_STOP_STRINGS_H_
#define ARIL_GATEWAY_STOP_STRINGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace aril::gateway {

// The automaton of a request's stop strings, shared by its choices. Immutable; thread-safe.
class StopStrings {
 public:
  // Empty strings are not allowed. No strings at all: nothing ever matches.
  explicit StopStrings(const std::vector<std::string>& strings);

  static constexpr int32_t kStart = 0;

  int32_t Next(int32_t state, char byte) const;
  // Length of the longest stop string that ends here, or 0.
  size_t MatchLength(int32_t state) const { return nodes_[state].match_length; }
  // Length of the longest suffix that begins a stop string.
  size_t Depth(int32_t state) const { return nodes_[state].depth; }

 private:
  struct Node {
    std::map<char, int32_t> children;
    int32_t fail = kStart;
    size_t depth = 0;
    size_t match_length = 0;
  };

  void Insert(std::string_view text);
  void LinkFailures();

  std::vector<Node> nodes_;
};

// Follows one text. Not thread-safe; the automaton must outlive it.
class StopMatcher {
 public:
  explicit StopMatcher(const StopStrings& strings) : strings_(&strings) {}

  struct Result {
    std::string released;              // text that belongs to no stop string
    std::optional<std::string> match;  // a stop string that is complete: the text ends before it
  };

  // The first match is the one whose last byte comes first; of several that end there, the longest.
  // Must not be called after a match.
  Result Append(std::string_view text);

  // What is still held back. Call once, at the end of a text without a match.
  std::string Flush() { return std::exchange(held_, {}); }

 private:
  const StopStrings* strings_;
  int32_t state_ = StopStrings::kStart;
  std::string held_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_STOP_STRINGS_H_
