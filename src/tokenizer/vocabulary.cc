#include "tokenizer/vocabulary.h"

#include "base/json.h"
#include "base/strings.h"

namespace aril {

Status Vocabulary::Add(std::string_view token, int64_t id) {
  if (id < 0 || id >= kMaxIds) {
    return InvalidArgument(StrCat("token ", JsonQuote(token.substr(0, 100)), " has id ", id,
                                  ", outside of [0, ", kMaxIds, ")"));
  }
  if (token.size() > kMaxTokenBytes) {
    return InvalidArgument(StrCat("the token of id ", id, " has ", token.size(),
                                  " bytes, more than ", kMaxTokenBytes));
  }
  const auto [entry, added] = ids_.try_emplace(std::string(token), static_cast<int32_t>(id));
  if (!added) {
    if (entry->second == id) return OkStatus();
    return InvalidArgument(StrCat("token ", JsonQuote(token.substr(0, 100)), " has two ids, ",
                                  entry->second, " and ", id));
  }
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1, nullptr);
  if (tokens_[id] != nullptr) {
    const std::string message = StrCat("id ", id, " has two tokens, ", JsonQuote(*tokens_[id]),
                                       " and ", JsonQuote(token.substr(0, 100)));
    ids_.erase(entry);
    return InvalidArgument(message);
  }
  tokens_[id] = &entry->first;
  return OkStatus();
}

std::optional<int32_t> Vocabulary::Find(std::string_view token) const {
  const auto entry = ids_.find(token);
  if (entry == ids_.end()) return std::nullopt;
  return entry->second;
}

}  // namespace aril
