#include "base/utf8.h"

#include "base/check.h"

namespace aril {
namespace {

// The well-formed sequences by their first byte (The Unicode Standard, table 3-7): how long they
// are and what the second byte may be; every later byte is 80..BF.
struct LeadByte {
  uint32_t size_bytes;  // 0: not a first byte
  uint8_t second_low;
  uint8_t second_high;
};

LeadByte ClassifyLead(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// `invalid_unit_is_byte`: what one U+FFFD stands for, a single byte or a maximal subpart.
std::string ReplaceInvalid(std::string_view text, bool invalid_unit_is_byte) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Unit unit = ReadUtf8(text, pos);
    const bool valid = unit.kind == Utf8Unit::Kind::kValid;
    if (valid) {
      out.append(text.substr(pos, unit.size_bytes));
    } else {
      AppendUtf8(kReplacementCharacter, &out);
    }
    pos += valid || !invalid_unit_is_byte ? unit.size_bytes : 1;
  }
  return out;
}

}  // namespace

Utf8Unit ReadUtf8(std::string_view text, size_t pos) {
  DCHECK(pos < text.size());
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[pos + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1, Utf8Unit::Kind::kValid};
  const LeadByte lead = ClassifyLead(first);
  if (lead.size_bytes == 0) return {kReplacementCharacter, 1, Utf8Unit::Kind::kInvalid};
  char32_t code_point = first & (0x7F >> lead.size_bytes);
  for (uint32_t i = 1; i < lead.size_bytes; ++i) {
    if (pos + i == text.size()) return {kReplacementCharacter, i, Utf8Unit::Kind::kTruncated};
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte(i) < low || byte(i) > high) {
      return {kReplacementCharacter, i, Utf8Unit::Kind::kInvalid};
    }
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  return {code_point, lead.size_bytes, Utf8Unit::Kind::kValid};
}

char32_t NextCodePoint(std::string_view text, size_t* pos) {
  const Utf8Unit unit = ReadUtf8(text, *pos);
  *pos += unit.size_bytes;
  return unit.code_point;
}

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool IsValidUtf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Unit unit = ReadUtf8(text, pos);
    if (unit.kind != Utf8Unit::Kind::kValid) return false;
    pos += unit.size_bytes;
  }
  return true;
}

std::string ReplaceInvalidBytes(std::string_view text) { return ReplaceInvalid(text, true); }

std::string LossyUtf8(std::string_view text) { return ReplaceInvalid(text, false); }

size_t TruncatedTailBytes(std::string_view text) {
  const size_t reach = text.size() < 3 ? text.size() : 3;
  for (size_t tail = reach; tail > 0; --tail) {
    const Utf8Unit unit = ReadUtf8(text, text.size() - tail);
    if (unit.kind == Utf8Unit::Kind::kTruncated && unit.size_bytes == tail) return tail;
  }
  return 0;
}

}  // namespace aril
