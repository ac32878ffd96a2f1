// Small text helpers (C++20 of GCC 12 has no <format>).

#ifndef ARIL_BASE_STRINGS_H_
#define ARIL_BASE_STRINGS_H_

#include <sstream>
#include <string>
#include <string_view>

namespace aril {

// The arguments printed one after the other, as by operator<<.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::ostringstream out;
  out << std::boolalpha;
  (out << ... << args);
  return out.str();
}

// The items of a container with `separator` between them.
template <typename Container>
std::string Join(const Container& items, std::string_view separator) {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out << separator;
    out << item;
    first = false;
  }
  return out.str();
}

}  // namespace aril

#endif  // ARIL_BASE_STRINGS_H_
