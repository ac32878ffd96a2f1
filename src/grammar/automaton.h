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

  const Grammar& grammar() const { return grammar_; }
  State start() const { return start_; }
  // Whether it is an index of one.
  static bool IsState(State state) { return state >= 0; }
  // After one byte more. `state` is one.
  State Next(State state, uint8_t byte) { return TransitionOf(state, byte).to; }
  // Whether the text is complete.
  bool IsComplete(State state) const { return states_[static_cast<size_t>(state)].is_complete; }
  // Whether it may go on.
  bool HasNext(State state) const { return !states_[static_cast<size_t>(state)].ways.empty(); }

  size_t num_states() const { return states_.size(); }

  // Work is what it takes to find out where bytes lead, in units of about 10 ns. Each state and
  // byte has its own, whatever else is known.

  // A walk goes over many texts, which begin alike: each state and byte is counted once from
  // BeginWalk on, as if nothing had been known.
  void BeginWalk();
  // Next, whose work is added to `*work`.
  State Walk(State state, uint8_t byte, int64_t* work) {
    Transition& transition = TransitionOf(state, byte);
    if (transition.walk != walk_) {
      transition.walk = walk_;
      *work += transition.work;
    }
    return transition.to;
  }
  // That has been done by now.
  int64_t work() const { return work_; }

  // Forgets all states but the first and these, which get new indices.
  void Forget(std::span<State* const> kept);
  // About what the states take.
  size_t size_bytes() const { return size_bytes_; }

 private:
  static constexpr State kUnknown = -3;
  // Index of a list of nodes to return to.
  using Frame = int32_t;
  static constexpr Frame kBottom = 0;
  // Per entry of a hash table, beside what is counted; about.
  static constexpr size_t kEntryBytes = 48;
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
  struct Transition {
    State to = kUnknown;
    uint16_t work = 0;
    uint16_t walk = 0;  // the last one that came here
  };
  struct Closed {
    State state = kDead;
    size_t work = 0;
  };
  struct Hash {
    size_t operator()(const StateData& state) const;
  };

  size_t IndexOf(State state, uint8_t byte) const {
    return static_cast<size_t>(state) * num_classes_ + class_of_[byte];
  }
  Transition& TransitionOf(State state, uint8_t byte) {
    const size_t idx = IndexOf(state, byte);
    if (transitions_[idx].to == kUnknown) Find(state, byte);
    return transitions_[idx];
  }
  void Find(State state, uint8_t byte);
  // The state of these ways and all that they lead to without a byte.
  Closed Close(std::vector<Way> ways);
  // About what a state takes.
  static constexpr size_t BytesOfState(size_t num_ways, size_t num_classes) {
    return 2 * (sizeof(StateData) + num_ways * sizeof(Way)) + num_classes * sizeof(Transition) +
           kEntryBytes;
  }
  State Intern(StateData data);
  Frame Push(NodeIdx node, Frame frame);
  const Node& node(NodeIdx idx) const { return grammar_.nodes[static_cast<size_t>(idx)]; }

  const Grammar grammar_;
  // Bytes that no node tells apart are of one class.
  std::array<uint8_t, 256> class_of_ = {};
  size_t num_classes_ = 0;
  std::vector<StateData> states_;
  std::vector<Transition> transitions_;  // [num_states, num_classes]
  std::unordered_map<StateData, State, Hash> by_data_;
  std::vector<FrameData> frames_ = {{}};
  std::unordered_map<uint64_t, Frame> by_frame_;
  uint16_t walk_ = 0;
  int64_t work_ = 0;
  size_t size_bytes_ = 0;
  State start_ = kDead;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_AUTOMATON_H_
