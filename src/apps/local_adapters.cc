#include "apps/local_adapters.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril {

namespace {

Generation::Description Describe(const LoadedAdapter& loaded, const std::string& digest) {
  return {.adapter = loaded.id, .digest = digest, .rank = loaded.rank, .bytes = loaded.bytes};
}

}  // namespace

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::Load(const std::string& source) {
  ASSIGN_OR_RETURN(const Folder dir, options_.roots.Find(source));
  auto loaded = options_.store == nullptr ? LoadInPlace(dir) : LoadCopy(dir, source);
  if (!loaded.ok()) return WithSource(loaded.status(), dir.path(), source);
  return loaded;
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::LoadCopy(const Folder& dir,
                                                                    const std::string& source) {
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, CopyIn(dir));
  ASSIGN_OR_RETURN(GenerationPtr generation, Open(incoming, source));
  RETURN_IF_ERROR(Keep(std::move(incoming), *generation));
  return generation;
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::LoadInPlace(const Folder& dir) {
  ASSIGN_OR_RETURN(VerifiedFiles read, VerifiedFiles::Read(dir));
  const auto files = std::make_shared<VerifiedFiles>(std::move(read));
  GenerationPtr known = FindKnown(files->digest());
  if (known != nullptr) {
    const Status same = runner_.CheckAdapterFiles((*known)->adapter);
    if (same.ok()) return known;
    LogWarning(StrCat("generation ", files->digest(), " is loaded anew: ", Message(same)));
    Forget(*known);
  }
  ASSIGN_OR_RETURN(const LoadedAdapter loaded, LoadWithText(dir));
  LetClose(loaded.id, files,
           [roots = options_.roots, path = dir.path()] { return roots.Find(path); });
  return MakeKnown(loaded, files->digest());
}

StatusOr<GenerationStore::Incoming> LocalAdapters::CopyIn(const Folder& dir) {
  auto incoming = options_.store->Copy(dir);
  // Where files are missing, what reads adapters knows better what to say.
  if (incoming.status().code() == StatusCode::kNotFound) {
    RETURN_IF_ERROR(runner_.VerifyAdapter(dir, Adapter::Values::kFinite).status());
  }
  return incoming;
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::Open(
    const GenerationStore::Incoming& incoming, const std::string& source) {
  if (GenerationPtr known = FindKnown(incoming.digest())) return known;
  auto loaded = LoadWithText(incoming.dir());
  if (!loaded.ok()) return WithSource(loaded.status(), incoming.dir(), source);
  return MakeKnown(*loaded, incoming.digest());
}

Status LocalAdapters::Keep(GenerationStore::Incoming incoming, const Generation& generation) {
  CHECK(options_.store != nullptr);
  RETURN_IF_ERROR(options_.store->Keep(std::move(incoming)));
  LetCloseStored(generation->adapter, generation->digest);
  return OkStatus();
}

StatusOr<Generation::Description> LocalAdapters::Verify(const std::string& source) {
  ASSIGN_OR_RETURN(const Folder dir, options_.roots.Find(source));
  auto verified = options_.store == nullptr ? VerifyInPlace(dir) : VerifyCopy(dir, source);
  if (!verified.ok()) return WithSource(verified.status(), dir.path(), source);
  return verified;
}

StatusOr<Generation::Description> LocalAdapters::VerifyCopy(const Folder& dir,
                                                            const std::string& source) {
  ASSIGN_OR_RETURN(const GenerationStore::Incoming incoming, CopyIn(dir));
  return Verify(incoming, source);
}

StatusOr<Generation::Description> LocalAdapters::VerifyInPlace(const Folder& dir) {
  ASSIGN_OR_RETURN(const LoadedAdapter verified,
                   runner_.VerifyAdapter(dir, Adapter::Values::kUnknown));
  RETURN_IF_ERROR(ReadTextStrictly(dir, verified.vocab_size).status());
  ASSIGN_OR_RETURN(const std::string digest, DigestOfAdapter(dir));
  return Describe(verified, digest);
}

StatusOr<Generation::Description> LocalAdapters::Verify(const GenerationStore::Incoming& incoming,
                                                        const std::string& source) {
  const auto verified = runner_.VerifyAdapter(incoming.dir(), Adapter::Values::kUnknown);
  if (!verified.ok()) return WithSource(verified.status(), incoming.dir(), source);
  const auto text = ReadTextStrictly(incoming.dir(), verified->vocab_size);
  if (!text.ok()) return WithSource(text.status(), incoming.dir(), source);
  return Describe(*verified, incoming.digest());
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::Recall(const std::string& digest) {
  const bool is_kept = options_.store != nullptr && options_.store->Has(digest);
  // With a store, one that is not in it would be gone after a restart.
  GenerationPtr known = is_kept || options_.store == nullptr ? FindKnown(digest) : nullptr;
  if (known != nullptr) return known;
  if (!is_kept) {
    return NotFound(StrCat("the files of generation ", digest,
                           " are not kept here: the server was started without --state-dir, or "
                           "they were given on the command line"));
  }
  const std::string dir = options_.store->DirOf(digest);
  ASSIGN_OR_RETURN(LoadedAdapter loaded, runner_.VerifyAdapter(dir, Adapter::Values::kFinite));
  return Restore({.digest = digest, .rank = loaded.rank, .bytes = loaded.bytes});
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::Adopt(AdapterId adapter,
                                                                 const std::string& dir) {
  const LoadedAdapter loaded = runner_.Describe(adapter);
  auto read = VerifiedFiles::Read(dir);
  auto text = read.ok() ? ReadText(dir, loaded.vocab_size) : read.status();
  if (!text.ok()) {
    runner_.UnloadAdapter(adapter);
    return text.status();
  }
  const auto files = std::make_shared<VerifiedFiles>(*std::move(read));
  const std::string& digest = files->digest();
  SetText(adapter, *std::move(text));
  auto generation = MakeKnown(loaded, digest);
  LetClose(adapter, files, [folder = Folder(dir)] { return folder; });
  const std::lock_guard lock(mutex_);
  given_.emplace(digest, Given{dir, files});
  return generation;
}

std::shared_ptr<const Generation> LocalAdapters::Restore(const Generation::Description& stored) {
  CHECK(options_.store != nullptr);
  const std::string& digest = stored.digest;
  if (GenerationPtr known = FindKnown(digest)) {
    LetCloseStored((*known)->adapter, digest);
    return known;
  }
  const std::string dir = options_.store->DirOf(digest);
  const LoadedAdapter loaded = {
      .id = runner_.AddAdapter(dir), .rank = stored.rank, .bytes = stored.bytes};
  return MakeKnown(loaded, digest, std::make_shared<UnreadText>(dir));
}

std::shared_ptr<const Generation> LocalAdapters::FindKnown(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(digest);
  return known == known_.end() ? nullptr : known->second.lock();
}

void LocalAdapters::Forget(const Generation& generation) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(generation->digest);
  if (known != known_.end() && known->second.lock().get() == &generation) known_.erase(known);
}

std::shared_ptr<const Generation> LocalAdapters::MakeKnown(
    const LoadedAdapter& loaded, const std::string& digest,
    const std::shared_ptr<UnreadText>& unread) {
  const AdapterId id = loaded.id;
  auto generation = std::make_shared<const Generation>(
      Describe(loaded, digest),
      Generation::Hooks{
          .prepare = [this, id, unread] { return Prepare(id, unread.get()); },
          .find_prepared =
              [this, id, unread] {
                return unread == nullptr || unread->is_read ? runner_.FindOpenAdapter(id) : nullptr;
              },
          .release = [this, id, digest] { Release(id, digest); },
          .residence = [this, id] { return ResidenceOf(id); },
          .pin = [this, id](auto& tenant) { return runner_.PinAdapter(id, tenant); }});
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Generation>& known = known_[digest];
  // Ours is then let go of by the caller, after the lock.
  if (GenerationPtr other = known.lock()) return other;
  known = generation;
  return generation;
}

StatusOr<Generation::Opened> LocalAdapters::Prepare(AdapterId adapter, UnreadText* unread) {
  if (unread == nullptr) return runner_.OpenAdapter(adapter);
  const std::lock_guard lock(unread->mutex);
  ASSIGN_OR_RETURN(Generation::Opened opened, runner_.OpenAdapter(adapter));
  if (!unread->is_read) {
    ASSIGN_OR_RETURN(gateway::ModelTextPtr text,
                     ReadText(unread->dir, runner_.Describe(adapter).vocab_size));
    SetText(adapter, std::move(text));
    unread->is_read = true;
  }
  return opened;
}

Generation::Residence LocalAdapters::ResidenceOf(AdapterId adapter) const {
  if (runner_.IsInPool(adapter)) return Generation::Residence::kPool;
  return runner_.IsOpen(adapter) ? Generation::Residence::kHost : Generation::Residence::kDisk;
}

void LocalAdapters::Release(AdapterId adapter, const std::string& digest) {
  if (options_.texts != nullptr) options_.texts->Erase(adapter);
  runner_.UnloadAdapter(adapter);
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(digest);
  // There may be a new one of the same bytes by now.
  if (known != known_.end() && known->second.expired()) known_.erase(known);
}

// Its folder is somebody else's: what is there when it is opened again may be another adapter.
void LocalAdapters::LetClose(AdapterId adapter, std::shared_ptr<VerifiedFiles> files,
                             std::function<StatusOr<Folder>()> find) {
  runner_.LetClose(adapter,
                   [files = std::move(files), find = std::move(find)]() -> StatusOr<Folder> {
                     ASSIGN_OR_RETURN(Folder dir, find());
                     RETURN_IF_ERROR(files->Check(dir));
                     return dir;
                   });
}

// What is in the store is what it was, but goes with the last name that stands for it.
void LocalAdapters::LetCloseStored(AdapterId adapter, const std::string& digest) {
  Given given;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = given_.find(digest); found != given_.end()) given = found->second;
  }
  const Folder stored(options_.store->DirOf(digest));
  if (given.files == nullptr) return runner_.LetClose(adapter, [dir = stored] { return dir; });
  LetClose(adapter, given.files,
           [store = options_.store, digest, stored, folder = Folder(given.dir)] {
             return store->Has(digest) ? stored : folder;
           });
}

StatusOr<LoadedAdapter> LocalAdapters::LoadWithText(const Folder& dir) {
  ASSIGN_OR_RETURN(const LoadedAdapter loaded, runner_.LoadAdapter(dir));
  auto text = ReadTextStrictly(dir, loaded.vocab_size);
  if (!text.ok()) {
    runner_.UnloadAdapter(loaded.id);
    return text.status();
  }
  SetText(loaded.id, *std::move(text));
  return loaded;
}

StatusOr<gateway::ModelTextPtr> LocalAdapters::ReadTextStrictly(const Folder& dir,
                                                                int64_t vocab_size) const {
  if (options_.text_reader == nullptr) return nullptr;
  return options_.text_reader->ReadStrictly(dir, vocab_size);
}

StatusOr<gateway::ModelTextPtr> LocalAdapters::ReadText(const Folder& dir,
                                                        int64_t vocab_size) const {
  if (options_.text_reader == nullptr) return nullptr;
  return options_.text_reader->Read(dir, vocab_size);
}

void LocalAdapters::SetText(AdapterId adapter, gateway::ModelTextPtr text) {
  if (text != nullptr) options_.texts->Set(adapter, std::move(text));
}

}  // namespace aril
