// Searching, replacing and splitting of text, on the budget.

#ifndef ARIL_JINJA_SPLIT_H_
#define ARIL_JINJA_SPLIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

// The byte where `needle` occurs last; npos if nowhere.
StatusOr<size_t> FindLast(Runtime* runtime, std::string_view text, std::string_view needle);

// str.replace: the first `max_count` occurrences, all if it is negative.
StatusOr<std::string> Replace(Runtime* runtime, std::string_view text, std::string_view old_text,
                              std::string_view new_text, int64_t max_count);

// str.split and str.rsplit: at white space if there is no separator; at most `max_splits` times if
// that is not negative. The parts refer to `text`.
StatusOr<std::vector<std::string_view>> Split(Runtime* runtime, std::string_view text,
                                              std::optional<std::string_view> separator,
                                              int64_t max_splits, bool from_right);

StatusOr<Value> NewListOfTexts(Runtime* runtime, const std::vector<std::string_view>& texts);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_SPLIT_H_
