// Jinja's built-in filters, with transformers' `tojson`.

#ifndef ARIL_JINJA_FILTERS_H_
#define ARIL_JINJA_FILTERS_H_

#include <span>
#include <string_view>

#include "jinja/function.h"

namespace aril::jinja {

// nullptr if there is no such filter.
const Function* FindFilter(std::string_view name);
// Whether Jinja has this filter although FindFilter does not.
bool IsUnsupportedFilter(std::string_view name);

// The parts of the table, by file.
std::span<const Function> TextFilters();
std::span<const Function> NumberFilters();
std::span<const Function> SequenceFilters();
std::span<const Function> SelectionFilters();
std::span<const Function> ConversionFilters();

}  // namespace aril::jinja

#endif  // ARIL_JINJA_FILTERS_H_
