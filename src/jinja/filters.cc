#include "jinja/filters.h"

#include <algorithm>
#include <array>

namespace aril::jinja {

const Function* FindFilter(std::string_view name) {
  for (const auto table : {TextFilters(), NumberFilters(), SequenceFilters(), SelectionFilters(),
                           ConversionFilters()}) {
    for (const Function& filter : table) {
      if (filter.name == name) return &filter;
    }
  }
  return nullptr;
}

bool IsUnsupportedFilter(std::string_view name) {
  // No prompt has a use for them, and `random` would make two renders differ.
  static constexpr std::array<std::string_view, 5> kNames = {"pprint", "random", "striptags",
                                                             "urlize", "wordwrap"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace aril::jinja
