#include "gateway/text.h"

#include <algorithm>
#include <cstdint>

#include "grammar/free_text.h"

namespace aril::gateway {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char LowerAscii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsContinuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

struct Parameter {
  std::string_view name, value;
};

// The first of a query that is not empty, which is shorter by it then.
Parameter TakeParameter(std::string_view* query) {
  const std::string_view parameter = query->substr(0, query->find('&'));
  query->remove_prefix(std::min(parameter.size() + 1, query->size()));
  const size_t name_end = std::min(parameter.find('='), parameter.size());
  return {.name = parameter.substr(0, name_end),
          .value = parameter.substr(std::min(name_end + 1, parameter.size()))};
}

}  // namespace

size_t CountCodePoints(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigit(text[i + 1]);
    const int low = HexDigit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

std::optional<std::string> FindQueryParameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const Parameter parameter = TakeParameter(&query);
    if (parameter.name != name) continue;
    return PercentDecode(parameter.value).value_or(std::string(parameter.value));
  }
  return std::nullopt;
}

std::optional<std::string_view> FindOtherParameter(std::string_view query,
                                                   std::span<const std::string_view> names) {
  while (!query.empty()) {
    const Parameter parameter = TakeParameter(&query);
    if (parameter.name.empty() && parameter.value.empty()) continue;  // "a=1&"
    if (std::ranges::find(names, parameter.name) == names.end()) return parameter.name;
  }
  return std::nullopt;
}

std::string_view StripLeft(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(grammar::kSpaces), text.size()));
}

std::string_view StripRight(std::string_view text) {
  return text.substr(0, text.find_last_not_of(grammar::kSpaces) + 1);
}

size_t NumBegun(std::string_view text, std::string_view word) {
  for (size_t size = std::min(text.size(), word.size() - 1); size > 0; --size) {
    if (word.starts_with(text.substr(text.size() - size))) return size;
  }
  return 0;
}

std::string_view TrimBlanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return LowerAscii(x) == LowerAscii(y); });
}

}  // namespace aril::gateway
