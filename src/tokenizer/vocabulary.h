// The tokens of a model and their ids, both ways.

#ifndef ARIL_TOKENIZER_VOCABULARY_H_
#define ARIL_TOKENIZER_VOCABULARY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace aril {

class Vocabulary {
 public:
  // Four times the largest vocabulary in use (262,144); what a file may make us allocate.
  static constexpr int64_t kMaxIds = int64_t{1} << 20;
  static constexpr size_t kMaxTokenBytes = 1 << 12;  // real ones: at most some hundred

  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // InvalidArgument if the id is out of bounds or taken, or the token is too long or known under
  // another id. Adding the same pair again changes nothing.
  Status Add(std::string_view token, int64_t id);

  std::optional<int32_t> Find(std::string_view token) const;

  // nullptr if no token has this id.
  const std::string* Token(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() ? tokens_[id] : nullptr;
  }

  // One more than the largest id.
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
  };

  // The map owns the strings; its nodes never move.
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // by id; nullptr where an id is unused
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_VOCABULARY_H_
