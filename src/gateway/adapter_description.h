// The adapters that a tenant has, and how the API shows them.

#ifndef ARIL_GATEWAY_ADAPTER_DESCRIPTION_H_
#define ARIL_GATEWAY_ADAPTER_DESCRIPTION_H_

#include <optional>
#include <string>

#include "base/json.h"
#include "catalog/catalog.h"
#include "gateway/adapter_loads.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

// What the tenant has under this name, or null: the base model is no adapter.
CatalogEntryPtr FindAdapter(const RequestContext& context, const std::string& name);

// The adapters that the tenant may use, those that are being loaded included.
Json ListAdapters(const RequestContext& context);
// 404 if the tenant has none of that name.
ApiResult<Json> DescribeAdapter(const std::string& name, const RequestContext& context);

// What a name stands for. `load`: what is being fetched for it, or could not be.
Json DescribeEntry(const CatalogEntry& entry, const Catalog& catalog,
                   const std::optional<AdapterLoadStatus>& load = std::nullopt);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTER_DESCRIPTION_H_
