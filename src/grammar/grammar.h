// A context-free grammar over bytes: the texts that an output may be.
//
// It is a graph of nodes, as Thompson's construction makes of a regular expression (Thompson, CACM
// 1968), with calls: a rule is a part of the graph that ends in kReturn, and goes on behind whoever
// called it. So rules may nest, which regular expressions cannot.

#ifndef ARIL_GRAMMAR_GRAMMAR_H_
#define ARIL_GRAMMAR_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace aril::grammar {

// Index of a node.
using NodeIdx = int32_t;

struct Node {
  enum class Kind : uint8_t {
    kBytes,   // one byte from `first` to `last`, then `next`
    kSplit,   // `next` or `other`
    kCall,    // the rule that begins with `other`, then `next`
    kReturn,  // the end of a rule, or of the text if nobody called
  };

  Kind kind = Kind::kReturn;
  uint8_t first = 0;
  uint8_t last = 0;
  NodeIdx next = 0;
  NodeIdx other = 0;
};

struct Grammar {
  std::vector<Node> nodes;
  NodeIdx start = 0;

  size_t size_bytes() const { return nodes.size() * sizeof(Node); }
};

// Builds a grammar from its end: every function takes the node that comes behind what it adds, and
// returns the one that it begins with. Not thread-safe.
class GrammarBuilder {
 public:
  // Nodes that one grammar may have: some MB. Beyond it nothing is added any more, and Build fails.
  static constexpr size_t kMaxNodes = 200'000;
  // Steps that it may take to build it; the same holds then.
  static constexpr size_t kMaxWork = 5'000'000;

  GrammarBuilder() = default;
  // Adds to that.
  explicit GrammarBuilder(Grammar grammar) : nodes_(std::move(grammar.nodes)) {}

  // The one node that ends rules and texts.
  NodeIdx Return() const { return 0; }
  // A node that no text passes.
  NodeIdx Nothing();
  // One byte of [first, last].
  NodeIdx Bytes(uint8_t first, uint8_t last, NodeIdx next);
  // These bytes.
  NodeIdx Literal(std::string_view text, NodeIdx next);
  // What begins at either node.
  NodeIdx Either(NodeIdx one, NodeIdx other);
  // The rule that begins at `rule`, which may be a node of Later.
  NodeIdx Call(NodeIdx rule, NodeIdx next);
  // A node that is decided later, once, by Become: what is built behind it may lead to it.
  NodeIdx Later();
  void Become(NodeIdx later, NodeIdx node);

  // `body(next)` adds what is repeated, and may add nothing.
  template <typename Body>
  NodeIdx Repeat(int64_t min, int64_t max, NodeIdx next, const Body& body) {
    NodeIdx at = next;
    for (int64_t i = min; i < max && !is_full(); ++i) at = Either(body(at), next);
    return Times(min, at, body);
  }
  // At least `min` times.
  template <typename Body>
  NodeIdx RepeatFrom(int64_t min, NodeIdx next, const Body& body) {
    const NodeIdx loop = Later();
    Become(loop, Either(body(loop), next));
    return Times(min, loop, body);
  }

  // So large that Build will fail.
  bool is_full() const { return nodes_.size() >= kMaxNodes || work_ > kMaxWork; }
  // Counts what takes time and may add nothing.
  void Charge(size_t work) { work_ += work; }
  // ResourceExhausted if it has grown too large.
  StatusOr<Grammar> Build(NodeIdx start);

 private:
  NodeIdx Add(const Node& node);
  template <typename Body>
  NodeIdx Times(int64_t count, NodeIdx next, const Body& body) {
    for (int64_t i = 0; i < count && !is_full(); ++i) {
      const NodeIdx before = std::exchange(next, body(next));
      if (next == before) break;  // nothing, however often
    }
    return next;
  }

  std::vector<Node> nodes_ = {Node{}};
  std::optional<NodeIdx> nothing_;
  size_t work_ = 0;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_GRAMMAR_H_
