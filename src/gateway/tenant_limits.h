// How much each tenant may ask for.

#ifndef ARIL_GATEWAY_TENANT_LIMITS_H_
#define ARIL_GATEWAY_TENANT_LIMITS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/status.h"

namespace aril::gateway {

// nullopt: no limit.
struct TenantLimits {
  std::optional<int64_t> requests_per_minute;
  std::optional<int64_t> tokens_per_minute;  // of prompts and of output
  std::optional<int64_t> concurrent_requests;

  bool operator==(const TenantLimits&) const = default;
};

struct TenantLimitTable {
  TenantLimits of_others;  // of tenants that are not named
  std::map<std::string, TenantLimits> of_tenant;

  const TenantLimits& Of(const std::string& tenant) const {
    const auto found = of_tenant.find(tenant);
    return found != of_tenant.end() ? found->second : of_others;
  }
};

// The limits of a file: on each line a tenant, or `*` for all that have no line, and its limits as
// name=number or name=unlimited. What a tenant's line leaves out is as for `*`, wherever that
// stands. Empty lines and lines that start with # are skipped. An error names the line.
StatusOr<TenantLimitTable> ReadTenantLimitsFile(const std::string& path);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TENANT_LIMITS_H_
