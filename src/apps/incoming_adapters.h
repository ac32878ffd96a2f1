// What becomes of an adapter's files once they are here.

#ifndef ARIL_APPS_INCOMING_ADAPTERS_H_
#define ARIL_APPS_INCOMING_ADAPTERS_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "catalog/catalog.h"
#include "catalog/generation_store.h"

namespace aril {

// Thread-safe. Errors name `source` in place of the copy.
class IncomingAdapters {
 public:
  virtual ~IncomingAdapters() = default;
  // Verifies it completely, so that requests may use it. Its files stay where they are.
  virtual StatusOr<std::shared_ptr<const Generation>> Open(
      const GenerationStore::Incoming& incoming, const std::string& source) = 0;
  // Takes its files over, where they are needed.
  virtual Status Keep(GenerationStore::Incoming incoming, const Generation& generation) = 0;
  // What Open would say; nothing of it stays.
  virtual StatusOr<Generation::Description> Verify(const GenerationStore::Incoming& incoming,
                                                   const std::string& source) = 0;
};

// An error that names the source as it was given, and not the folder where its files, or their
// copies, are: that is no business of clients.
inline Status WithSource(const Status& status, const std::string& dir, const std::string& source) {
  std::string message = Message(status);
  for (size_t at = message.find(dir); at != std::string::npos;
       at = message.find(dir, at + source.size())) {
    message.replace(at, dir.size(), source);
  }
  return MakeStatus(status.code(), message);
}

}  // namespace aril

#endif  // ARIL_APPS_INCOMING_ADAPTERS_H_
