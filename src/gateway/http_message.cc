#include "gateway/http_message.h"

#include <charconv>

#include "base/strings.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

}  // namespace

std::string_view FindHeader(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [field, value] : headers) {
    if (EqualsIgnoreCase(field, name)) return value;
  }
  return {};
}

std::string SerializeHead(const HttpResponse& response, const HttpHeaders& extra_headers,
                          HttpFraming framing, bool keep_alive) {
  std::string head = StrCat("HTTP/1.1 ", response.status, " ", ReasonPhrase(response.status),
                            "\r\nContent-Type: ", response.content_type, "\r\n");
  for (const HttpHeaders* headers : {&response.headers, &extra_headers}) {
    for (const auto& [name, value] : *headers) head += name + ": " + value + "\r\n";
  }
  if (framing == HttpFraming::kContentLength) {
    head += StrCat("Content-Length: ", response.body.size(), "\r\n");
  } else if (framing == HttpFraming::kChunked) {
    head += "Transfer-Encoding: chunked\r\n";
  }
  // keep-alive is written out for HTTP/1.0 clients, whose default is to close.
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

void AppendChunk(std::string_view data, std::string* out) {
  if (data.empty()) return;
  char size[16];
  const auto end = std::to_chars(size, size + sizeof(size), data.size(), 16).ptr;
  out->append(size, end).append("\r\n").append(data).append("\r\n");
}

}  // namespace aril::gateway
