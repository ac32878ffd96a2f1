// What makes adapters ready for requests, where their files are.

#ifndef ARIL_GATEWAY_ADAPTER_LOADER_H_
#define ARIL_GATEWAY_ADAPTER_LOADER_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "catalog/catalog.h"

namespace aril::gateway {

// Makes adapters ready for requests. Thread-safe.
class AdapterLoader {
 public:
  virtual ~AdapterLoader() = default;
  // Verifies the adapter at `source` completely; takes as long as reading it. Where changes survive
  // a restart its files have been taken over when this returns. InvalidArgument or NotFound says
  // what is wrong with it.
  virtual StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) = 0;
  // What Load would give or say; nothing of it stays.
  virtual StatusOr<Generation::Description> Verify(const std::string& source) = 0;
  // A generation that a name has stood for, by its digest. NotFound if its files are not kept.
  virtual StatusOr<std::shared_ptr<const Generation>> Recall(const std::string& digest) = 0;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ADAPTER_LOADER_H_
