#include "grammar/automaton.h"

#include <algorithm>
#include <utility>

namespace aril::grammar {
namespace {

// Nodes without a byte that may lead to a way, on an average.
constexpr size_t kMaxNodesPerWay = 4;

// Per entry of a hash table, beside what is counted; about.
constexpr size_t kEntryBytes = 48;

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
  start_ = Close({{grammar_.start, kBottom}});
}

Automaton::State Automaton::Find(State state, uint8_t byte) {
  std::vector<Way> ways;
  for (const Way& way : states_[static_cast<size_t>(state)].ways) {
    const Node& n = node(way.node);
    if (n.first <= byte && byte <= n.last) ways.push_back({n.next, way.frame});
  }
  const State found = ways.empty() ? kDead : Close(std::move(ways));
  next_[static_cast<size_t>(state) * num_classes_ + class_of_[byte]] = found;
  return found;
}

Automaton::State Automaton::Close(std::vector<Way> ways) {
  StateData closed;
  seen_.clear();
  while (!ways.empty()) {
    const Way way = ways.back();
    ways.pop_back();
    if (!seen_.insert(KeyOf(way.node, way.frame)).second) continue;
    if (closed.ways.size() > kMaxWays || seen_.size() > kMaxNodesPerWay * kMaxWays) {
      return kTooManyWays;
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
  return Intern(std::move(closed));
}

Automaton::State Automaton::Intern(StateData data) {
  std::ranges::sort(data.ways);
  const auto [entry, is_new] = by_data_.try_emplace(data, static_cast<State>(states_.size()));
  if (is_new) {
    size_bytes_ += 2 * (sizeof(StateData) + data.ways.size() * sizeof(Way)) +
                   num_classes_ * sizeof(State) + sizeof(uint64_t) + kEntryBytes;
    states_.push_back(std::move(data));
    next_.resize(next_.size() + num_classes_, kUnknown);
    visited_.push_back(0);
  }
  return entry->second;
}

void Automaton::Forget(std::span<State* const> kept) {
  std::vector<StateData> states = std::exchange(states_, {});
  const std::vector<FrameData> frames = std::exchange(frames_, {{}});
  next_ = {};
  visited_ = {};
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
