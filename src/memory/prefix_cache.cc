#include "memory/prefix_cache.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "base/check.h"

namespace aril {

PrefixCache::Pin::Pin(Pin&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      last_(other.last_),
      keeps_state_(std::exchange(other.keeps_state_, false)),
      num_pages_(std::exchange(other.num_pages_, 0)),
      num_alike_(std::exchange(other.num_alike_, 0)),
      adapters_(std::move(other.adapters_)) {}

PrefixCache::Pin& PrefixCache::Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    Reset();
    cache_ = std::exchange(other.cache_, nullptr);
    last_ = other.last_;
    keeps_state_ = std::exchange(other.keeps_state_, false);
    num_pages_ = std::exchange(other.num_pages_, 0);
    num_alike_ = std::exchange(other.num_alike_, 0);
    adapters_ = std::move(other.adapters_);
  }
  return *this;
}

void PrefixCache::Pin::Reset() {
  if (std::exchange(keeps_state_, false)) cache_->ReleaseState(last_);
  if (cache_ != nullptr) std::exchange(cache_, nullptr)->Release(last_);
  num_pages_ = 0;
  num_alike_ = 0;
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

PrefixCache::Beginning PrefixCache::Find(const PrefixSource& source,
                                         std::span<const int32_t> tokens) const {
  Beginning found;
  const auto root = roots_.find(source.tenant);
  if (root == roots_.end()) return found;
  size_t num_pages = 0;
  Walk(root->second, source.adapters, tokens, [&](const Node& node) {
    found.pages.push_back(node.page.id());
    if (CanEndWith(node)) num_pages = found.pages.size();
  });
  found.num_alike = std::ssize(found.pages);
  found.pages.resize(num_pages);
  return found;
}

PrefixCache::Pin PrefixCache::Take(const PrefixSource& source, std::span<const int32_t> tokens,
                                   std::vector<PageRef>& pages) {
  const auto root = roots_.try_emplace(source.tenant).first;
  root->second.tenant = &root->first;
  Pin pin;
  pin.cache_ = this;
  pin.last_ = &root->second;
  pin.adapters_ = source.adapters;
  std::vector<PageRef> alike;
  Walk(*pin.last_, pin.adapters_, tokens, [&](Node& node) {
    alike.push_back(node.page.Share());
    if (!CanEndWith(node)) return;
    pin.last_ = &node;
    pin.num_pages_ = std::ssize(alike);
  });
  pin.num_alike_ = std::ssize(alike);
  pages.insert(pages.end(), std::move_iterator(alike.begin()),
               std::move_iterator(alike.begin() + pin.num_pages_));
  Use(pin.last_);
  if (State* const state = pin.last_->state.get()) {
    pin.keeps_state_ = true;
    if (state->num_users++ == 0) {
      state->offer.Withdraw();
      num_used_ += state_pages_;
    }
  }
  return pin;
}

std::vector<PageRef> PrefixCache::TakeState(Pin& pin, const Copy& copy) {
  std::vector<PageRef> taken;
  if (!pin.keeps_state_) return taken;
  State& state = *pin.last_->state;
  if (pool_.Allocate(state_pages_, PageUse::kKv, taken)) {
    copy(state.pages, taken);
    ReleaseState(pin.last_);
  } else {
    CHECK_EQ(state.num_users, 1);
    num_used_ -= state_pages_;
    taken = RemoveState(pin.last_);
  }
  pin.keeps_state_ = false;
  return taken;
}

void PrefixCache::Extend(Pin& pin, std::span<const int32_t> tokens, PageRef& page) {
  CHECK(pin.cache_ == this && !pin.keeps_state_);
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

void PrefixCache::KeepState(const Pin& pin, std::span<const PageRef> state, const Copy& copy) {
  CHECK(pin.cache_ == this && pin.num_pages_ > 0);
  CHECK_EQ(std::ssize(state), state_pages_);
  if (pin.last_->state != nullptr) return;
  auto kept = std::make_unique<State>();
  if (!pool_.Allocate(state_pages_, PageUse::kKv, kept->pages)) return;
  copy(state, kept->pages);
  pin.last_->state = std::move(kept);
  ++num_states_;
  OfferState(pin.last_);
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

template <typename Visit>
void PrefixCache::Walk(const Node& root, std::span<const AdapterFrom> adapters,
                       std::span<const int32_t> tokens, const Visit& visit) const {
  const Node* last = &root;
  int64_t num_pages = 0;
  while (Node* const node = FindChild(*last, num_pages, adapters, tokens)) {
    visit(*node);
    last = node;
    ++num_pages;
    tokens = tokens.subspan(page_tokens_);
  }
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
  if (num_states_ > 0) OfferStates(node);
  while (--node->num_users == 0 && node->parent != nullptr) {
    node->offer = pool_.Offer(1, [this, node] { Remove(node); });
    --num_used_;
    node = node->parent;
  }
  RemoveIfUnused(node);
}

void PrefixCache::OfferState(Node* node) {
  PageOffer& offer = node->state->offer;
  offer.Withdraw();
  offer = pool_.Offer(state_pages_, [this, node] { RemoveState(node); });
}

void PrefixCache::OfferStates(Node* node) {
  std::vector<Node*> with_states;
  for (; node->num_users == 1 && node->parent != nullptr; node = node->parent) {
    if (node->state != nullptr) with_states.push_back(node);
  }
  for (auto it = with_states.rbegin(); it != with_states.rend(); ++it) OfferState(*it);
}

void PrefixCache::ReleaseState(Node* node) {
  CHECK_GT(node->state->num_users, 0);
  if (--node->state->num_users > 0) return;
  num_used_ -= state_pages_;
  OfferState(node);
}

std::vector<PageRef> PrefixCache::RemoveState(Node* node) {
  node->state->offer.Withdraw();
  std::vector<PageRef> pages = std::move(node->state->pages);
  node->state.reset();
  --num_states_;
  return pages;
}

void PrefixCache::Remove(Node* node) {
  CHECK(node->children.empty());
  CHECK(node->state == nullptr);
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
