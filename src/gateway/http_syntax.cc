#include "gateway/http_syntax.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/strings.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsAlphanumeric(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsOneOf(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

// Neither a control character nor, in a target, what must be percent-encoded (RFC 3986, section 2).
bool IsTargetByte(char c) { return c > ' ' && c < 0x7f && !IsOneOf(c, "\"#<>\\^`{|}"); }

// unreserved, sub-delims and pct-encoded (RFC 3986, section 3.2.2).
bool IsRegisteredNameByte(char c) { return IsAlphanumeric(c) || IsOneOf(c, "-._~!$&'()*+,;=%"); }

// Tab, space, visible characters and obs-text (RFC 9110, section 5.5). A bare CR or LF, which some
// take for the end of the line, is none of these.
bool IsFieldByte(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
}

template <typename Predicate>
bool All(std::string_view text, Predicate predicate) {
  return std::all_of(text.begin(), text.end(), predicate);
}

// A byte as an error message shows it.
std::string Quote(char c) {
  if (c > ' ' && c < 0x7f) return StrCat("`", c, "`");
  static constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return StrCat("byte 0x", kDigits[byte >> 4], kDigits[byte & 15]);
}

// The first byte of `text` that `predicate` does not hold for.
template <typename Predicate>
std::string QuoteFirstNot(std::string_view text, Predicate predicate) {
  return Quote(*std::find_if_not(text.begin(), text.end(), predicate));
}

std::optional<uint64_t> ParseNumber(std::string_view text, int base) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [number_end, error] = std::from_chars(text.data(), end, number, base);
  if (text.empty() || number_end != end) return std::nullopt;
  return error == std::errc::result_out_of_range ? UINT64_MAX : number;
}

// HTTP-version (RFC 9112, section 2.3). A later minor version is answered as 1.1 (RFC 9110, section
// 2.5).
ApiResult<int> ParseMinorVersion(std::string_view version) {
  static constexpr std::string_view kName = "HTTP/";
  const bool is_version = version.size() == 8 && version.substr(0, 5) == kName &&
                          IsDigit(version[5]) && version[6] == '.' && IsDigit(version[7]);
  if (!is_version) return MalformedRequest("its first line does not end with `HTTP/1.1`");
  if (version[5] != '1') return TransportError(505, "This server speaks HTTP/1.1 only.");
  return version[7] == '0' ? 0 : 1;
}

struct Target {
  std::string_view path;
  std::string_view query;
};

// origin-form, absolute-form or asterisk-form (RFC 9112, section 3.2).
ApiResult<Target> ParseTarget(std::string_view method, std::string_view target) {
  if (target.empty()) return MalformedRequest("its target is empty");
  if (!All(target, IsTargetByte)) {
    return MalformedRequest(StrCat("its target has ", QuoteFirstNot(target, IsTargetByte),
                                   " in it, which must be percent-encoded"));
  }
  if (method == "OPTIONS" && target == "*") return Target{.path = target, .query = ""};
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!EqualsIgnoreCase(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t path_at = std::min(target.find_first_of("/?"), target.size());
    const std::string_view authority = target.substr(0, path_at);
    if (authority.empty() || !IsHost(authority)) return MalformedRequest("its target has no host");
    target.remove_prefix(path_at);
    if (target.empty()) return Target{.path = "/", .query = ""};
    if (target.front() == '?') return Target{.path = "/", .query = target.substr(1)};
    break;
  }
  if (target.front() != '/') return MalformedRequest("its target does not begin with `/`");
  const size_t path_end = std::min(target.find('?'), target.size());
  const size_t query_at = std::min(path_end + 1, target.size());
  return Target{.path = target.substr(0, path_end), .query = target.substr(query_at)};
}

// Takes `[ BWS "=" BWS ( token / quoted-string ) ]` from the front (RFC 9112, section 7.1.1).
bool TakeExtensionValue(std::string_view* text) {
  if (text->empty() || text->front() != '=') return true;
  text->remove_prefix(1);
  *text = TrimBlanks(*text);
  if (text->empty() || text->front() != '"') {
    const size_t size = static_cast<size_t>(
        std::find_if_not(text->begin(), text->end(), IsTokenByte) - text->begin());
    text->remove_prefix(size);
    return size > 0;
  }
  size_t end = 1;
  while (end < text->size() && (*text)[end] != '"') end += (*text)[end] == '\\' ? 2 : 1;
  if (end >= text->size()) return false;
  text->remove_prefix(end + 1);
  return true;
}

// *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
bool AreExtensions(std::string_view text) {
  for (text = TrimBlanks(text); !text.empty(); text = TrimBlanks(text)) {
    if (text.front() != ';') return false;
    text.remove_prefix(1);
    text = TrimBlanks(text);
    const auto name_end = std::find_if_not(text.begin(), text.end(), IsTokenByte);
    if (name_end == text.begin()) return false;
    text.remove_prefix(static_cast<size_t>(name_end - text.begin()));
    text = TrimBlanks(text);
    if (!TakeExtensionValue(&text)) return false;
  }
  return true;
}

}  // namespace

bool IsTokenByte(char c) { return IsAlphanumeric(c) || IsOneOf(c, "!#$%&'*+-.^_`|~"); }

bool IsToken(std::string_view text) { return !text.empty() && All(text, IsTokenByte); }

bool IsHost(std::string_view text) {
  size_t host_end = text.find(':');
  if (!text.empty() && text.front() == '[') {
    host_end = text.find(']');
    if (host_end == std::string_view::npos) return false;
    const auto is_address_byte = [](char c) { return IsHexDigit(c) || c == ':' || c == '.'; };
    if (!All(text.substr(1, host_end - 1), is_address_byte)) return false;
    ++host_end;
  } else if (!All(text.substr(0, host_end), IsRegisteredNameByte)) {
    return false;
  }
  if (host_end >= text.size()) return true;
  return text[host_end] == ':' && All(text.substr(host_end + 1), IsDigit);
}

ApiResult<RequestLine> ParseRequestLine(std::string_view line) {
  const size_t method_end = line.find(' ');
  if (!IsToken(line.substr(0, method_end))) {
    return MalformedRequest("its first line does not begin with a method");
  }
  const size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end == method_end) {
    return MalformedRequest("its first line is not `METHOD /path HTTP/1.1`");
  }
  const auto minor_version = ParseMinorVersion(line.substr(target_end + 1));
  if (!minor_version.ok()) return minor_version.error();
  const std::string_view method = line.substr(0, method_end);
  if (method == "CONNECT") return TransportError(501, "This server is no proxy.");
  const auto target = ParseTarget(method, line.substr(method_end + 1, target_end - method_end - 1));
  if (!target.ok()) return target.error();
  return RequestLine{.method = method,
                     .path = target.value().path,
                     .query = target.value().query,
                     .minor_version = minor_version.value()};
}

ApiResult<std::pair<std::string_view, std::string_view>> ParseFieldLine(std::string_view line) {
  // obs-fold: the only place where a line goes on (RFC 9112, section 5.2).
  if (!line.empty() && IsBlank(line.front())) {
    return MalformedRequest("a line of its header begins with a space");
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    return MalformedRequest("a line of its header has no colon");
  }
  // Space before the colon included (RFC 9112, section 5.1).
  const std::string_view name = line.substr(0, colon);
  if (name.empty()) return MalformedRequest("a line of its header begins with a colon");
  if (!IsToken(name)) {
    return MalformedRequest(
        StrCat("the name of a header field has ", QuoteFirstNot(name, IsTokenByte), " in it"));
  }
  const std::string_view value = line.substr(colon + 1);
  if (!All(value, IsFieldByte)) {
    return MalformedRequest(StrCat("the value of the header field `", name.substr(0, 100), "` has ",
                                   QuoteFirstNot(value, IsFieldByte), " in it"));
  }
  return std::pair(name, TrimBlanks(value));
}

std::vector<std::string_view> SplitList(std::string_view value) {
  std::vector<std::string_view> elements;
  while (!value.empty()) {
    const size_t end = std::min(value.find(','), value.size());
    const std::string_view element = TrimBlanks(value.substr(0, end));
    if (!element.empty()) elements.push_back(element);
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return elements;
}

std::optional<uint64_t> ParseDecimal(std::string_view text) {
  return All(text, IsDigit) ? ParseNumber(text, 10) : std::nullopt;
}

std::optional<uint64_t> ParseHexadecimal(std::string_view text) {
  return All(text, IsHexDigit) ? ParseNumber(text, 16) : std::nullopt;
}

ApiResult<uint64_t> ParseChunkLine(std::string_view line) {
  const auto digits_end = std::find_if_not(line.begin(), line.end(), IsHexDigit);
  const auto num_digits = static_cast<size_t>(digits_end - line.begin());
  const auto size_bytes = ParseHexadecimal(line.substr(0, num_digits));
  const std::string_view extensions = line.substr(num_digits);
  if (!size_bytes) return MalformedRequest("a chunk of its body has no size");
  // "5 " without an extension is one of the sizes that servers disagree about.
  const bool is_good =
      extensions.empty() || (AreExtensions(extensions) && !TrimBlanks(extensions).empty());
  if (!is_good || !All(extensions, IsFieldByte)) {
    return MalformedRequest("the size of a chunk of its body is followed by something else");
  }
  return *size_bytes;
}

ApiError TransportError(int status, const std::string& message) {
  return {.status = status, .message = message, .param = "", .code = ""};
}

ApiError MalformedRequest(std::string_view reason) {
  return TransportError(400, StrCat("This is not an HTTP/1.1 request: ", reason, "."));
}

}  // namespace aril::gateway
