#include "gateway/adapter_changes.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/strings.h"
#include "catalog/split.h"
#include "gateway/adapter_description.h"
#include "gateway/adapter_errors.h"
#include "gateway/adapter_splits.h"

namespace aril::gateway {
namespace {

constexpr size_t kShownDigits = 12;  // of a digest, in the log

// Where the files of a generation came from when the name last stood for it; empty if unknown.
std::string SourceOf(const CatalogEntry& entry, const std::string& digest) {
  const auto& history = entry.history;
  const auto past =
      std::ranges::find(history.rbegin(), history.rend(), digest, &PastGeneration::digest);
  return past == history.rend() ? "" : past->source;
}

// What the name is to stand for, and where that came from.
ApiResult<CatalogEntry> Obtain(const AdapterChange& change, const RequestContext& context,
                               AdapterLoader& loader, const ChangeParams& params) {
  CatalogEntry entry = {
      .name = change.name, .parent = context.model.catalog->base_name(), .root = change.source};
  if (!change.source.empty()) {
    auto loaded = loader.Load(change.source);
    if (!loaded.ok()) return WithParam(FromStatus(loaded.status()), params.source);
    entry.generation = *std::move(loaded);
    return entry;
  }
  if (!change.split.empty()) return ObtainSplit(change, context, loader);
  const CatalogEntryPtr current = FindAdapter(context, change.name);
  if (current == nullptr || !HasStoodFor(*current, change.generation)) {
    return NotInHistory(change.name, "generation");
  }
  if (change.generation.starts_with(kSplitPrefix)) {
    return RecallSplit(change, *current, context, loader);
  }
  auto recalled = loader.Recall(change.generation);
  if (!recalled.ok()) return WithParam(FromStatus(recalled.status()), "generation");
  entry.generation = *std::move(recalled);
  entry.root = SourceOf(*current, change.generation);
  return entry;
}

// Fills in what the change leaves as it is.
std::optional<ApiError> Complete(const RequestContext& context, AdapterChange* change) {
  const CatalogEntryPtr current = FindAdapter(context, change->name);
  if (!change->pin.has_value()) change->pin = current != nullptr && current->is_pinned;
  if (*change->pin && change->ttl_seconds != 0) {
    return InvalidField("ttl_seconds",
                        "A pinned adapter stays: give `ttl_seconds` only with `pin`: false.");
  }
  if (change->HasTarget()) return std::nullopt;
  if (current == nullptr) return AdapterNotFound(change->name, "");
  change->generation = (*current->generation)->digest;
  return std::nullopt;
}

int64_t ExpiryOf(const AdapterChange& change, int64_t now_unix) {
  return change.ttl_seconds == 0 ? 0 : now_unix + change.ttl_seconds;
}

void LogChange(const CatalogEntry& entry) {
  LogInfo(StrCat("adapter ", entry.name, " is generation ",
                 (*entry.generation)->digest.substr(0, kShownDigits), " from ",
                 JsonQuote(entry.root)));  // a client's text, on one line
}

// Pins what the change asks to be pinned; it is complete.
Status PinIfWanted(const AdapterChange& change, std::string_view tenant, CatalogEntry* wanted) {
  wanted->is_pinned = *change.pin;
  if (!wanted->is_pinned) return OkStatus();
  ASSIGN_OR_RETURN(wanted->pin, wanted->generation->Pin(std::string(tenant)));
  return OkStatus();
}

// Files that are here, and have been verified.
struct OpenedFiles {
  GenerationStore::Incoming incoming;
  std::shared_ptr<const Generation> generation;
};

// Makes them what the name stands for; the change is complete. Whoever calls holds
// loads->changes().
StatusOr<CatalogEntryPtr> KeepAndPut(const AdapterChange& change, std::string_view tenant,
                                     OpenedFiles opened, Catalog& catalog,
                                     const RemoteLoading& remote) {
  RETURN_IF_ERROR(catalog.CheckChange(tenant, change.name, change.expected));
  CatalogEntry wanted = {.name = change.name,
                         .parent = catalog.base_name(),
                         .root = change.source,
                         .generation = std::move(opened.generation),
                         .expires_unix = ExpiryOf(change, remote.clock->UnixSeconds())};
  // Before anything is kept: what cannot be pinned leaves nothing behind.
  RETURN_IF_ERROR(PinIfWanted(change, tenant, &wanted));
  RETURN_IF_ERROR(remote.loader->Keep(std::move(opened.incoming), *wanted.generation));
  ASSIGN_OR_RETURN(CatalogEntryPtr entry, catalog.Put(tenant, std::move(wanted), change.expected));
  LogChange(*entry);
  return entry;
}

// Counts what arrives, what is fetched again included.
class CountingMonitor final : public TransferMonitor {
 public:
  explicit CountingMonitor(TransferMonitor& inner) : inner_(inner) {}

  bool IsCancelled() const override { return inner_.IsCancelled(); }
  void OnProgress(int64_t done_bytes, int64_t total_bytes) override {
    bytes_ += std::max<int64_t>(0, done_bytes - last_bytes_);
    last_bytes_ = done_bytes;
    inner_.OnProgress(done_bytes, total_bytes);
  }
  bool Wait(Duration duration) override { return inner_.Wait(duration); }
  int64_t bytes() const { return bytes_; }

 private:
  TransferMonitor& inner_;
  int64_t last_bytes_ = 0;
  int64_t bytes_ = 0;
};

StatusOr<GenerationStore::Incoming> Fetch(const std::string& source, const RemoteLoading& remote,
                                          TransferMonitor& monitor) {
  CountingMonitor counting(monitor);
  const TimePoint begin = remote.clock->Now();
  auto incoming = remote.loader->Fetch(source, counting);
  if (remote.on_fetch) {
    remote.on_fetch(source, incoming.status(), counting.bytes(), remote.clock->Now() - begin);
  }
  return incoming;
}

// What a load does, on a thread of its own.
Status FetchAndPut(const AdapterChange& change, const std::string& tenant, Catalog& catalog,
                   const RemoteLoading& remote, TransferMonitor& monitor) {
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, Fetch(change.source, remote, monitor));
  RETURN_IF_ERROR(CheckDigests(incoming, change.digests));
  ASSIGN_OR_RETURN(auto generation, remote.loader->Open(incoming, change.source));
  // Only what decides excludes other changes: nobody waits while files are read.
  const std::lock_guard lock(remote.loads->changes());
  if (monitor.IsCancelled()) return MakeStatus(StatusCode::kCancelled, "cancelled");
  return KeepAndPut(change, tenant, {std::move(incoming), std::move(generation)}, catalog, remote)
      .status();
}

// Why nothing is fetched for the change.
std::optional<ApiError> CheckLoad(const AdapterChange& change, const RequestContext& context,
                                  const RemoteLoading& remote, const ChangeParams& params) {
  const Status allowed =
      context.model.catalog->CheckChange(context.tenant, change.name, change.expected);
  if (!allowed.ok()) return ChangeError(allowed, params.name);
  const Status source = remote.loader->Check(change.source);
  if (!source.ok()) return WithParam(FromStatus(source), params.source);
  return std::nullopt;
}

// What a trial does, on a thread of its own.
Verified FetchAndVerify(const AdapterChange& change, const RemoteLoading& remote,
                        TransferMonitor& monitor) {
  ASSIGN_OR_RETURN(const GenerationStore::Incoming incoming, Fetch(change.source, remote, monitor));
  RETURN_IF_ERROR(CheckDigests(incoming, change.digests));
  return remote.loader->Verify(incoming, change.source);
}

// All of a change whose files are known by their digests: elsewhere there may be other files by the
// time that somebody asks again. The change is complete.
std::string IdentityOf(const AdapterChange& change) {
  if (change.digests.IsEmpty()) return "";
  Json::Object files;
  for (const auto& [name, digest] : change.digests.files) files.emplace_back(name, digest);
  Json::Object identity = {{"source", change.source},
                           {"digest", change.digests.generation},
                           {"files", std::move(files)},
                           {"ttl_seconds", change.ttl_seconds},
                           {"pin", *change.pin}};
  if (change.expected.has_value()) identity.emplace_back("expected", *change.expected);
  return Json(std::move(identity)).Dump();
}

}  // namespace

ApiResult<CatalogEntryPtr> ApplyChange(AdapterChange change, const RequestContext& context,
                                       AdapterLoader& loader, const RemoteLoading& remote,
                                       const ChangeParams& params) {
  Catalog& catalog = *context.model.catalog;
  // Before the adapter is read; Put decides.
  const Status allowed = catalog.CheckChange(context.tenant, change.name, change.expected);
  if (!allowed.ok()) return ChangeError(allowed, params.name);
  if (auto error = Complete(context, &change)) return *error;
  auto obtained = Obtain(change, context, loader, params);
  if (!obtained.ok()) return obtained.error();
  CatalogEntry& wanted = obtained.value();
  wanted.expires_unix = ExpiryOf(change, context.unix_seconds);
  const Status pinned = PinIfWanted(change, context.tenant, &wanted);
  if (!pinned.ok()) {
    catalog.Discard(wanted);
    return ChangeError(pinned, "pin");
  }
  auto entry = catalog.Put(context.tenant, std::move(wanted), change.expected);
  if (!entry.ok()) return ChangeError(entry.status(), params.name);
  // The newest change is what the name is to stand for.
  if (remote.loads != nullptr) remote.loads->Cancel(std::string(context.tenant), change.name);
  LogChange(**entry);
  return *std::move(entry);
}

ApiResult<CatalogEntryPtr> ApplyUpload(AdapterChange change, GenerationStore::Incoming upload,
                                       const RequestContext& context, const RemoteLoading& remote) {
  if (auto error = Complete(context, &change)) return *error;
  auto generation = remote.loader->Open(upload, change.source);
  if (!generation.ok()) return ChangeError(generation.status(), "");
  auto entry = KeepAndPut(change, context.tenant, {std::move(upload), *std::move(generation)},
                          *context.model.catalog, remote);
  if (!entry.ok()) return ChangeError(entry.status(), "");
  remote.loads->Cancel(std::string(context.tenant), change.name);
  return *std::move(entry);
}

Status RemoveAdapter(const std::string& name, const Catalog::Expected& expected,
                     const RequestContext& context) {
  RETURN_IF_ERROR(context.model.catalog->Remove(context.tenant, name, expected));
  LogInfo(StrCat("adapter ", name, " is unloaded"));
  return OkStatus();
}

bool IsRemote(const AdapterChange& change, const RemoteLoading& remote) {
  return remote.loader != nullptr && remote.loader->IsRemote(change.source);
}

std::optional<ApiError> StartLoad(AdapterChange change, const RequestContext& context,
                                  const RemoteLoading& remote, const ChangeParams& params,
                                  AdapterLoads::Done done) {
  const std::shared_ptr<Catalog> catalog = context.model.catalog;
  const std::string tenant(context.tenant);
  if (auto error = CheckLoad(change, context, remote, params)) return error;
  if (auto error = Complete(context, &change)) return error;
  const auto work = [change, tenant, catalog, remote](TransferMonitor& monitor) {
    Status status = FetchAndPut(change, tenant, *catalog, remote, monitor);
    if (!status.ok() && status.code() != StatusCode::kCancelled) {
      LogWarning(StrCat("adapter ", change.name, " could not be loaded from ",
                        JsonQuote(change.source), ": ", JsonQuote(Message(status))));
    }
    return status;
  };
  const Status started = remote.loads->Start({.tenant = tenant,
                                              .name = change.name,
                                              .source = change.source,
                                              .identity = IdentityOf(change)},
                                             work, std::move(done));
  if (!started.ok()) return FromStatus(started);
  return std::nullopt;
}

std::optional<ApiError> StartTrial(const AdapterChange& change, const RequestContext& context,
                                   const RemoteLoading& remote, const ChangeParams& params,
                                   std::function<void(const Verified&)> done) {
  if (auto error = CheckLoad(change, context, remote, params)) return error;
  const auto verified = std::make_shared<Verified>();
  const auto work = [change, remote, verified](TransferMonitor& monitor) {
    *verified = FetchAndVerify(change, remote, monitor);
    return verified->status();
  };
  const Status started =
      remote.loads->Start({.tenant = std::string(context.tenant),
                           .name = change.name,
                           .source = change.source,
                           .is_trial = true},
                          work, [verified, done = std::move(done)](const Status& status) {
                            done(status.ok() ? *verified : Verified(status));
                          });
  if (!started.ok()) return FromStatus(started);
  return std::nullopt;
}

}  // namespace aril::gateway
