// What is wrong with a change of an adapter, as the API says it.

#ifndef ARIL_GATEWAY_ADAPTER_ERRORS_H_
#define ARIL_GATEWAY_ADAPTER_ERRORS_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "gateway/api_error.h"

namespace aril::gateway {

// An error about another field.
ApiError WithParam(ApiError error, std::string_view param);

// 404 for names that the tenant has no adapter of. `param`: empty where the path names it.
ApiError AdapterNotFound(const std::string& name, std::string_view param);
// 404: of the name's past, nothing has that digest.
ApiError NotInHistory(const std::string& name, std::string_view param);
// What the catalog says of a change of a name: 409 where somebody else was there first, or the name
// is not the tenant's.
ApiError ChangeError(const Status& status, std::string_view name_param);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTER_ERRORS_H_
