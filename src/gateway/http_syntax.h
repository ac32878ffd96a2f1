// The grammar of HTTP/1.1 requests (RFC 9110, RFC 9112), read strictly: what two programs between
// client and server could understand differently is refused, because it could smuggle one client's
// request into another's connection. Pure functions; no text they return outlives its argument.

#ifndef ARIL_GATEWAY_HTTP_SYNTAX_H_
#define ARIL_GATEWAY_HTTP_SYNTAX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/api_error.h"

namespace aril::gateway {

// 1*tchar (RFC 9110, section 5.6.2): methods, field names, transfer codings.
bool IsToken(std::string_view text);
// Whether a request may begin with this byte.
bool IsTokenByte(char c);
// uri-host [ ":" port ] (RFC 9110, section 7.2); also for "", which HTTP allows.
bool IsHost(std::string_view text);

struct RequestLine {
  std::string_view method;
  std::string_view path;  // of an absolute-form target, too; "*" for the asterisk-form
  std::string_view query;
  int minor_version = 1;  // 0 or 1
};
// A request line without its CRLF (RFC 9112, section 3). 400; 505 for HTTP/2 and the like; 501 for
// CONNECT.
ApiResult<RequestLine> ParseRequestLine(std::string_view line);

// A field line without its CRLF as name and value (RFC 9112, section 5). 400.
ApiResult<std::pair<std::string_view, std::string_view>> ParseFieldLine(std::string_view line);

// The elements of a comma-separated list, without the empty ones (RFC 9110, section 5.6.1).
std::vector<std::string_view> SplitList(std::string_view value);

// 1*DIGIT or 1*HEXDIG; UINT64_MAX for what is larger, which no limit allows. nullopt for anything
// else: no sign, no space, no 0x.
std::optional<uint64_t> ParseDecimal(std::string_view text);
std::optional<uint64_t> ParseHexadecimal(std::string_view text);

// The size in the line before a chunk, whose extensions must be well-formed but mean nothing here
// (RFC 9112, section 7.1.1). 400.
ApiResult<uint64_t> ParseChunkLine(std::string_view line);

// What the server itself answers, without asking a handler.
ApiError TransportError(int status, const std::string& message);
// 400: "This is not an HTTP/1.1 request: `reason`."
ApiError MalformedRequest(std::string_view reason);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_SYNTAX_H_
