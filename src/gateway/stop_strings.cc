#include "gateway/stop_strings.h"

#include <algorithm>
#include <deque>

#include "base/check.h"

namespace aril::gateway {

StopStrings::StopStrings(const std::vector<std::string>& strings) : nodes_(1) {
  for (const std::string& text : strings) Insert(text);
  LinkFailures();
}

void StopStrings::Insert(std::string_view text) {
  CHECK(!text.empty());
  int32_t state = kStart;
  for (const char byte : text) {
    const auto [child, is_new] =
        nodes_[state].children.try_emplace(byte, static_cast<int32_t>(nodes_.size()));
    const int32_t next = child->second;
    if (is_new) {
      const size_t depth = nodes_[state].depth + 1;
      nodes_.emplace_back().depth = depth;
    }
    state = next;
  }
  nodes_[state].match_length = text.size();
}

// Breadth first: a node's failure link, which is shallower, is complete before it is followed.
void StopStrings::LinkFailures() {
  std::deque<int32_t> queue = {kStart};
  while (!queue.empty()) {
    const int32_t parent = queue.front();
    queue.pop_front();
    for (const auto& [byte, child] : nodes_[parent].children) {
      const int32_t fail = parent == kStart ? kStart : Next(nodes_[parent].fail, byte);
      nodes_[child].fail = fail;
      // Any match by way of `fail` is shorter than this node's own.
      if (nodes_[child].match_length == 0) nodes_[child].match_length = nodes_[fail].match_length;
      queue.push_back(child);
    }
  }
}

int32_t StopStrings::Next(int32_t state, char byte) const {
  while (true) {
    const auto child = nodes_[state].children.find(byte);
    if (child != nodes_[state].children.end()) return child->second;
    if (state == kStart) return kStart;
    state = nodes_[state].fail;
  }
}

StopMatcher::Result StopMatcher::Append(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    state_ = strings_->Next(state_, text[i]);
    const size_t match_length = strings_->MatchLength(state_);
    if (match_length == 0) continue;
    held_.append(text.substr(0, i + 1));
    const size_t begin = held_.size() - match_length;
    std::string match = held_.substr(begin);
    held_.resize(begin);
    return {.released = Flush(), .match = std::move(match)};
  }
  held_.append(text);
  const size_t released_bytes = held_.size() - strings_->Depth(state_);
  std::string released = held_.substr(0, released_bytes);
  held_.erase(0, released_bytes);
  return {.released = std::move(released), .match = {}};
}

}  // namespace aril::gateway
