// What a client asks an adapter's name to stand for: parsing, and nothing else.

#ifndef ARIL_GATEWAY_ADAPTER_CHANGE_REQUEST_H_
#define ARIL_GATEWAY_ADAPTER_CHANGE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "gateway/api_error.h"
#include "gateway/remote_loader.h"

namespace aril::gateway {

// A share that a client asks for: of a generation that the name has stood for, or of the one that
// another adapter stands for.
struct ShareField {
  std::string generation;
  std::string adapter;
  int64_t weight = 0;
};

struct AdapterChange {
  std::string name;
  std::string source;      // or a generation that the name has stood for:
  std::string generation;  // or several:
  std::vector<ShareField> split;
  Catalog::Expected expected;
  int64_t ttl_seconds = 0;  // 0: it stays
  std::optional<bool> pin;  // absent: as it is
  ExpectedDigests digests;  // of a source's files

  // False where only the pin is to change.
  bool HasTarget() const { return !source.empty() || !generation.empty() || !split.empty(); }
};

// PUT /v1/adapters/{name}: fields are in the body, and the query says `dry_run` at most. 400 names
// the field; one that is not known is refused, as it might be a mistyped condition.
ApiResult<AdapterChange> ParseAdapterChange(const std::string& name, const Json& body,
                                            std::string_view query);
// The parameters of an upload, all in the query; its source is `upload`.
ApiResult<AdapterChange> ParseUpload(const std::string& name, std::string_view query);
// The condition of DELETE /v1/adapters/{name}.
ApiResult<Catalog::Expected> ParseRemoval(std::string_view query);
// `dry_run` of a query: absent, "true" or "false".
ApiResult<bool> ReadDryRun(std::string_view query);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTER_CHANGE_REQUEST_H_
