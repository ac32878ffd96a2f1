// Where an adapter that is not on this machine lies, as a client writes it:
//
//   https://HOST[:PORT]/PATH          a folder of files
//   s3://BUCKET/PREFIX                the same in an S3-compatible store
//   hf://OWNER/NAME[@REVISION]        a repository of a hub (a branch, tag or commit; else main)
//
// Only what all programs on the way read alike is taken: no user names, queries or fragments, no
// escapes, dots or empty elements in paths, no other spellings of addresses and hosts. What a
// parsed source holds is put together again, never the client's text.

#ifndef ARIL_SOURCES_SOURCE_URL_H_
#define ARIL_SOURCES_SOURCE_URL_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace aril {

// Scheme, host and port of a URL (RFC 6454).
struct Origin {
  std::string scheme;  // "https" or "http"
  std::string host;    // in lower case; an IPv6 address in brackets
  uint16_t port = 0;

  // "https://host", with the port unless it is the scheme's own.
  std::string Text() const;
  auto operator<=>(const Origin&) const = default;
};
// What an operator writes; `http` is taken only if `allow_http`. InvalidArgument says what is.
StatusOr<Origin> ParseOrigin(const std::string& text, bool allow_http);

struct SourceUrl {
  enum class Kind { kHttps, kS3, kHub };
  Kind kind = Kind::kHttps;
  Origin origin;         // kHttps
  std::string path;      // kHttps: "" or "/a/b"; kS3: "" or "/prefix". Needs no escapes.
  std::string bucket;    // kS3
  std::string repo;      // kHub: "owner/name"
  std::string revision;  // kHub
};

// Whether a source begins like a URL of any scheme (RFC 3986, section 3.1), and is thus no folder.
bool IsSourceUrl(std::string_view text);

// InvalidArgument says what is wrong. Touches nothing.
StatusOr<SourceUrl> ParseSourceUrl(const std::string& text);

}  // namespace aril

#endif  // ARIL_SOURCES_SOURCE_URL_H_
