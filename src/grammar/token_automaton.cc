#include "grammar/token_automaton.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings.h"

namespace aril::grammar {

TokenAutomaton::TokenAutomaton(Grammar grammar, const TokenTable& table,
                               std::shared_ptr<FormatMemory> memory)
    : automaton_(std::move(grammar)),
      table_(table),
      memory_(std::move(memory)),
      grammar_bytes_(static_cast<int64_t>(automaton_.grammar().size_bytes())) {
  memory_->AddGrammarBytes(grammar_bytes_);
}

TokenAutomaton::~TokenAutomaton() {
  memory_->AddGrammarBytes(-grammar_bytes_);
  if (has_begun_) memory_->AddAutomata(-1);
}

StatusOr<const TokenSet*> TokenAutomaton::TokensAt(Automaton::State state, int64_t* work) {
  const auto known = sets_.find(state);
  if (known != sets_.end()) return &known->second;
  ASSIGN_OR_RETURN(TokenSet set, table_.TokensAt(automaton_, state, work));
  set_bytes_ += set.size() * sizeof(uint64_t);
  return &sets_.emplace(state, std::move(set)).first->second;
}

void TokenAutomaton::Bound() {
  const size_t part = memory_->MaxBytesOfEach();
  const bool is_large = automaton_.size_bytes() > std::min(kMaxStateBytes, part);
  if (is_large || set_bytes_ > std::min(kMaxSetBytes, part)) {
    sets_.clear();
    set_bytes_ = 0;
  }
  if (!is_large) return;
  const std::vector<Automaton::State*> positions(positions_.begin(), positions_.end());
  automaton_.Forget(positions);
}

void TokenAutomaton::Add(Automaton::State* position) {
  if (!std::exchange(has_begun_, true)) memory_->AddAutomata(1);
  positions_.insert(position);
}

TokenMatcher::TokenMatcher(std::shared_ptr<TokenAutomaton> automaton,
                           std::span<const int32_t> tokens)
    : automaton_(std::move(automaton)), unread_(tokens.begin(), tokens.end()) {}

TokenMatcher::~TokenMatcher() {
  if (!has_begun_) return;
  automaton_->Remove(&state_);
  automaton_->Bound();
}

bool TokenMatcher::FindsAtOnce() const {
  if (HasFound()) return true;
  return unread_.empty() &&
         automaton_->KnowsTokensAt(has_begun_ ? state_ : automaton_->automaton().start());
}

void TokenMatcher::Find(int64_t* work) {
  Begin();
  while (!HasFound() && *work > 0) {
    int64_t done = 0;
    if (unread_.empty()) {
      const auto found = automaton_->TokensAt(state_, &done);
      status_ = found.status();
      if (found.ok()) found_ = **found;
    } else {
      done = ReadNext();
    }
    *work -= done;
  }
}

StatusOr<TokenSet> TokenMatcher::TakeAllowed(std::span<const int32_t> stop_tokens) {
  CHECK(HasFound());
  RETURN_IF_ERROR(status_);
  return AllowedAt(state_, *std::exchange(found_, std::nullopt), num_bytes_, stop_tokens);
}

StatusOr<TokenSet> TokenMatcher::AllowedAt(Automaton::State state, TokenSet found,
                                           int64_t num_bytes,
                                           std::span<const int32_t> stop_tokens) const {
  if (automaton_->automaton().IsComplete(state)) {
    for (const int32_t token : stop_tokens) {
      CHECK_GE(token, 0);
      found.resize(std::max(found.size(), static_cast<size_t>(token) / 64 + 1));
      Insert(token, &found);
    }
  }
  if (std::ranges::all_of(found, [](uint64_t word) { return word == 0; })) {
    return InvalidArgument(StrCat("no token can follow after ", num_bytes,
                                  " bytes: the vocabulary has none that the request's format "
                                  "allows there"));
  }
  return found;
}

std::vector<Automaton::State> TokenMatcher::StatesAhead(std::span<const int32_t> tokens,
                                                        int64_t* work) const {
  std::vector<Automaton::State> states;
  if (!has_begun_ || !unread_.empty() || !status_.ok()) return states;
  const Automaton& automaton = automaton_->automaton();
  Automaton::State state = state_;
  for (const int32_t token : tokens) {
    if (*work <= 0) break;
    const int64_t work_before = automaton.work();
    state = Behind(state, token);
    *work -= automaton.work() - work_before + 1;
    if (!Automaton::IsState(state) || !automaton_->KnowsTokensAt(state)) break;
    states.push_back(state);
  }
  return states;
}

int64_t TokenMatcher::CountAhead(std::span<const int32_t> tokens, int64_t* work) const {
  return std::ssize(StatesAhead(tokens, work));
}

std::vector<StatusOr<TokenSet>> TokenMatcher::LookAhead(std::span<const int32_t> tokens,
                                                        std::span<const int32_t> stop_tokens,
                                                        int64_t* work) const {
  std::vector<StatusOr<TokenSet>> ahead;
  int64_t num_bytes = num_bytes_;
  for (const Automaton::State state : StatesAhead(tokens, work)) {
    int64_t none = 0;
    const StatusOr<const TokenSet*> found = automaton_->TokensAt(state, &none);
    CHECK(found.ok());
    num_bytes += std::ssize(automaton_->table().Text(tokens[ahead.size()]));
    ahead.push_back(AllowedAt(state, **found, num_bytes, stop_tokens));
  }
  return ahead;
}

Status TokenMatcher::Accept(int32_t token) {
  Begin();
  found_.reset();
  unread_.push_back(token);
  while (!unread_.empty() && status_.ok()) ReadNext();
  return status_;
}

bool TokenMatcher::HasEnded() const {
  if (!status_.ok() || !has_begun_ || !unread_.empty()) return false;
  const Automaton& automaton = automaton_->automaton();
  return automaton.IsComplete(state_) && !automaton.HasNext(state_);
}

void TokenMatcher::Begin() {
  if (std::exchange(has_begun_, true)) return;
  state_ = automaton_->automaton().start();
  automaton_->Add(&state_);
}

int64_t TokenMatcher::ReadNext() {
  const Automaton& automaton = automaton_->automaton();
  const int64_t work_before = automaton.work();
  const int32_t token = unread_.front();
  unread_.pop_front();
  const Automaton::State state = Behind(state_, token);
  if (Automaton::IsState(state)) {
    num_bytes_ += static_cast<int64_t>(automaton_->table().Text(token).size());
    state_ = state;
  } else {
    status_ = InvalidArgument(StrCat("token ", token, " after ", num_bytes_,
                                     " bytes is none that the request's format allows"));
  }
  return automaton.work() - work_before + 1;
}

Automaton::State TokenMatcher::Behind(Automaton::State state, int32_t token) const {
  const std::string_view text = automaton_->table().Text(token);
  if (text.empty()) return Automaton::kDead;
  for (const char byte : text) {
    if (!Automaton::IsState(state)) break;
    state = automaton_->automaton().Next(state, static_cast<uint8_t>(byte));
  }
  return state;
}

}  // namespace aril::grammar
