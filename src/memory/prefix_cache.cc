#include "memory/prefix_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace aril {

PrefixCache::Pin::Pin(Pin&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      last_(other.last_),
      num_pages_(std::exchange(other.num_pages_, 0)),
      adapters_(std::move(other.adapters_)) {}

PrefixCache::Pin& PrefixCache::Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    Reset();
    cache_ = std::exchange(other.cache_, nullptr);
    last_ = other.last_;
    num_pages_ = std::exchange(other.num_pages_, 0);
    adapters_ = std::move(other.adapters_);
  }
  return *this;
}

void PrefixCache::Pin::Reset() {
  if (cache_ != nullptr) std::exchange(cache_, nullptr)->Release(last_);
  num_pages_ = 0;
}

bool PrefixCache::ContentLess::operator()(const ContentView& a, const ContentView& b) const {
  const auto adapters = std::lexicographical_compare_three_way(
      a.adapters.begin(), a.adapters.end(), b.adapters.begin(), b.adapters.end());
  if (adapters != std::partial_ordering::equivalent) return adapters < 0;
  return std::ranges::lexicographical_compare(a.tokens, b.tokens);
}

PrefixCache::~PrefixCache() {
  for (const auto& [tenant, root] : roots_) CHECK_EQ(root.num_users, 0);
}

std::vector<PageId> PrefixCache::Find(const PrefixSource& source,
                                      std::span<const int32_t> tokens) const {
  std::vector<PageId> pages;
  const auto root = roots_.find(source.tenant);
  if (root == roots_.end()) return pages;
  const Node* node = &root->second;
  while ((node = FindChild(*node, std::ssize(pages), source.adapters, tokens)) != nullptr) {
    pages.push_back(node->page.id());
    tokens = tokens.subspan(page_tokens_);
  }
  return pages;
}

PrefixCache::Pin PrefixCache::Take(const PrefixSource& source, std::span<const int32_t> tokens,
                                   std::vector<PageRef>& pages) {
  const auto root = roots_.try_emplace(source.tenant).first;
  root->second.tenant = &root->first;
  Pin pin;
  pin.cache_ = this;
  pin.last_ = &root->second;
  pin.adapters_ = source.adapters;
  while (Node* const child = FindChild(*pin.last_, pin.num_pages_, pin.adapters_, tokens)) {
    pages.push_back(child->page.Share());
    tokens = tokens.subspan(page_tokens_);
    pin.last_ = child;
    ++pin.num_pages_;
  }
  Use(pin.last_);
  return pin;
}

void PrefixCache::Extend(Pin& pin, std::span<const int32_t> tokens, PageRef& page) {
  CHECK(pin.cache_ == this);
  CHECK_EQ(tokens.size(), page_tokens_);
  Node* const parent = pin.last_;
  std::vector<AdapterFrom> some;
  const std::span<const AdapterFrom> adapters = AdaptersOfPage(pin.num_pages_, pin.adapters_, some);
  const auto [place, is_new] = parent->children.try_emplace(
      {.adapters = {adapters.begin(), adapters.end()}, .tokens = {tokens.begin(), tokens.end()}});
  if (is_new) {
    Node& node = nodes_[page.id()];
    node.parent = parent;
    node.place = place;
    node.page = page.Share();
    place->second = &node;
  } else {
    page = place->second->page.Share();
  }
  pin.last_ = place->second;
  ++pin.num_pages_;
  Use(pin.last_);
  Release(parent);
}

std::span<const AdapterFrom> PrefixCache::AdaptersOfPage(int64_t index,
                                                         std::span<const AdapterFrom> adapters,
                                                         std::vector<AdapterFrom>& some) const {
  const int64_t end = (index + 1) * static_cast<int64_t>(page_tokens_);
  const auto applies = [end](const AdapterFrom& adapter) { return adapter.first_token < end; };
  if (std::ranges::all_of(adapters, applies)) return adapters;
  std::ranges::copy_if(adapters, std::back_inserter(some), applies);
  return some;
}

PrefixCache::Node* PrefixCache::FindChild(const Node& node, int64_t num_pages,
                                          std::span<const AdapterFrom> adapters,
                                          std::span<const int32_t> tokens) const {
  if (tokens.size() < page_tokens_) return nullptr;
  std::vector<AdapterFrom> some;
  const auto child = node.children.find(
      ContentView(AdaptersOfPage(num_pages, adapters, some), tokens.first(page_tokens_)));
  return child == node.children.end() ? nullptr : child->second;
}

void PrefixCache::Use(Node* node) {
  while (node->num_users++ == 0 && node->parent != nullptr) {
    node->offer.Withdraw();
    ++num_used_;
    node = node->parent;
  }
}

// The last pages are offered first: they are of use to the fewest, and none of those before them
// can go while they are there.
void PrefixCache::Release(Node* node) {
  CHECK_GT(node->num_users, 0);
  while (--node->num_users == 0 && node->parent != nullptr) {
    node->offer = pool_.Offer(1, [this, node] { Remove(node); });
    --num_used_;
    node = node->parent;
  }
  RemoveIfUnused(node);
}

void PrefixCache::Remove(Node* node) {
  CHECK(node->children.empty());
  CHECK_EQ(node->num_users, 0);
  Node* const parent = node->parent;
  parent->children.erase(node->place);
  nodes_.erase(node->page.id());
  RemoveIfUnused(parent);
}

void PrefixCache::RemoveIfUnused(Node* node) {
  if (node->tenant == nullptr || node->num_users > 0 || !node->children.empty()) return;
  roots_.erase(roots_.find(*node->tenant));
}

}  // namespace aril
