#include "memory/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace aril {

PrefixCache::Pin::Pin(Pin&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      last_(other.last_),
      num_pages_(std::exchange(other.num_pages_, 0)) {}

PrefixCache::Pin& PrefixCache::Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    Reset();
    cache_ = std::exchange(other.cache_, nullptr);
    last_ = other.last_;
    num_pages_ = std::exchange(other.num_pages_, 0);
  }
  return *this;
}

void PrefixCache::Pin::Reset() {
  if (cache_ != nullptr) std::exchange(cache_, nullptr)->Release(last_);
  num_pages_ = 0;
}

bool PrefixCache::TokensLess::operator()(std::span<const int32_t> a,
                                         std::span<const int32_t> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

PrefixCache::~PrefixCache() {
  for (const auto& [scope, root] : roots_) CHECK_EQ(root.num_users, 0);
}

std::vector<PageId> PrefixCache::Find(const PrefixScope& scope,
                                      std::span<const int32_t> tokens) const {
  std::vector<PageId> pages;
  const auto root = roots_.find(scope);
  if (root == roots_.end()) return pages;
  const Node* node = &root->second;
  while ((node = FindChild(*node, tokens)) != nullptr) {
    pages.push_back(node->page.id());
    tokens = tokens.subspan(page_tokens_);
  }
  return pages;
}

PrefixCache::Pin PrefixCache::Take(const PrefixScope& scope, std::span<const int32_t> tokens,
                                   std::vector<PageRef>& pages) {
  const auto root = roots_.try_emplace(scope).first;
  root->second.scope = &root->first;
  Pin pin;
  pin.cache_ = this;
  pin.last_ = &root->second;
  while (Node* const child = FindChild(*pin.last_, tokens)) {
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
  const auto [place, is_new] =
      parent->children.try_emplace(std::vector<int32_t>(tokens.begin(), tokens.end()));
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

PrefixCache::Node* PrefixCache::FindChild(const Node& node, std::span<const int32_t> tokens) const {
  if (tokens.size() < page_tokens_) return nullptr;
  const auto child = node.children.find(tokens.first(page_tokens_));
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
  if (node->scope == nullptr || node->num_users > 0 || !node->children.empty()) return;
  roots_.erase(roots_.find(*node->scope));
}

}  // namespace aril
