// Which pages hold the K and V of which tokens, so that sequences that begin alike share them.
//
// Bookkeeping only. Per tenant a trie whose edges are the tokens of one full page each, and the
// adapters that they were computed with: a page is found by comparing all tokens up to its end,
// never by a hash alone. What a sequence uses is a path from the root, which its pin keeps. A page
// that no pin keeps, and then neither the pages after it, is idle: offered to the pool, later pages
// before earlier ones.
//
// Where sequences have a state beside K and V, a page is of use only with the state behind its last
// token, which some pages have, in pages of its own. What a row does to a state cannot be undone:
// sequences go on with copies, and so a state is idle whoever uses its page, but between Take and
// TakeState. It is offered before the page is, and, of those along a path, the first one first:
// where the others were reached, nobody else may want it.

#ifndef ARIL_MEMORY_PREFIX_CACHE_H_
#define ARIL_MEMORY_PREFIX_CACHE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/adapter_mix.h"
#include "base/ids.h"
#include "base/sequence_pages.h"
#include "memory/page_pool.h"

namespace aril {

// A sequence, as far as its K and V depend on it. Sequences of one tenant share the pages before
// the first token that differs, or that one of them computes with other adapters: where an adapter
// applies from a later token on, those before are as without it. An adapter's id is never given
// twice, so that it stands for its weights.
struct PrefixSource {
  std::string tenant;
  std::vector<AdapterFrom> adapters = {};  // in the order in which they apply
};

// Not thread-safe: belongs to the engine's thread. The pool must outlive this object, and this
// object its pins.
class PrefixCache {
  struct Node;

 public:
  // Copies pages' bytes: `from` to those of `to`, of which there are as many.
  using Copy = std::function<void(std::span<const PageRef> from, std::span<const PageRef> to)>;

  // The cached pages of the longest beginning of a sequence that has any; full pages only. Where
  // sequences have states: that ends with one.
  struct Beginning {
    std::vector<PageId> pages;
    // As `pages`, had each one a state.
    int64_t num_alike = 0;
  };

  // Keeps the cached pages that one sequence begins with. Move-only.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept;
    Pin& operator=(Pin&& other) noexcept;
    ~Pin() { Reset(); }
    void Reset();

    int64_t num_pages() const { return num_pages_; }
    // Beginning::num_alike, when it was taken.
    int64_t num_alike() const { return num_alike_; }

   private:
    friend class PrefixCache;
    PrefixCache* cache_ = nullptr;
    Node* last_ = nullptr;
    bool keeps_state_ = false;  // last_'s
    int64_t num_pages_ = 0;
    int64_t num_alike_ = 0;
    std::vector<AdapterFrom> adapters_;  // of the source
  };

  PrefixCache(PagePool& pool, SequencePages pages)
      : pool_(pool),
        page_tokens_(static_cast<size_t>(pages.page_tokens)),
        state_pages_(pages.state_pages) {}
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  ~PrefixCache();

  Beginning Find(const PrefixSource& source, std::span<const int32_t> tokens) const;

  // Pins what Find would find, and appends it to `pages`. The pin keeps its state, too, until
  // TakeState.
  Pin Take(const PrefixSource& source, std::span<const int32_t> tokens,
           std::vector<PageRef>& pages);

  // Of a pin that keeps a state, if there is one: a state for a sequence to go on with. It is a
  // copy, if the pool has pages for it, or else, for the last pin that keeps it, what is then no
  // longer cached: so many pins need the pages of so many states, those that are cached among them.
  std::vector<PageRef> TakeState(Pin& pin, const Copy& copy);

  // Caches a page that holds the `tokens` after the pin's and will not be written any more; the pin
  // keeps it, too. If there is such a page already, `page` becomes that one.
  void Extend(Pin& pin, std::span<const int32_t> tokens, PageRef& page);

  // Caches a copy of `state`, which is the one behind the pin's last token, unless there is one, or
  // the pool has no pages for it.
  void KeepState(const Pin& pin, std::span<const PageRef> state, const Copy& copy);

  // Those of states, too.
  int64_t num_pages() const { return std::ssize(nodes_) + num_states_ * state_pages_; }
  int64_t num_idle_pages() const { return num_pages() - num_used_; }
  int64_t num_tenants() const { return static_cast<int64_t>(roots_.size()); }

 private:
  // What a page holds, beside the pages before it: its tokens, and the adapters that apply to any
  // of them.
  struct Content {
    std::vector<AdapterFrom> adapters;
    std::vector<int32_t> tokens;
  };
  struct ContentView {
    std::span<const AdapterFrom> adapters;
    std::span<const int32_t> tokens;

    ContentView(std::span<const AdapterFrom> a, std::span<const int32_t> t)
        : adapters(a), tokens(t) {}
    ContentView(const Content& content) : adapters(content.adapters), tokens(content.tokens) {}
  };
  struct ContentLess {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): std::map looks for it
    bool operator()(const ContentView& a, const ContentView& b) const;
  };
  using Children = std::map<Content, Node*, ContentLess>;

  struct State {
    std::vector<PageRef> pages;
    int64_t num_users = 0;  // pins that keep it
    PageOffer offer;        // open while there are no users
  };

  // A page in its place; or a root, which has none.
  struct Node {
    Node* parent = nullptr;
    Children::iterator place;             // among the parent's children
    const std::string* tenant = nullptr;  // of a root
    Children children;
    PageRef page;
    std::unique_ptr<State> state;  // behind it; null: none
    int64_t num_users = 0;         // pins that end here, and children that have users
    PageOffer offer;               // open while there are no users
  };

  // Those that apply to a token of the page, or of one before it: all of them, or put into `some`.
  std::span<const AdapterFrom> AdaptersOfPage(int64_t index, std::span<const AdapterFrom> adapters,
                                              std::vector<AdapterFrom>& some) const;
  // The page behind `node`, which is the last of so many, that begins `tokens`; nullptr if there is
  // none.
  Node* FindChild(const Node& node, int64_t num_pages, std::span<const AdapterFrom> adapters,
                  std::span<const int32_t> tokens) const;
  // Calls `visit(node)` for each of the pages that begin `tokens`.
  template <typename Visit>
  void Walk(const Node& root, std::span<const AdapterFrom> adapters,
            std::span<const int32_t> tokens, const Visit& visit) const;
  // Whether a sequence can begin with the pages up to this one.
  bool CanEndWith(const Node& node) const { return state_pages_ == 0 || node.state != nullptr; }
  void Use(Node* node);
  void Release(Node* node);
  // Behind all that is offered.
  void OfferState(Node* node);
  // Of pages that are used up to this one alone.
  void OfferStates(Node* node);
  // By a pin that keeps it.
  void ReleaseState(Node* node);
  std::vector<PageRef> RemoveState(Node* node);
  // Of a page without users and children.
  void Remove(Node* node);
  // Of a root that has neither users nor pages.
  void RemoveIfUnused(Node* node);

  PagePool& pool_;
  const size_t page_tokens_;
  const int64_t state_pages_;          // 0: sequences have no states
  std::map<std::string, Node> roots_;  // of tenants with a pin or a page
  // Flat, although they are trees: as deep as the longest sequence has pages.
  std::unordered_map<PageId, Node> nodes_;
  int64_t num_states_ = 0;
  int64_t num_used_ = 0;  // pages that have users, those of states as well
};

}  // namespace aril

#endif  // ARIL_MEMORY_PREFIX_CACHE_H_
