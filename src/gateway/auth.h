// Who may use the API, and as which tenant.

#ifndef ARIL_GATEWAY_AUTH_H_
#define ARIL_GATEWAY_AUTH_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "gateway/http_message.h"

namespace aril::gateway {

struct ApiKey {
  std::string key;
  std::string tenant = kDefaultTenant;  // of keys that name none, and of everybody without keys
};

// Immutable; thread-safe.
class ApiKeys {
 public:
  // No keys: everybody is the default tenant.
  ApiKeys() = default;
  explicit ApiKeys(std::vector<ApiKey> keys) : keys_(std::move(keys)) {}

  // The tenant of the key in a request's Authorization ("Bearer KEY", as OpenAI's clients send it)
  // or, where there is none such, X-Api-Key ("KEY", as Anthropic's do); nullopt: it is no key.
  // Takes the same time whichever key is right and however much of one is; only the length of what
  // was presented shows.
  std::optional<std::string> FindTenant(const HttpHeaders& headers) const;

 private:
  std::vector<ApiKey> keys_;
};

// The keys of a file, one per line: a key and, after a space, its tenant. Empty lines and lines
// that start with # are skipped. An error (that does not show a key) names the line.
StatusOr<std::vector<ApiKey>> ReadApiKeyFile(const std::string& path);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_AUTH_H_
