// Tables of plain text.

#ifndef ARIL_APPS_TEXT_TABLE_H_
#define ARIL_APPS_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace aril {

// "3.14"
std::string Decimal(double value, int digits);

// A line for each of `lines`, which have as many cells each: the first `num_text_columns` columns
// to the left, the others, numbers, to the right.
std::string AlignColumns(const std::vector<std::vector<std::string>>& lines,
                         size_t num_text_columns);

}  // namespace aril

#endif  // ARIL_APPS_TEXT_TABLE_H_
