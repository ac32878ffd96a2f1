#include "apps/local_adapters.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <list>
#include <optional>
#include <system_error>
#include <utility>

#include "apps/served_model.h"
#include "base/check.h"
#include "base/strings.h"

namespace aril {

namespace fs = std::filesystem;

namespace {

bool IsBeneath(const fs::path& path, const fs::path& root) {
  const auto [in_root, in_path] = std::ranges::mismatch(root, path);
  return in_root == root.end();
}

// Where an absolute path leads, whether there is something or not, with no link and no ".." left.
// (weakly_canonical leaves the links that stand behind a missing element, and those that lead to
// nothing.) nullopt for what the system would not follow either.
std::optional<fs::path> Follow(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // Linux's: path_resolution(7)
  if (path.native().size() >= PATH_MAX) return std::nullopt;
  std::list<fs::path> ahead(path.begin(), path.end());
  fs::path at;
  for (int num_links = 0; !ahead.empty(); ahead.pop_front()) {
    const fs::path& element = ahead.front();
    if (element.empty() || element == ".") continue;
    if (element == "..") {
      at = at.parent_path();
      continue;
    }
    std::error_code error;
    const fs::path target = fs::read_symlink(at / element, error);
    if (error) {
      at /= element;  // no link
    } else if (++num_links > kMaxLinks) {
      return std::nullopt;
    } else {
      ahead.insert(std::next(ahead.begin()), target.begin(), target.end());
    }
  }
  return at;
}

Generation::Description Describe(const LoadedAdapter& loaded, const std::string& digest) {
  return {.adapter = loaded.id, .digest = digest, .rank = loaded.rank, .bytes = loaded.bytes};
}

// An error that names the source, not the copy.
Status WithPath(const Status& status, const std::string& path, const std::string& instead) {
  std::string message = Message(status);
  if (const size_t at = message.find(path); at != std::string::npos) {
    message.replace(at, path.size(), instead);
  }
  return MakeStatus(status.code(), message);
}

// InvalidArgument if a file that an adapter is read from lies beneath none of the roots: whoever
// may write there must not have the server read what only the server may.
Status CheckFiles(const std::vector<fs::path>& roots, const std::string& dir) {
  for (const std::string& name : AdapterFileNames()) {
    const fs::path file = fs::path(dir) / name;
    const std::optional<fs::path> path = Follow(file);
    const auto is_above = [&](const fs::path& root) { return IsBeneath(*path, root); };
    if (path.has_value() && std::ranges::any_of(roots, is_above)) continue;
    return InvalidArgument(file.string() +
                           ": must be a file beneath a folder that the operator allowed with "
                           "--adapter-root");
  }
  return OkStatus();
}

StatusOr<std::string> FindAdapter(const std::vector<fs::path>& roots, const std::string& source) {
  ASSIGN_OR_RETURN(std::string dir, FindBeneath(roots, source));
  RETURN_IF_ERROR(CheckFiles(roots, dir));
  return dir;
}

}  // namespace

StatusOr<std::string> FindBeneath(const std::vector<fs::path>& roots, const std::string& source) {
  bool is_inside = false;
  for (const fs::path& root : roots) {
    if (source.find('\0') != std::string::npos) break;  // the system would read what is before it
    const std::optional<fs::path> path = Follow(root / source);
    if (!path.has_value() || !IsBeneath(*path, root)) continue;
    std::error_code error;
    if (fs::is_directory(*path, error)) return path->string();
    is_inside = true;
  }
  if (is_inside) return NotFound(StrCat("there is no folder ", source));
  return InvalidArgument(
      "the path must lead to an adapter's folder beneath one that the operator allowed with "
      "--adapter-root");
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::Load(const std::string& source) {
  ASSIGN_OR_RETURN(const std::string dir, FindAdapter(options_.roots, source));
  if (options_.store != nullptr) {
    ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, CopyIn(dir));
    return Take(std::move(incoming), dir);
  }
  ASSIGN_OR_RETURN(const std::string digest, DigestOfAdapter(dir));
  if (GenerationPtr known = FindKnown(digest)) return known;
  ASSIGN_OR_RETURN(const LoadedAdapter loaded, runner_.LoadAdapter(dir));
  ReadTemplate(loaded.id, dir);
  LetClose(loaded.id, dir, digest);
  return MakeKnown(loaded, digest);
}

StatusOr<GenerationStore::Incoming> LocalAdapters::CopyIn(const std::string& dir) {
  auto incoming = options_.store->Copy(dir);
  // Where files are missing, what reads adapters knows better what to say.
  if (incoming.status().code() == StatusCode::kNotFound) {
    RETURN_IF_ERROR(runner_.VerifyAdapter(dir, Adapter::Values::kFinite).status());
  }
  return incoming;
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::Take(GenerationStore::Incoming incoming,
                                                                const std::string& source) {
  CHECK(options_.store != nullptr);
  const std::string digest = incoming.digest();
  GenerationPtr generation = FindKnown(digest);
  if (generation == nullptr) {
    const bool is_kept = options_.store->Has(digest);
    const std::string copy = is_kept ? options_.store->DirOf(digest) : incoming.dir();
    auto loaded = runner_.LoadAdapter(copy);
    if (!loaded.ok()) return WithPath(loaded.status(), copy, source);
    ReadTemplate(loaded->id, copy);
    generation = MakeKnown(*loaded, digest);
  }
  RETURN_IF_ERROR(options_.store->Keep(std::move(incoming)));
  // What is in the store is what it was.
  runner_.LetClose((*generation)->adapter, options_.store->DirOf(digest),
                   [] { return OkStatus(); });
  return generation;
}

StatusOr<Generation::Description> LocalAdapters::Verify(const std::string& source) {
  ASSIGN_OR_RETURN(const std::string dir, FindAdapter(options_.roots, source));
  if (options_.store == nullptr) {
    ASSIGN_OR_RETURN(const LoadedAdapter verified,
                     runner_.VerifyAdapter(dir, Adapter::Values::kUnknown));
    ASSIGN_OR_RETURN(const std::string digest, DigestOfAdapter(dir));
    return Describe(verified, digest);
  }
  ASSIGN_OR_RETURN(const GenerationStore::Incoming incoming, CopyIn(dir));
  return Verify(incoming, dir);
}

StatusOr<Generation::Description> LocalAdapters::Verify(const GenerationStore::Incoming& incoming,
                                                        const std::string& source) {
  const auto verified = runner_.VerifyAdapter(incoming.dir(), Adapter::Values::kUnknown);
  if (!verified.ok()) return WithPath(verified.status(), incoming.dir(), source);
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
  return Restore({.history = {{.digest = digest}}, .rank = loaded.rank, .bytes = loaded.bytes});
}

StatusOr<std::shared_ptr<const Generation>> LocalAdapters::Adopt(AdapterId adapter,
                                                                 const std::string& dir) {
  const auto read = DigestOfAdapter(dir);
  if (!read.ok()) {
    runner_.UnloadAdapter(adapter);
    return read.status();
  }
  const std::string& digest = *read;
  ReadTemplate(adapter, dir);
  auto generation = MakeKnown(runner_.Describe(adapter), digest);
  LetClose(adapter, dir, digest);
  return generation;
}

std::shared_ptr<const Generation> LocalAdapters::Restore(const RegisteredAdapter& registered) {
  CHECK(options_.store != nullptr);
  const std::string& digest = registered.history.back().digest;
  if (GenerationPtr known = FindKnown(digest)) return known;
  const std::string dir = options_.store->DirOf(digest);
  const LoadedAdapter loaded = {
      .id = runner_.AddAdapter(dir), .rank = registered.rank, .bytes = registered.bytes};
  struct Opened {
    std::mutex mutex;
    bool done = false;
  };
  auto prepare = [this, dir, id = loaded.id, opened = std::make_shared<Opened>()] {
    const std::lock_guard lock(opened->mutex);
    RETURN_IF_ERROR(runner_.OpenAdapter(id));
    if (opened->done) return OkStatus();
    ReadTemplate(id, dir);
    opened->done = true;
    return OkStatus();
  };
  return MakeKnown(loaded, digest, std::move(prepare));
}

std::shared_ptr<const Generation> LocalAdapters::FindKnown(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(digest);
  return known == known_.end() ? nullptr : known->second.lock();
}

std::shared_ptr<const Generation> LocalAdapters::MakeKnown(const LoadedAdapter& loaded,
                                                           const std::string& digest,
                                                           std::function<Status()> prepare) {
  if (!prepare) prepare = [this, id = loaded.id] { return runner_.OpenAdapter(id); };
  auto generation = std::make_shared<const Generation>(
      Describe(loaded, digest),
      Generation::Hooks{.prepare = std::move(prepare),
                        .release = [this, id = loaded.id, digest] { Release(id, digest); },
                        .residence = [this, id = loaded.id] { return ResidenceOf(id); },
                        .pin = [this, id = loaded.id] { return runner_.PinAdapter(id); }});
  const std::lock_guard lock(mutex_);
  known_.insert_or_assign(digest, generation);
  return generation;
}

Generation::Residence LocalAdapters::ResidenceOf(AdapterId adapter) const {
  if (runner_.IsInPool(adapter)) return Generation::Residence::kPool;
  return runner_.IsOpen(adapter) ? Generation::Residence::kHost : Generation::Residence::kDisk;
}

void LocalAdapters::Release(AdapterId adapter, const std::string& digest) {
  options_.templates->Erase(adapter);
  runner_.UnloadAdapter(adapter);
  const std::lock_guard lock(mutex_);
  const auto known = known_.find(digest);
  // There may be a new one of the same bytes by now.
  if (known != known_.end() && known->second.expired()) known_.erase(known);
}

// Its folder is somebody else's: what is there when it is opened again may be another adapter.
void LocalAdapters::LetClose(AdapterId adapter, const std::string& dir, const std::string& digest) {
  runner_.LetClose(adapter, dir, [dir, digest]() -> Status {
    ASSIGN_OR_RETURN(const std::string now, DigestOfAdapter(dir));
    if (now == digest) return OkStatus();
    return FailedPrecondition(StrCat(dir, ": the files are not those that were loaded: they are ",
                                     "generation ", now, " now, not ", digest,
                                     "; load the adapter again, or put the files back"));
  });
}

void LocalAdapters::ReadTemplate(AdapterId adapter, const std::string& dir) {
  if (auto own = ReadAdapterTemplate(dir, options_.special_tokens)) {
    options_.templates->Set(adapter, *std::move(own));
  }
}

}  // namespace aril
