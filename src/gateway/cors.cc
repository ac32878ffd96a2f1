#include "gateway/cors.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "gateway/http_syntax.h"

namespace aril::gateway {
namespace {

constexpr std::string_view kAny = "*";
constexpr const char* kMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
// What scripts may read besides the few fields they always may.
constexpr const char* kExposed =
    "Retry-After, Aril-Generation, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
    "x-ratelimit-reset-tokens";
// How long a browser need not ask again.
constexpr const char* kMaxAgeSeconds = "600";

// scheme "://" host [ ":" port ] (RFC 6454, section 6.1), in the lower case that browsers send.
bool IsOrigin(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.substr(0, scheme.size()) != scheme) continue;
    const std::string_view host = text.substr(scheme.size());
    const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
    return !host.empty() && IsHost(host) && std::none_of(host.begin(), host.end(), is_upper);
  }
  return false;
}

}  // namespace

StatusOr<CorsPolicy> CorsPolicy::Create(std::vector<std::string> origins) {
  for (const std::string& origin : origins) {
    if (origin == kAny && origins.size() > 1) {
      return InvalidArgument("`*` allows every origin; give it alone or leave it out");
    }
    if (origin != kAny && !IsOrigin(origin)) {
      return InvalidArgument(StrCat("`", origin,
                                    "` is no origin; give `*` or, for example, "
                                    "https://app.example:8443, in lower case and without a path"));
    }
  }
  CorsPolicy policy;
  policy.origins_ = std::move(origins);
  return policy;
}

HttpHeaders CorsPolicy::FieldsFor(const HttpHeaders& request) const {
  if (origins_.empty()) return {};
  if (origins_.front() == kAny) {
    return {{"Access-Control-Allow-Origin", "*"}, {"Access-Control-Expose-Headers", kExposed}};
  }
  // Whatever the origin is, so that no cache gives one page the answer made for another.
  HttpHeaders fields = {{"Vary", "Origin"}};
  const std::string_view origin = FindHeader(request, "Origin");
  if (!Names(origin)) return fields;
  fields.emplace_back("Access-Control-Allow-Origin", origin);
  fields.emplace_back("Access-Control-Expose-Headers", kExposed);
  return fields;
}

bool CorsPolicy::Names(std::string_view origin) const {
  return std::ranges::any_of(
      origins_, [&](const std::string& named) { return named == kAny || named == origin; });
}

bool CorsPolicy::IsForeign(const HttpRequest& request) const {
  if (request.method == "GET" || request.method == "OPTIONS") return false;
  const std::string_view origin = FindHeader(request.headers, "Origin");
  const std::string_view site = FindHeader(request.headers, "Sec-Fetch-Site");
  if (site == "same-origin" || site == "none") return false;
  // Who sends neither is no browser.
  if (origin.empty() && site.empty()) return false;
  const size_t scheme = origin.find("://");
  const bool is_of_this_host = site.empty() && scheme != std::string_view::npos &&
                               origin.substr(scheme + 3) == FindHeader(request.headers, "Host");
  return !is_of_this_host && !Names(origin);
}

std::optional<HttpResponse> CorsPolicy::AnswerPreflight(const HttpRequest& request) const {
  const bool is_preflight = request.method == "OPTIONS" &&
                            !FindHeader(request.headers, "Origin").empty() &&
                            !FindHeader(request.headers, "Access-Control-Request-Method").empty();
  if (origins_.empty() || !is_preflight) return std::nullopt;
  HttpResponse response{.content_type = "text/plain",
                        .headers = {{"Access-Control-Allow-Methods", kMethods},
                                    {"Access-Control-Max-Age", kMaxAgeSeconds},
                                    {"Vary", "Access-Control-Request-Headers"}},
                        .body = ""};
  // Named one by one: `*` would not include Authorization.
  const std::string_view fields = FindHeader(request.headers, "Access-Control-Request-Headers");
  if (!fields.empty()) response.headers.emplace_back("Access-Control-Allow-Headers", fields);
  return response;
}

}  // namespace aril::gateway
