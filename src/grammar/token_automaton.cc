#include "grammar/token_automaton.h"

#include <algorithm>

#include "base/strings.h"

namespace aril::grammar {

void TokenAutomaton::Bound() {
  const bool is_large = automaton_->size_bytes() > max_state_bytes_;
  if (is_large || set_bytes_ > kMaxSetBytes) {
    sets_.clear();
    set_bytes_ = 0;
  }
  if (!is_large) return;
  automaton_.emplace(grammar_);
  ++epoch_;
  max_state_bytes_ = std::min(2 * max_state_bytes_, kMaxStateBytes);
}

StatusOr<const TokenSet*> TokenAutomaton::TokensAt(Automaton::State state) {
  const auto known = sets_.find(state);
  if (known != sets_.end()) return &known->second;
  ASSIGN_OR_RETURN(TokenSet set, table_.TokensAt(*automaton_, state));
  set_bytes_ += set.size() * sizeof(uint64_t);
  return &sets_.emplace(state, std::move(set)).first->second;
}

TokenMatcher::TokenMatcher(StatusOr<std::shared_ptr<TokenAutomaton>> automaton)
    : status_(automaton.status()) {
  if (automaton.ok()) automaton_ = *std::move(automaton);
}

Automaton::State TokenMatcher::Current() {
  if (epoch_ == automaton_->epoch()) return state_;
  Automaton& automaton = automaton_->automaton();
  epoch_ = automaton_->epoch();
  state_ = automaton.start();
  for (const char byte : text_) {
    if (state_ == Automaton::kDead) break;
    state_ = automaton.Next(state_, static_cast<uint8_t>(byte));
  }
  return state_;
}

Status TokenMatcher::Accept(int32_t token) {
  RETURN_IF_ERROR(status_);
  Automaton::State state = Current();
  const std::string_view text = automaton_->table().Text(token);
  for (const char byte : text) {
    if (state != Automaton::kDead) {
      state = automaton_->automaton().Next(state, static_cast<uint8_t>(byte));
    }
  }
  if (text.empty() || state == Automaton::kDead) {
    status_ = InvalidArgument(StrCat("token ", token, " after ", text_.size(),
                                     " bytes is none that the request's format allows"));
    return status_;
  }
  text_ += text;
  state_ = state;
  return OkStatus();
}

bool TokenMatcher::HasEnded() {
  if (!status_.ok()) return false;
  const Automaton::State state = Current();
  const Automaton& automaton = automaton_->automaton();
  return state != Automaton::kDead && automaton.IsComplete(state) && !automaton.HasNext(state);
}

StatusOr<TokenSet> TokenMatcher::Allowed(std::span<const int32_t> stop_tokens) {
  RETURN_IF_ERROR(status_);
  automaton_->Bound();
  const Automaton::State state = Current();
  if (state == Automaton::kDead) return automaton_->automaton().status();
  ASSIGN_OR_RETURN(const TokenSet* const found, automaton_->TokensAt(state));
  TokenSet allowed = *found;
  if (automaton_->automaton().IsComplete(state)) {
    for (const int32_t token : stop_tokens) {
      if (token >= 0 && token < automaton_->table().size()) Insert(token, &allowed);
    }
  }
  if (std::ranges::all_of(allowed, [](uint64_t word) { return word == 0; })) {
    return InvalidArgument(StrCat("no token can follow after ", text_.size(),
                                  " bytes: the vocabulary has none that the request's format "
                                  "allows there"));
  }
  return allowed;
}

}  // namespace aril::grammar
