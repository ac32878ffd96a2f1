#include "grammar/automaton.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "boost/unordered/unordered_flat_set.hpp"

namespace aril::grammar {
namespace {

// Nodes without a byte that may lead to a way, on an average.
constexpr size_t kMaxNodesPerWay = 4;

// What a unit of work (Automaton::Walk) does.
constexpr size_t kWaysPerWork = 4;   // that the state behind which a byte comes has
constexpr size_t kWorkPerNode = 4;   // that comes before the ways of the state to which it leads
constexpr size_t kBytesPerWork = 8;  // of that state, which is forgotten some time, too

// Nodes that may be seen when a state is made.
constexpr size_t kMaxNodes = kMaxNodesPerWay * Automaton::kMaxWays;

size_t Mix(size_t hash, uint64_t value) {
  return (hash ^ value) * 0x9E3779B97F4A7C15ULL + (hash >> 29);
}

uint64_t KeyOf(int32_t node, int32_t frame) {
  return uint64_t{static_cast<uint32_t>(node)} << 32 | static_cast<uint32_t>(frame);
}

}  // namespace

size_t Automaton::Hash::operator()(const StateData& state) const {
  size_t hash = state.is_complete ? 1 : 0;
  for (const Way& way : state.ways) hash = Mix(hash, KeyOf(way.node, way.frame));
  return hash;
}

Automaton::Automaton(Grammar grammar) : grammar_(std::move(grammar)) {
  std::array<bool, 257> begins_class = {};
  for (const Node& n : grammar_.nodes) {
    if (n.kind != Node::Kind::kBytes) continue;
    begins_class[n.first] = true;
    begins_class[size_t{n.last} + 1] = true;
  }
  uint8_t current = 0;
  for (size_t byte = 1; byte < class_of_.size(); ++byte) {
    if (begins_class[byte]) ++current;
    class_of_[byte] = current;
  }
  num_classes_ = size_t{current} + 1;
  start_ = Close({{grammar_.start, kBottom}}).state;
}

void Automaton::BeginWalk() {
  if (++walk_ != 0) return;
  for (Transition& transition : transitions_) transition.walk = 0;
  walk_ = 1;
}

void Automaton::Find(State state, uint8_t byte) {
  const std::vector<Way>& from = states_[static_cast<size_t>(state)].ways;
  const size_t num_from = from.size();
  std::vector<Way> ways;
  for (const Way& way : from) {
    const Node& n = node(way.node);
    if (n.first <= byte && byte <= n.last) ways.push_back({n.next, way.frame});
  }
  const Closed closed = ways.empty() ? Closed() : Close(std::move(ways));
  constexpr size_t kMaxWork = 1 + kMaxWays / kWaysPerWork + (kMaxNodes + 1) * kWorkPerNode +
                              BytesOfState(kMaxWays, 256) / kBytesPerWork;
  static_assert(kMaxWork <= std::numeric_limits<decltype(Transition::work)>::max());
  const size_t work = 1 + num_from / kWaysPerWork + closed.work;
  transitions_[IndexOf(state, byte)] = {.to = closed.state, .work = static_cast<uint16_t>(work)};
  work_ += static_cast<int64_t>(work);
}

Automaton::Closed Automaton::Close(std::vector<Way> ways) {
  StateData closed;
  boost::unordered_flat_set<uint64_t> seen;
  while (!ways.empty()) {
    const Way way = ways.back();
    ways.pop_back();
    if (!seen.insert(KeyOf(way.node, way.frame)).second) continue;
    if (closed.ways.size() > kMaxWays || seen.size() > kMaxNodes) {
      return {kTooManyWays, seen.size() * kWorkPerNode};
    }
    const Node& n = node(way.node);
    switch (n.kind) {
      case Node::Kind::kBytes:
        closed.ways.push_back(way);
        break;
      case Node::Kind::kSplit:
        ways.push_back({n.next, way.frame});
        ways.push_back({n.other, way.frame});
        break;
      case Node::Kind::kCall: {
        // A rule that is called at the end of another returns to that one's caller: lists, which
        // are rules that end in themselves, do not grow a stack.
        const bool is_last = node(n.next).kind == Node::Kind::kReturn;
        if (is_last) {
          ways.push_back({n.other, way.frame});
        } else if (frames_[static_cast<size_t>(way.frame)].depth < kMaxDepth) {
          ways.push_back({n.other, Push(n.next, way.frame)});
        }
        break;
      }
      case Node::Kind::kReturn:
        if (way.frame == kBottom) {
          closed.is_complete = true;
        } else {
          const FrameData& frame = frames_[static_cast<size_t>(way.frame)];
          ways.push_back({frame.back, frame.outer});
        }
        break;
    }
  }
  const size_t work =
      seen.size() * kWorkPerNode + BytesOfState(closed.ways.size(), num_classes_) / kBytesPerWork;
  return {Intern(std::move(closed)), work};
}

Automaton::State Automaton::Intern(StateData data) {
  std::ranges::sort(data.ways);
  const auto [entry, is_new] = by_data_.try_emplace(data, static_cast<State>(states_.size()));
  if (is_new) {
    size_bytes_ += BytesOfState(data.ways.size(), num_classes_);
    states_.push_back(std::move(data));
    transitions_.resize(transitions_.size() + num_classes_);
  }
  return entry->second;
}

void Automaton::Forget(std::span<State* const> kept) {
  std::vector<StateData> states = std::exchange(states_, {});
  const std::vector<FrameData> frames = std::exchange(frames_, {{}});
  transitions_ = {};
  by_data_ = {};
  by_frame_ = {};
  size_bytes_ = 0;
  std::unordered_map<Frame, Frame> moved = {{kBottom, kBottom}};
  const auto move = [&](Frame frame) {
    std::vector<Frame> inner;  // whose outer ones have not been moved yet
    for (; !moved.contains(frame); frame = frames[static_cast<size_t>(frame)].outer) {
      inner.push_back(frame);
    }
    Frame result = moved.at(frame);
    for (; !inner.empty(); inner.pop_back()) {
      result = Push(frames[static_cast<size_t>(inner.back())].back, result);
      moved.emplace(inner.back(), result);
    }
    return result;
  };
  const auto keep = [&](State* state) {
    if (!IsState(*state)) return;
    StateData data = states[static_cast<size_t>(*state)];
    for (Way& way : data.ways) way.frame = move(way.frame);
    *state = Intern(std::move(data));
  };
  keep(&start_);
  for (State* const state : kept) keep(state);
}

Automaton::Frame Automaton::Push(NodeIdx back, Frame frame) {
  const auto [entry, is_new] =
      by_frame_.try_emplace(KeyOf(back, frame), static_cast<Frame>(frames_.size()));
  if (is_new) {
    const int32_t depth = frames_[static_cast<size_t>(frame)].depth + 1;
    frames_.push_back({.back = back, .outer = frame, .depth = depth});
    size_bytes_ += sizeof(FrameData) + kEntryBytes;
  }
  return entry->second;
}

}  // namespace aril::grammar
