#include "apps/text_table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace aril {

std::string Decimal(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string AlignColumns(const std::vector<std::vector<std::string>>& lines,
                         size_t num_text_columns) {
  std::ostringstream out;
  for (const std::vector<std::string>& line : lines) {
    for (size_t column = 0; column < line.size(); ++column) {
      size_t width = 0;
      for (const auto& other : lines) width = std::max(width, other[column].size());
      out << (column == 0 ? "" : "  ") << (column < num_text_columns ? std::left : std::right)
          << std::setw(static_cast<int>(width)) << line[column];
    }
    out << "\n";
  }
  return out.str();
}

}  // namespace aril
