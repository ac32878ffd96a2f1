#include "grammar/prune.h"

#include <utility>
#include <vector>

namespace aril::grammar {
namespace {

// Which nodes lead to the end, found from the end backward.
class EndSearch {
 public:
  explicit EndSearch(const std::vector<Node>& nodes)
      : nodes_(nodes), ends_(nodes.size()), first_user_(nodes.size() + 1) {
    ForEachUse([&](NodeIdx used, size_t) { ++first_user_[static_cast<size_t>(used) + 1]; });
    for (size_t i = 1; i < first_user_.size(); ++i) first_user_[i] += first_user_[i - 1];
    users_.resize(first_user_.back());
    std::vector<size_t> at = first_user_;
    ForEachUse([&](NodeIdx used, size_t user) { users_[at[static_cast<size_t>(used)]++] = user; });
  }

  std::vector<bool> Run() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].kind == Node::Kind::kReturn) Mark(i);
    }
    while (!marked_.empty()) {
      const size_t used = marked_.back();
      marked_.pop_back();
      for (size_t i = first_user_[used]; i < first_user_[used + 1]; ++i) {
        if (Ends(nodes_[users_[i]])) Mark(users_[i]);
      }
    }
    return std::move(ends_);
  }

 private:
  template <typename Visit>
  void ForEachUse(const Visit& visit) const {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.kind == Node::Kind::kReturn) continue;
      visit(node.next, i);
      if (node.kind != Node::Kind::kBytes) visit(node.other, i);
    }
  }

  bool Ends(const Node& node) const {
    const bool next = ends_[static_cast<size_t>(node.next)];
    switch (node.kind) {
      case Node::Kind::kBytes:
        return next && node.first <= node.last;
      case Node::Kind::kSplit:
        return next || ends_[static_cast<size_t>(node.other)];
      case Node::Kind::kCall:
        return next && ends_[static_cast<size_t>(node.other)];
      case Node::Kind::kReturn:
        break;
    }
    return true;
  }

  void Mark(size_t node) {
    if (ends_[node]) return;
    ends_[node] = true;
    marked_.push_back(node);
  }

  const std::vector<Node>& nodes_;
  std::vector<bool> ends_;
  std::vector<size_t> first_user_;  // of each node, in users_
  std::vector<size_t> users_;
  std::vector<size_t> marked_;
};

}  // namespace

bool Prune(Grammar& grammar) {
  const std::vector<bool> ends = EndSearch(grammar.nodes).Run();
  for (Node& node : grammar.nodes) {
    if (node.kind != Node::Kind::kSplit) continue;
    if (!ends[static_cast<size_t>(node.next)]) node.next = node.other;
    if (!ends[static_cast<size_t>(node.other)]) node.other = node.next;
  }
  return ends[static_cast<size_t>(grammar.start)];
}

}  // namespace aril::grammar
