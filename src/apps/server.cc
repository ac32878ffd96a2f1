#include "apps/server.h"

#include <utility>

#include "base/strings.h"

namespace aril {

gateway::HttpHeaders Server::Headers() const {
  gateway::HttpHeaders headers = {{"Content-Type", "application/json"}};
  if (!api_key.empty()) headers.emplace_back("Authorization", "Bearer " + api_key);
  return headers;
}

StatusOr<std::string> Server::Fetch(const std::string& path) const {
  ASSIGN_OR_RETURN(auto response,
                   gateway::HttpClient(url, timeout)
                       .Send({.method = "GET", .path = path, .headers = Headers(), .body = ""}));
  if (response.status != 200) {
    return FailedPrecondition(StrCat(path, ": status ", response.status, ": ", response.body));
  }
  return std::move(response.body);
}

}  // namespace aril
