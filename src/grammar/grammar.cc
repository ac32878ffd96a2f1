#include "grammar/grammar.h"

#include "base/strings.h"

namespace aril::grammar {

NodeIdx GrammarBuilder::Add(const Node& node) {
  if (is_full()) return Return();
  nodes_.push_back(node);
  return static_cast<NodeIdx>(nodes_.size() - 1);
}

NodeIdx GrammarBuilder::Nothing() {
  if (!nothing_) {
    nothing_ = Later();
    Become(*nothing_, *nothing_);
  }
  return *nothing_;
}

NodeIdx GrammarBuilder::Bytes(uint8_t first, uint8_t last, NodeIdx next) {
  return Add({.kind = Node::Kind::kBytes, .first = first, .last = last, .next = next});
}

NodeIdx GrammarBuilder::Literal(std::string_view text, NodeIdx next) {
  for (auto byte = text.rbegin(); byte != text.rend(); ++byte) {
    next = Bytes(static_cast<uint8_t>(*byte), static_cast<uint8_t>(*byte), next);
  }
  return next;
}

NodeIdx GrammarBuilder::Either(NodeIdx one, NodeIdx other) {
  return Add({.kind = Node::Kind::kSplit, .next = one, .other = other});
}

NodeIdx GrammarBuilder::Call(NodeIdx rule, NodeIdx next) {
  return Add({.kind = Node::Kind::kCall, .next = next, .other = rule});
}

NodeIdx GrammarBuilder::Later() { return Add({.kind = Node::Kind::kSplit}); }

void GrammarBuilder::Become(NodeIdx later, NodeIdx node) {
  if (later == Return()) return;  // it had no room any more
  nodes_[static_cast<size_t>(later)].next = node;
  nodes_[static_cast<size_t>(later)].other = node;
}

StatusOr<Grammar> GrammarBuilder::Build(NodeIdx start) {
  if (is_full()) {
    return ResourceExhausted(StrCat("it takes more than ", kMaxNodes,
                                    " nodes, or too long to read; lower its bounds of lengths "
                                    "and counts, or split it"));
  }
  return Grammar{.nodes = std::move(nodes_), .start = start};
}

}  // namespace aril::grammar
