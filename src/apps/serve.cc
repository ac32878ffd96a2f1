#include "apps/serve.h"

#include <memory>
#include <optional>
#include <utility>

#include "apps/adapter_list.h"
#include "apps/fd_limit.h"
#include "apps/front.h"
#include "apps/local_adapters.h"
#include "apps/model_fingerprint.h"
#include "apps/remote_adapters.h"
#include "apps/served_model.h"
#include "apps/start_up.h"
#include "base/log.h"
#include "base/strings.h"
#include "catalog/restore_entry.h"
#include "catalog/state_dir.h"
#include "sources/adapter_fetcher.h"

namespace aril {
namespace {

using gateway::HttpServer;

// The base model, and the adapters that the command line gave, in the order of the runner's.
StatusOr<std::vector<CatalogEntry>> AdoptAdapters(const std::vector<std::string>& base_names,
                                                  const std::string& model_dir,
                                                  std::vector<NamedAdapter> adapters,
                                                  bool skip_bad_adapters,
                                                  LocalAdapters& local_adapters, int64_t now_unix) {
  std::vector<std::shared_ptr<const Generation>> generations;
  std::vector<AdapterFailure> failures;
  for (size_t i = 0; i < adapters.size(); ++i) {
    // Reads what the runner has not: the files of its chat template.
    auto generation = local_adapters.Adopt(AdapterId(static_cast<int32_t>(i)), adapters[i].dir);
    if (generation.ok()) {
      generations.push_back(*std::move(generation));
    } else {
      failures.push_back({i, generation.status()});
    }
  }
  if (!failures.empty() && !skip_bad_adapters) return DescribeFailures(failures, adapters);
  RemoveFailed(failures, &adapters);
  return EntriesOf(base_names, model_dir, adapters, generations, now_unix);
}

// The pool may be smaller than when it was pinned, or the files gone: it is served as well as it
// can be, and says so.
void RestorePin(CatalogEntry* entry) {
  auto pin = entry->generation->Pin(entry->owner.empty() ? kDefaultTenant : entry->owner);
  if (pin.ok()) {
    entry->pin = *std::move(pin);
    return;
  }
  LogWarning(StrCat("adapter ", entry->name, " of tenant ", JsonQuote(entry->owner),
                    " cannot be pinned: ", Message(pin.status())));
  const bool is_full = pin.status().code() == StatusCode::kFailedPrecondition;
  entry->pin_error =
      is_full ? Message(pin.status()) : "its files cannot be read; the server's log says why";
}

// Adds what clients of earlier processes have loaded.
Status RestoreAdapters(const std::string& parent, const StateDir& state,
                       LocalAdapters& local_adapters, std::vector<CatalogEntry>* entries) {
  ASSIGN_OR_RETURN(const std::vector<RegisteredAdapter> registered, state.registry->List());
  for (const RegisteredAdapter& row : registered) {
    auto entry = RestoreEntry(row, parent, [&](const Generation::Description& stored) {
      return local_adapters.Restore(stored);
    });
    if (!entry.ok()) return Annotate(entry.status(), "the registry's adapter " + row.name);
    if (entry->is_pinned) RestorePin(&*entry);
    entries->push_back(*std::move(entry));
  }
  LogInfo(StrCat("restored ", registered.size(), " adapters that clients have loaded"));
  return OkStatus();
}

gateway::AdapterCounts CountsOf(const LocalRunner& runner) {
  const AdapterTiers tiers = runner.CountAdapters();
  return {.in_pool = tiers.in_pool,
          .on_host = tiers.on_host,
          .on_disk = tiers.on_disk,
          .open_bytes = tiers.open_bytes,
          .num_closed = tiers.num_closed,
          .pinned_bytes = runner.PinnedBytesByTenant()};
}

// Disk space is all that is lost if this fails; the next start tries again.
void Forget(const StateDir& state, const std::string& digest) {
  const Status removed = state.store.Remove(digest);
  if (!removed.ok()) LogWarning("a generation that nobody needs stays: " + Message(removed));
}

// Until `use` returns.
Status ServeTo(const ServeOptions& options, const Clock& clock, std::unique_ptr<HttpServer> server,
               Front::Place place, const std::function<Status(Front&)>& use) {
  RETURN_IF_ERROR(CheckModelDir(options.runner.model_dir));
  ASSIGN_OR_RETURN(std::vector<NamedAdapter> adapters, ListAdapters(options));
  ASSIGN_OR_RETURN(AdapterRoots roots, AdapterRoots::Of(options.adapter_roots));
  std::optional<StateDir> state;
  if (!options.state_dir.empty()) {
    ASSIGN_OR_RETURN(const std::string base, ModelFingerprint(options.runner.model_dir));
    ASSIGN_OR_RETURN(state, OpenStateDir(options.state_dir, base));
  }
  // Outlive everything that knows adapters, which are given back when nobody uses them any more.
  std::unique_ptr<LocalRunner> runner;
  std::optional<LocalAdapters> local_adapters;
  std::optional<RemoteAdapters> remote_adapters;
  Front front(std::move(server), options, clock, place);
  // What can be wrong is found before the weights are read, which takes longest.
  const std::vector<std::string> base_names = BaseNames(options.text);
  RETURN_IF_ERROR(Catalog::Create(EntriesOf(base_names, options.text.model_dir, adapters,
                                            Placeholders(adapters.size()), 0),
                                  {})
                      .status());
  ASSIGN_OR_RETURN(ReadModel read, ReadServedModel(options.text));
  gateway::ServedModel& model = read.served;
  ASSIGN_OR_RETURN(runner, MakeRunner(options, read.tokenizer, clock, &adapters));
  local_adapters.emplace(*runner, LocalAdapters::Options{.roots = std::move(roots),
                                                         .text_reader = read.adapter_text,
                                                         .texts = model.adapter_texts,
                                                         .store = state ? &state->store : nullptr});
  ASSIGN_OR_RETURN(std::vector<CatalogEntry> entries,
                   AdoptAdapters(base_names, options.text.model_dir, adapters,
                                 options.skip_bad_adapters, *local_adapters, clock.UnixSeconds()));
  Catalog::Options catalog_options = {.clock = &clock};
  if (state) {
    RETURN_IF_ERROR(RestoreAdapters(base_names.front(), *state, *local_adapters, &entries));
    catalog_options.registry = state->registry.get();
    catalog_options.on_forgotten = [&state](const std::string& digest) { Forget(*state, digest); };
    remote_adapters.emplace(AdapterFetcher(options.sources, clock), *local_adapters, state->store);
  }
  ASSIGN_OR_RETURN(model.catalog, Catalog::Create(std::move(entries), std::move(catalog_options)));
  DescribeRunner(runner->spec(), runner->max_model_len(), &model);
  model.created = clock.UnixSeconds();
  model.check_format = [formats = runner->formats()](const wire::OutputFormat& format) {
    return formats->Get(format).status();
  };
  front.SetAdapterCounts([&runner] { return CountsOf(*runner); });
  runner->Start(front.sink());
  LogInfo(runner->Description());
  front.Begin(std::make_shared<const gateway::ServedModel>(std::move(model)), &runner->port(),
              MayChangeAdapters(options) ? &*local_adapters : nullptr,
              remote_adapters ? &*remote_adapters : nullptr);
  Status used = use(front);
  front.Stop();
  runner->Stop();
  return used;
}

}  // namespace

Status Serve(const ServeOptions& options, const Clock& clock) {
  RETURN_IF_ERROR(RaiseFdLimit(options.http.max_connections));
  ASSIGN_OR_RETURN(auto server, HttpServer::Listen(options.http));
  return ServeTo(options, clock, std::move(server), Front::Place::kOneProcess, [&](Front& front) {
    LogInfo(StrCat("Serving on ", options.http.ssl_certfile.empty() ? "http" : "https", "://",
                   options.http.host, ":", front.port()));
    front.ServeUntilSignal();
    return OkStatus();
  });
}

Status ServeInside(ServeOptions options, const Clock& clock,
                   const std::function<Status(const AskFunction& ask)>& use) {
  RETURN_IF_ERROR(RaiseFdLimit(0));
  options.http = {};
  options.api_keys.clear();
  options.api_key_file.clear();
  options.tenant_limits = {};
  options.tenant_limits_file.clear();
  return ServeTo(
      options, clock, HttpServer::Unreachable(), Front::Place::kInside, [&](Front& front) {
        return use(
            [&](gateway::HttpRequest request, std::shared_ptr<gateway::HttpResponder> responder) {
              front.Handle(std::move(request), std::move(responder));
            });
      });
}

}  // namespace aril
