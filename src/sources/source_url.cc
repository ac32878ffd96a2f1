#include "sources/source_url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr size_t kMaxSourceBytes = 2048;
constexpr size_t kMaxHostBytes = 253;  // RFC 1035, section 2.3.4
constexpr size_t kMaxLabelBytes = 63;  // likewise
constexpr size_t kShownBytes = 200;    // of a client's text
constexpr std::string_view kDefaultRevision = "main";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsAlphanumeric(char c) { return IsDigit(c) || IsLower(c) || (c >= 'A' && c <= 'Z'); }
// What stands for itself in every part of a URL (RFC 3986, section 2.3).
bool IsUnreserved(char c) {
  return IsAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

std::string Shown(std::string_view text) {
  return JsonQuote(text.substr(0, kShownBytes)) + (text.size() > kShownBytes ? "…" : "");
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// One element of a path, of a repository's name or of a revision.
bool IsElement(std::string_view element) {
  return !element.empty() && element != "." && element != ".." &&
         std::ranges::all_of(element, IsUnreserved);
}

bool AreElements(std::string_view path) {
  const auto elements = Split(path, '/');
  return std::ranges::all_of(elements, IsElement);
}

bool IsLabel(std::string_view label) {
  return !label.empty() && label.size() <= kMaxLabelBytes && label.front() != '-' &&
         label.back() != '-' &&
         std::ranges::all_of(label, [](char c) { return IsDigit(c) || IsLower(c) || c == '-'; });
}

// A name (RFC 1123), of which resolvers make nothing but a name: its last label has a letter first,
// so that "127.1", "0x7f.1" and "2130706433", which some read as addresses, are none.
bool IsHostName(std::string_view host) {
  const auto labels = Split(host, '.');
  return host.size() <= kMaxHostBytes && std::ranges::all_of(labels, IsLabel) &&
         IsLower(labels.back().front());
}

// In the one form that inet_ntop writes.
bool IsAddress(int family, const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  char again[INET6_ADDRSTRLEN];
  return inet_pton(family, text.c_str(), bytes) == 1 &&
         inet_ntop(family, bytes, again, sizeof(again)) != nullptr && text == again;
}

bool IsHost(const std::string& host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return IsAddress(AF_INET6, host.substr(1, host.size() - 2));
  }
  return IsAddress(AF_INET, host) || IsHostName(host);
}

std::optional<uint16_t> ParsePort(std::string_view text) {
  if (text.empty() || text.size() > 5 || text.front() == '0') return std::nullopt;
  uint32_t port = 0;
  for (const char c : text) {
    if (!IsDigit(c)) return std::nullopt;
    port = port * 10 + static_cast<uint32_t>(c - '0');
  }
  if (port > UINT16_MAX) return std::nullopt;
  return static_cast<uint16_t>(port);
}

uint16_t DefaultPort(const std::string& scheme) { return scheme == "http" ? 80 : 443; }

// "host[:port]".
std::optional<Origin> ParseAuthority(const std::string& scheme, std::string_view authority) {
  Origin origin = {.scheme = scheme, .host = "", .port = DefaultPort(scheme)};
  const size_t colon = authority.rfind(':');
  const size_t bracket = authority.rfind(']');
  const bool has_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || bracket < colon);
  if (has_port) {
    const auto port = ParsePort(authority.substr(colon + 1));
    if (!port.has_value()) return std::nullopt;
    origin.port = *port;
    authority = authority.substr(0, colon);
  }
  origin.host = std::string(authority);
  if (!IsHost(origin.host)) return std::nullopt;
  return origin;
}

Status Malformed(const std::string& text, const std::string& expected) {
  return InvalidArgument(StrCat("the source ", Shown(text), " must be ", expected));
}

// `/a/b/` → "/a/b"; nullopt for what holds anything but plain elements.
std::optional<std::string> ParsePath(std::string_view path) {
  if (path.ends_with('/')) path.remove_suffix(1);
  if (path.empty()) return "";
  if (!AreElements(path.substr(1))) return std::nullopt;
  return std::string(path);
}

StatusOr<SourceUrl> ParseHttps(const std::string& text, std::string_view rest) {
  constexpr const char* kExpected =
      "https://HOST[:PORT]/FOLDER: the host in lower case, the folder of letters, digits and - . _ "
      "~, without user, query, fragment, %-escapes or elements like ..";
  const size_t slash = std::min(rest.find('/'), rest.size());
  const auto origin = ParseAuthority("https", rest.substr(0, slash));
  const auto path = ParsePath(rest.substr(slash));
  if (!origin.has_value() || !path.has_value()) return Malformed(text, kExpected);
  return SourceUrl{.kind = SourceUrl::Kind::kHttps, .origin = *origin, .path = *path};
}

// The names that S3 allows ("Bucket naming rules" of Amazon S3's user guide).
bool IsBucket(std::string_view name) {
  const auto is_allowed = [](char c) { return IsDigit(c) || IsLower(c) || c == '-' || c == '.'; };
  return name.size() >= 3 && name.size() <= kMaxLabelBytes &&
         std::ranges::all_of(name, is_allowed) && IsAlphanumeric(name.front()) &&
         IsAlphanumeric(name.back()) && name.find("..") == std::string_view::npos;
}

StatusOr<SourceUrl> ParseS3(const std::string& text, std::string_view rest) {
  constexpr const char* kExpected =
      "s3://BUCKET/PREFIX: the prefix of letters, digits and - . _ ~ /, without empty elements or "
      "elements like ..";
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view bucket = rest.substr(0, slash);
  const auto path = ParsePath(rest.substr(slash));
  if (!IsBucket(bucket) || !path.has_value()) return Malformed(text, kExpected);
  return SourceUrl{.kind = SourceUrl::Kind::kS3, .path = *path, .bucket = std::string(bucket)};
}

StatusOr<SourceUrl> ParseHub(const std::string& text, std::string_view rest) {
  constexpr const char* kExpected =
      "hf://OWNER/NAME or hf://OWNER/NAME@REVISION: of letters, digits and - . _ ~";
  const size_t at = std::min(rest.find('@'), rest.size());
  const std::string_view repo = rest.substr(0, at);
  const std::string_view revision = at < rest.size() ? rest.substr(at + 1) : kDefaultRevision;
  const bool is_repo = std::ranges::count(repo, '/') == 1 && AreElements(repo);
  // A branch may have slashes in its name, which a path would need escapes for.
  if (!is_repo || !IsElement(revision)) return Malformed(text, kExpected);
  return SourceUrl{
      .kind = SourceUrl::Kind::kHub, .repo = std::string(repo), .revision = std::string(revision)};
}

}  // namespace

std::string Origin::Text() const {
  return port == DefaultPort(scheme) ? StrCat(scheme, "://", host)
                                     : StrCat(scheme, "://", host, ":", port);
}

StatusOr<Origin> ParseOrigin(const std::string& text, bool allow_http) {
  for (const char* scheme : {"https", "http"}) {
    const std::string prefix = StrCat(scheme, "://");
    if (!text.starts_with(prefix)) continue;
    if (scheme == std::string_view("http") && !allow_http) continue;
    if (auto origin = ParseAuthority(scheme, std::string_view(text).substr(prefix.size()))) {
      return *std::move(origin);
    }
  }
  return InvalidArgument(
      StrCat(Shown(text), " must be an origin: ", allow_http ? "http:// or https://" : "https://",
             " and a host in lower case, with :PORT if need be and without a "
             "path, for example https://files.example:8443"));
}

bool IsSourceUrl(std::string_view text) {
  const size_t end = text.find("://");
  if (end == std::string_view::npos || end == 0 || IsDigit(text.front())) return false;
  return std::ranges::all_of(text.substr(0, end), [](char c) {
    return IsAlphanumeric(c) || c == '+' || c == '-' || c == '.';
  });
}

StatusOr<SourceUrl> ParseSourceUrl(const std::string& text) {
  if (text.size() > kMaxSourceBytes) {
    return InvalidArgument(StrCat("a source must be at most ", kMaxSourceBytes, " bytes long"));
  }
  using Parser = StatusOr<SourceUrl> (*)(const std::string&, std::string_view);
  constexpr std::pair<std::string_view, Parser> kParsers[] = {
      {"https://", &ParseHttps}, {"s3://", &ParseS3}, {"hf://", &ParseHub}};
  for (const auto& [prefix, parse] : kParsers) {
    if (text.starts_with(prefix)) return parse(text, std::string_view(text).substr(prefix.size()));
  }
  return Malformed(text, "a URL that begins with https://, s3:// or hf://");
}

}  // namespace aril
