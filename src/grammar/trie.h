// A set of texts as a tree: a node for each beginning that some of them share.

#ifndef ARIL_GRAMMAR_TRIE_H_
#define ARIL_GRAMMAR_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace aril::grammar {

// Symbols are bytes or code points, as the owner likes. Not thread-safe.
class Trie {
 public:
  struct Node {
    std::map<uint32_t, size_t> next;  // by symbol, indices of nodes
    bool is_end = false;              // of a text of the set
  };

  template <typename Symbols>
  void Add(const Symbols& text) {
    size_t at = 0;
    for (const auto symbol : text) {
      const auto [entry, is_new] = nodes_[at].next.try_emplace(symbol, nodes_.size());
      at = entry->second;
      if (is_new) nodes_.emplace_back();
    }
    nodes_[at].is_end = true;
  }

  // The root, and every other behind its parent: whoever goes backward needs no recursion.
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::vector<Node> nodes_ = {Node{}};
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_TRIE_H_
