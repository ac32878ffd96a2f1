#include "grammar/token_automaton.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"

namespace aril::grammar {

StatusOr<const TokenSet*> TokenAutomaton::TokensAt(Automaton::State state) {
  const auto known = sets_.find(state);
  if (known != sets_.end()) return &known->second;
  ASSIGN_OR_RETURN(TokenSet set, table_.TokensAt(automaton_, state));
  set_bytes_ += set.size() * sizeof(uint64_t);
  return &sets_.emplace(state, std::move(set)).first->second;
}

void TokenAutomaton::Bound() {
  const size_t part = count_->MaxBytesOfEach();
  const bool is_large = automaton_.size_bytes() > std::min(kMaxStateBytes, part);
  if (is_large || set_bytes_ > std::min(kMaxSetBytes, part)) {
    sets_.clear();
    set_bytes_ = 0;
  }
  if (!is_large) return;
  const std::vector<Automaton::State*> positions(positions_.begin(), positions_.end());
  automaton_.Forget(positions);
}

TokenMatcher::TokenMatcher(StatusOr<std::shared_ptr<TokenAutomaton>> automaton)
    : status_(automaton.status()) {
  if (!automaton.ok()) return;
  automaton_ = *std::move(automaton);
  state_ = automaton_->automaton().start();
  automaton_->Add(&state_);
}

TokenMatcher::~TokenMatcher() {
  if (automaton_ != nullptr) automaton_->Remove(&state_);
}

Status TokenMatcher::Accept(int32_t token) {
  RETURN_IF_ERROR(status_);
  automaton_->Bound();
  const std::string_view text = automaton_->table().Text(token);
  Automaton::State state = text.empty() ? Automaton::kDead : state_;
  for (const char byte : text) {
    if (!Automaton::IsState(state)) break;
    state = automaton_->automaton().Next(state, static_cast<uint8_t>(byte));
  }
  if (!Automaton::IsState(state)) {
    status_ = InvalidArgument(StrCat("token ", token, " after ", num_bytes_,
                                     " bytes is none that the request's format allows"));
    return status_;
  }
  num_bytes_ += static_cast<int64_t>(text.size());
  state_ = state;
  return OkStatus();
}

bool TokenMatcher::HasEnded() const {
  if (!status_.ok() || !Automaton::IsState(state_)) return false;
  const Automaton& automaton = automaton_->automaton();
  return automaton.IsComplete(state_) && !automaton.HasNext(state_);
}

StatusOr<TokenSet> TokenMatcher::Allowed(std::span<const int32_t> stop_tokens) {
  RETURN_IF_ERROR(status_);
  if (!Automaton::IsState(state_)) {
    return InvalidArgument("the request's format can begin in too many ways");
  }
  ASSIGN_OR_RETURN(const TokenSet* const found, automaton_->TokensAt(state_));
  TokenSet allowed = *found;
  const bool is_complete = automaton_->automaton().IsComplete(state_);
  automaton_->Bound();
  if (is_complete) {
    for (const int32_t token : stop_tokens) {
      if (token >= 0 && token < automaton_->table().size()) Insert(token, &allowed);
    }
  }
  if (std::ranges::all_of(allowed, [](uint64_t word) { return word == 0; })) {
    return InvalidArgument(StrCat("no token can follow after ", num_bytes_,
                                  " bytes: the vocabulary has none that the request's format "
                                  "allows there"));
  }
  return allowed;
}

}  // namespace aril::grammar
