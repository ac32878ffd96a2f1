// Adapters in folders of this machine, as generations that this process's runner has.

#ifndef ARIL_APPS_LOCAL_ADAPTERS_H_
#define ARIL_APPS_LOCAL_ADAPTERS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apps/adapter_roots.h"
#include "apps/adapter_text.h"
#include "apps/incoming_adapters.h"
#include "base/folder.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "catalog/generation_store.h"
#include "catalog/verified_files.h"
#include "gateway/adapter_loader.h"
#include "gateway/model_text.h"
#include "runner/local_runner.h"

namespace aril {

// Thread-safe. The runner must outlive it, and this object its generations. The same bytes are one
// generation, and one adapter of the runner, whoever asks for them.
class LocalAdapters final : public gateway::AdapterLoader, public IncomingAdapters {
 public:
  struct Options {
    AdapterRoots roots;
    // How their texts are read and written; null where nobody asks.
    std::shared_ptr<const AdapterTextReader> text_reader;
    std::shared_ptr<gateway::AdapterTexts> texts;
    const GenerationStore* store = nullptr;  // null: adapters are served where they lie
  };
  LocalAdapters(LocalRunner& runner, Options options)
      : runner_(runner), options_(std::move(options)) {}

  // `source`: a folder beneath one of the roots (apps/adapter_roots.h). With a store its files are
  // copied first, and the copy is verified and served.
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override;
  StatusOr<Generation::Description> Verify(const std::string& source) override;
  StatusOr<std::shared_ptr<const Generation>> Recall(const std::string& digest) override;

  // What Load does with a copy of a source's files. Only with a store.
  StatusOr<std::shared_ptr<const Generation>> Open(const GenerationStore::Incoming& incoming,
                                                   const std::string& source) override;
  Status Keep(GenerationStore::Incoming incoming, const Generation& generation) override;
  StatusOr<Generation::Description> Verify(const GenerationStore::Incoming& incoming,
                                           const std::string& source) override;

  // A generation of an adapter that the runner has had from the start; if its files cannot be read
  // the runner has it no more.
  StatusOr<std::shared_ptr<const Generation>> Adopt(AdapterId adapter, const std::string& dir);
  // One whose files are in the store, as it was described when they came there; they are opened
  // when it is wanted first.
  std::shared_ptr<const Generation> Restore(const Generation::Description& stored);

 private:
  using GenerationPtr = std::shared_ptr<const Generation>;
  // What an adapter that is opened later says of text: read with it, before anybody uses it.
  struct UnreadText {
    explicit UnreadText(std::string folder) : dir(std::move(folder)) {}
    const std::string dir;
    std::mutex mutex;
    std::atomic<bool> is_read = false;
  };

  StatusOr<GenerationPtr> LoadCopy(const Folder& dir, const std::string& source);
  StatusOr<GenerationPtr> LoadInPlace(const Folder& dir);
  StatusOr<Generation::Description> VerifyCopy(const Folder& dir, const std::string& source);
  StatusOr<Generation::Description> VerifyInPlace(const Folder& dir);
  StatusOr<GenerationStore::Incoming> CopyIn(const Folder& dir);
  // The generation of that digest that somebody holds, or null.
  GenerationPtr FindKnown(const std::string& digest);
  // Lets FindKnown find another one of the same bytes: this one's files are not those any more.
  void Forget(const Generation& generation);
  // A new one, which FindKnown finds from now on; or the one that somebody else has made meanwhile.
  GenerationPtr MakeKnown(const LoadedAdapter& loaded, const std::string& digest,
                          const std::shared_ptr<UnreadText>& unread = nullptr);
  StatusOr<Generation::Opened> Prepare(AdapterId adapter, UnreadText* unread);
  Generation::Residence ResidenceOf(AdapterId adapter) const;
  void Release(AdapterId adapter, const std::string& digest);
  // Lets an adapter that is served where it lies be closed, and opened again where `find` finds it;
  // which a copy into the pool may ask after this object's end.
  void LetClose(AdapterId adapter, std::shared_ptr<VerifiedFiles> files,
                std::function<StatusOr<Folder>()> find);
  // Lets one that is in the store be closed, and opened again there, or where it was given.
  void LetCloseStored(AdapterId adapter, const std::string& digest);
  // With what its folder says of text, strictly.
  StatusOr<LoadedAdapter> LoadWithText(const Folder& dir);
  // For who loads it: every chat, or every text, would be refused.
  StatusOr<gateway::ModelTextPtr> ReadTextStrictly(const Folder& dir, int64_t vocab_size) const;
  StatusOr<gateway::ModelTextPtr> ReadText(const Folder& dir, int64_t vocab_size) const;
  void SetText(AdapterId adapter, gateway::ModelTextPtr text);

  LocalRunner& runner_;
  const Options options_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const Generation>> known_;  // by digest
  struct Given {
    std::string dir;
    std::shared_ptr<VerifiedFiles> files;
  };
  // Of Adopt's, by digest. Names may come and go that keep the same bytes in the store.
  std::unordered_map<std::string, Given> given_;
};

}  // namespace aril

#endif  // ARIL_APPS_LOCAL_ADAPTERS_H_
