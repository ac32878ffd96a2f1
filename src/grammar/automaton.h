// Where a text may go on, by a grammar: the states of its automaton, made when they are met.
//
// A state is the set of all (node, stack of calls) that the text so far may have led to, so that
// nothing has to be tried twice. States and the ways between them are kept: a text that returns to
// a state costs a look-up for each byte.

#ifndef ARIL_GRAMMAR_AUTOMATON_H_
#define ARIL_GRAMMAR_AUTOMATON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar/grammar.h"

namespace aril::grammar {

// Not thread-safe.
class Automaton {
 public:
  // Index of a state, or one of the two below.
  using State = int32_t;
  // No text that is allowed begins so.
  static constexpr State kDead = -1;
  // The text could have been read in more than kMaxWays ways, or by too many nodes for them.
  static constexpr State kTooManyWays = -2;
  // Ways that a text may have taken at the same time: a byte more takes time in proportion to them.
  // 1,024 choices have one each, and what may stand beside them a few.
  static constexpr size_t kMaxWays = 1088;
  // Calls within calls. A text that would take more is not allowed: it could be nested without end,
  // and readers of JSON take some hundred levels.
  static constexpr int32_t kMaxDepth = 512;

  explicit Automaton(Grammar grammar);

  State start() const { return start_; }
  // Whether it is an index of one.
  static bool IsState(State state) { return state >= 0; }
  // After one byte more. `state` is one.
  State Next(State state, uint8_t byte) {
    const State known = next_[static_cast<size_t>(state) * num_classes_ + class_of_[byte]];
    return known != kUnknown ? known : Find(state, byte);
  }
  // Whether the text is complete.
  bool IsComplete(State state) const { return states_[static_cast<size_t>(state)].is_complete; }
  // Whether it may go on.
  bool HasNext(State state) const { return !states_[static_cast<size_t>(state)].ways.empty(); }

  size_t num_states() const { return states_.size(); }

  // What it takes at most to find the states of a walk, in ways: from BeginWalk on, for each state
  // the number of its own, once. The same whatever is known already.
  void BeginWalk() { ++walk_; }
  size_t Visit(State state) {
    const auto idx = static_cast<size_t>(state);
    if (visited_[idx] == walk_) return 0;
    visited_[idx] = walk_;
    return states_[idx].ways.size() + 1;
  }

  // Forgets all states but the first and these, which get new indices.
  void Forget(std::span<State* const> kept);
  // About what the states take.
  size_t size_bytes() const { return size_bytes_; }

 private:
  static constexpr State kUnknown = -3;
  // Index of a list of nodes to return to.
  using Frame = int32_t;
  static constexpr Frame kBottom = 0;
  struct FrameData {
    NodeIdx back = 0;       // the innermost
    Frame outer = kBottom;  // the list of the others
    int32_t depth = 0;
  };
  // A kBytes node and its frame.
  struct Way {
    NodeIdx node;
    Frame frame;
    auto operator<=>(const Way&) const = default;
  };
  struct StateData {
    std::vector<Way> ways;  // sorted
    bool is_complete = false;
    bool operator==(const StateData&) const = default;
  };
  struct Hash {
    size_t operator()(const StateData& state) const;
  };

  State Find(State state, uint8_t byte);
  // The state of these ways and all that they lead to without a byte.
  State Close(std::vector<Way> ways);
  State Intern(StateData data);
  Frame Push(NodeIdx node, Frame frame);
  const Node& node(NodeIdx idx) const { return grammar_.nodes[static_cast<size_t>(idx)]; }

  const Grammar grammar_;
  // Bytes that no node tells apart are of one class.
  std::array<uint8_t, 256> class_of_ = {};
  size_t num_classes_ = 0;
  std::vector<StateData> states_;
  std::vector<State> next_;  // [num_states, num_classes]
  std::unordered_map<StateData, State, Hash> by_data_;
  std::vector<FrameData> frames_ = {{}};
  std::unordered_map<uint64_t, Frame> by_frame_;
  std::unordered_set<uint64_t> seen_;  // while a state is closed
  std::vector<uint64_t> visited_;      // by state: the last walk
  uint64_t walk_ = 0;
  size_t size_bytes_ = 0;
  State start_ = kDead;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_AUTOMATON_H_
