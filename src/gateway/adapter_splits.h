// Names whose requests are divided among several generations, as a client asks for them.

#ifndef ARIL_GATEWAY_ADAPTER_SPLITS_H_
#define ARIL_GATEWAY_ADAPTER_SPLITS_H_

#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "gateway/adapter_change_request.h"
#include "gateway/adapter_loader.h"
#include "gateway/api_error.h"
#include "gateway/completion_request.h"

namespace aril::gateway {

// What a name is to stand for that is divided as `change.split` says. Errors name the share's
// field.
ApiResult<CatalogEntry> ObtainSplit(const AdapterChange& change, const RequestContext& context,
                                    AdapterLoader& loader);
// The split `change.generation` that the name, which is `current`, has stood for, again.
ApiResult<CatalogEntry> RecallSplit(const AdapterChange& change, const CatalogEntry& current,
                                    const RequestContext& context, AdapterLoader& loader);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTER_SPLITS_H_
