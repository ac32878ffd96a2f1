#include "grammar/format_cache.h"

#include <algorithm>

#include "grammar/compile.h"

namespace aril::grammar {

StatusOr<std::shared_ptr<TokenAutomaton>> FormatCache::Get(const wire::OutputFormat& format) {
  if (table_ == nullptr) {
    return FailedPrecondition("formats cannot be kept to here: the texts of tokens are not known");
  }
  const auto is_it = [&](const Entry& entry) { return entry.format == format; };
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(entries_, is_it);
    if (found != entries_.end()) {
      std::rotate(found, found + 1, entries_.end());
      return entries_.back().automaton;
    }
  }
  ASSIGN_OR_RETURN(Grammar grammar, Compile(format));
  const std::lock_guard lock(mutex_);
  // Somebody else may have been quicker.
  const auto found = std::ranges::find_if(entries_, is_it);
  if (found != entries_.end()) return found->automaton;
  DropUnused(kMaxKept - 1);
  if (!memory_->HasRoomForGrammar(grammar.size_bytes())) DropUnused(0);
  if (!memory_->HasRoomForGrammar(grammar.size_bytes())) {
    return Unavailable("formats of other requests take all the memory that there is for them");
  }
  auto automaton = std::make_shared<TokenAutomaton>(std::move(grammar), *table_, memory_);
  if (!Automaton::IsState(automaton->automaton().start())) {
    return InvalidArgument("it can begin in too many ways");
  }
  entries_.push_back({format, automaton});
  return automaton;
}

void FormatCache::DropUnused(size_t max_kept) {
  for (auto entry = entries_.begin(); entry != entries_.end() && entries_.size() > max_kept;) {
    entry = entry->automaton.use_count() == 1 ? entries_.erase(entry) : entry + 1;
  }
}

}  // namespace aril::grammar
