// A running server, as a command that asks it knows it.

#ifndef ARIL_APPS_SERVER_H_
#define ARIL_APPS_SERVER_H_

#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/http_client.h"

namespace aril {

struct Server {
  gateway::HttpUrl url;
  std::string api_key;                           // empty: none
  Duration timeout = std::chrono::seconds(600);  // of each wait

  gateway::HttpHeaders Headers() const;
  // A GET with the key, on a connection of its own. An error for any status but 200.
  StatusOr<std::string> Fetch(const std::string& path) const;
};

}  // namespace aril

#endif  // ARIL_APPS_SERVER_H_
