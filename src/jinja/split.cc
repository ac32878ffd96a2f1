#include "jinja/split.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

using Parts = std::vector<std::string_view>;

// Where the last code point of `text` begins.
size_t LastCodePoint(std::string_view text) {
  size_t pos = text.size() - 1;
  while ((static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80) --pos;
  return pos;
}

size_t WordEnd(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    if (IsSpace(NextCodePoint(text, &pos))) return begin;
  }
  return text.size();
}

size_t WordBegin(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t last = LastCodePoint(text.substr(0, begin));
    size_t pos = last;
    if (IsSpace(NextCodePoint(text, &pos))) break;
    begin = last;
  }
  return begin;
}

Status AddPart(Runtime* runtime, std::string_view part, Parts* parts) {
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(sizeof(std::string_view)));
  parts->push_back(part);
  return OkStatus();
}

StatusOr<Parts> SplitWords(Runtime* runtime, std::string_view text, int64_t max_splits) {
  Parts parts;
  for (text = StripLeft(text); !text.empty(); text = StripLeft(text)) {
    const bool is_rest = static_cast<int64_t>(parts.size()) == max_splits;
    const size_t end = is_rest ? text.size() : WordEnd(text);
    RETURN_IF_ERROR(AddPart(runtime, text.substr(0, end), &parts));
    text.remove_prefix(end);
  }
  return parts;
}

StatusOr<Parts> SplitWordsFromRight(Runtime* runtime, std::string_view text, int64_t max_splits) {
  Parts parts;
  for (text = StripRight(text); !text.empty(); text = StripRight(text)) {
    const bool is_rest = static_cast<int64_t>(parts.size()) == max_splits;
    const size_t begin = is_rest ? 0 : WordBegin(text);
    RETURN_IF_ERROR(AddPart(runtime, text.substr(begin), &parts));
    text = text.substr(0, begin);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

StatusOr<Parts> SplitAt(Runtime* runtime, std::string_view text, std::string_view separator,
                        int64_t max_splits) {
  Parts parts;
  while (static_cast<int64_t>(parts.size()) != max_splits) {
    // Each search prepares the separator anew.
    RETURN_IF_ERROR(runtime->budget().ChargeScan(separator.size()));
    const size_t found = FindText(text, separator);
    if (found == std::string_view::npos) break;
    RETURN_IF_ERROR(AddPart(runtime, text.substr(0, found), &parts));
    text.remove_prefix(found + separator.size());
  }
  RETURN_IF_ERROR(AddPart(runtime, text, &parts));
  return parts;
}

StatusOr<Parts> SplitAtFromRight(Runtime* runtime, std::string_view text,
                                 std::string_view separator, int64_t max_splits) {
  Parts parts;
  while (static_cast<int64_t>(parts.size()) != max_splits) {
    const size_t found = text.rfind(separator);
    if (found == std::string_view::npos) break;
    RETURN_IF_ERROR(AddPart(runtime, text.substr(found + separator.size()), &parts));
    text = text.substr(0, found);
  }
  RETURN_IF_ERROR(AddPart(runtime, text, &parts));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// What rfind may compare: every place with the whole needle.
Status ChargeBackwardSearch(Runtime* runtime, size_t text_size, size_t needle_size) {
  const size_t comparisons = text_size / 64 + 1;
  if (needle_size > 0 && comparisons > SIZE_MAX / 2 / needle_size) {
    return runtime->budget().ChargeSteps(INT64_MAX);
  }
  return runtime->budget().ChargeSteps(static_cast<int64_t>(comparisons * needle_size));
}

// An empty text is "found" before each code point and at the end.
StatusOr<std::string> Interleave(Runtime* runtime, std::string_view text, std::string_view inserted,
                                 int64_t max_count) {
  std::string out;
  size_t pos = 0;
  for (int64_t count = 0; count != max_count; ++count) {
    RETURN_IF_ERROR(AppendText(runtime, inserted, &out));
    RETURN_IF_ERROR(runtime->budget().ChargeSteps());
    if (pos == text.size()) break;
    const size_t begin = pos;
    NextCodePoint(text, &pos);
    out += text.substr(begin, pos - begin);
  }
  return out + std::string(text.substr(pos));
}

}  // namespace

StatusOr<size_t> FindLast(Runtime* runtime, std::string_view text, std::string_view needle) {
  RETURN_IF_ERROR(ChargeBackwardSearch(runtime, text.size(), needle.size()));
  return text.rfind(needle);
}

StatusOr<std::string> Replace(Runtime* runtime, std::string_view text, std::string_view old_text,
                              std::string_view new_text, int64_t max_count) {
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(text.size()));
  if (max_count == 0) return std::string(text);
  if (old_text.empty()) return Interleave(runtime, text, new_text, max_count);
  std::string out;
  size_t pos = 0;
  for (int64_t count = 0; count != max_count; ++count) {
    // Each search prepares the needle anew.
    RETURN_IF_ERROR(runtime->budget().ChargeScan(old_text.size()));
    const size_t found = FindText(text, old_text, pos);
    if (found == std::string_view::npos) break;
    out += text.substr(pos, found - pos);
    RETURN_IF_ERROR(AppendText(runtime, new_text, &out));
    pos = found + old_text.size();
  }
  return out.append(text.substr(pos));
}

StatusOr<Parts> Split(Runtime* runtime, std::string_view text,
                      std::optional<std::string_view> separator, int64_t max_splits,
                      bool from_right) {
  RETURN_IF_ERROR(runtime->budget().ChargeScan(text.size()));
  if (!separator) {
    RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(text.size()));
    return from_right ? SplitWordsFromRight(runtime, text, max_splits)
                      : SplitWords(runtime, text, max_splits);
  }
  if (separator->empty()) return FailedPrecondition("empty separator");
  if (!from_right) return SplitAt(runtime, text, *separator, max_splits);
  RETURN_IF_ERROR(ChargeBackwardSearch(runtime, text.size(), separator->size()));
  return SplitAtFromRight(runtime, text, *separator, max_splits);
}

StatusOr<Value> NewListOfTexts(Runtime* runtime, const Parts& texts) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (const std::string_view text : texts) {
    ASSIGN_OR_RETURN(Value item, runtime->NewString(std::string(text)));
    items.push_back(std::move(item));
  }
  return runtime->NewList(std::move(items));
}

}  // namespace aril::jinja
