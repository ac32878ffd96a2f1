// Adapters that have to be fetched, or are sent by a client, before they can be loaded.

#ifndef ARIL_GATEWAY_REMOTE_LOADER_H_
#define ARIL_GATEWAY_REMOTE_LOADER_H_

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/transfer_monitor.h"
#include "catalog/catalog.h"
#include "catalog/generation_store.h"

namespace aril::gateway {

// What a client says that it gets.
struct ExpectedDigests {
  std::string generation;                    // empty: whatever it is
  std::map<std::string, std::string> files;  // SHA-256 by name

  bool IsEmpty() const { return generation.empty() && files.empty(); }
};

// Thread-safe.
class RemoteLoader {
 public:
  virtual ~RemoteLoader() = default;
  // Whether a source is for Fetch, by how it begins, rather than for AdapterLoader.
  virtual bool IsRemote(const std::string& source) const = 0;
  // InvalidArgument if a source is malformed, or not allowed. Contacts nobody.
  virtual Status Check(const std::string& source) const = 0;
  // Takes as long as the network does. InvalidArgument or NotFound says what is wrong with the
  // source, Unavailable and ResourceExhausted that it may be otherwise later; kCancelled.
  virtual StatusOr<GenerationStore::Incoming> Fetch(const std::string& source,
                                                    TransferMonitor& monitor) = 0;
  // Verifies the files completely, which takes as long as reading them. A name may stand for the
  // generation once Keep has taken them over. Errors name `source`.
  virtual StatusOr<std::shared_ptr<const Generation>> Open(
      const GenerationStore::Incoming& incoming, const std::string& source) = 0;
  // They are on disk under their digest when this returns, as long as a name stands for them: no
  // other change may run until then.
  virtual Status Keep(GenerationStore::Incoming incoming, const Generation& generation) = 0;
  // What Open would say; nothing of it stays.
  virtual StatusOr<Generation::Description> Verify(const GenerationStore::Incoming& incoming,
                                                   const std::string& source) = 0;
  // Where what clients send is gathered.
  virtual const GenerationStore& store() const = 0;
};

// InvalidArgument if the files are not those that are expected, or one is expected that no adapter
// has.
Status CheckDigests(const GenerationStore::Incoming& incoming, const ExpectedDigests& expected);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REMOTE_LOADER_H_
