// Adapters that are fetched, or sent by clients, into the store of a server with --state-dir.

#ifndef ARIL_APPS_REMOTE_ADAPTERS_H_
#define ARIL_APPS_REMOTE_ADAPTERS_H_

#include <memory>
#include <string>
#include <utility>

#include "apps/incoming_adapters.h"
#include "base/status.h"
#include "base/transfer_monitor.h"
#include "catalog/generation_store.h"
#include "gateway/remote_loader.h"
#include "sources/adapter_fetcher.h"

namespace aril {

// Thread-safe. All that it is given must outlive it; `incoming` keeps what it keeps in the same
// store.
class RemoteAdapters final : public gateway::RemoteLoader {
 public:
  RemoteAdapters(AdapterFetcher fetcher, IncomingAdapters& incoming, const GenerationStore& store)
      : fetcher_(std::move(fetcher)), incoming_(incoming), store_(store) {}

  // URLs of any scheme are; Check knows which of them are served.
  bool IsRemote(const std::string& source) const override { return IsSourceUrl(source); }
  Status Check(const std::string& source) const override { return fetcher_.Check(source); }
  StatusOr<GenerationStore::Incoming> Fetch(const std::string& source,
                                            TransferMonitor& monitor) override;
  StatusOr<std::shared_ptr<const Generation>> Open(const GenerationStore::Incoming& incoming,
                                                   const std::string& source) override {
    return incoming_.Open(incoming, source);
  }
  Status Keep(GenerationStore::Incoming incoming, const Generation& generation) override {
    return incoming_.Keep(std::move(incoming), generation);
  }
  StatusOr<Generation::Description> Verify(const GenerationStore::Incoming& incoming,
                                           const std::string& source) override {
    return incoming_.Verify(incoming, source);
  }
  const GenerationStore& store() const override { return store_; }

 private:
  const AdapterFetcher fetcher_;
  IncomingAdapters& incoming_;
  const GenerationStore& store_;
};

}  // namespace aril

#endif  // ARIL_APPS_REMOTE_ADAPTERS_H_
