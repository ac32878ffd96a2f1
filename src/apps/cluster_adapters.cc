#include "apps/cluster_adapters.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/resident_adapter.h"
#include "base/log.h"
#include "base/strings.h"
#include "catalog/generation_store.h"
#include "catalog/restore_entry.h"
#include "sources/source_url.h"

namespace aril {
namespace {

// What an adapter takes of a runner's pool, to the nearest of these; or of the pages that the
// longest row of such adapters needs, as the runners' pages are no shorter.
constexpr int64_t kPoolGrain = 64 << 10;

int64_t PoolBytes(const Adapter& adapter, const ModelSpec& base) {
  const int64_t grain = std::max(kPoolGrain, LongestAdapterRowBytes(base, DType::kBF16));
  return PagesForAdapter(adapter, DType::kBF16, grain) * grain;
}

Generation::Description ToDescription(AdapterId adapter,
                                      const cluster::SharedGeneration& generation) {
  return {.adapter = adapter,
          .digest = generation.digest,
          .rank = generation.rank,
          .bytes = generation.bytes};
}

}  // namespace

StatusOr<cluster::SharedGeneration> ClusterAdapters::Describe(const Folder& dir,
                                                              const std::string& digest,
                                                              const std::string& source) const {
  ASSIGN_OR_RETURN(
      const Adapter adapter,
      Adapter::OpenWithoutBase(dir, options_.spec, options_.max_rank, Adapter::Values::kUnknown));
  cluster::SharedGeneration generation = {.digest = digest,
                                          .source = source,
                                          .rank = adapter.spec().MaxRank(),
                                          .bytes = adapter.file_bytes(),
                                          .pool_bytes = PoolBytes(adapter, options_.spec),
                                          .invocation_tokens = adapter.spec().invocation_tokens};
  ASSIGN_OR_RETURN(AdapterTextReader::Shared text,
                   options_.text_reader->Share(dir, adapter.spec().vocab_size));
  generation.chat_template = std::move(text.chat_template);
  generation.tokens = std::move(text.tokens);
  generation.vocab_size = text.vocab_size;
  return generation;
}

StatusOr<ClusterAdapters::GenerationPtr> ClusterAdapters::Register(
    const cluster::SharedGeneration& generation) {
  ASSIGN_OR_RETURN(const AdapterId id, names_.Register(generation));
  return MakeKnown(id, generation);
}

StatusOr<ClusterAdapters::GenerationPtr> ClusterAdapters::MakeKnown(
    AdapterId adapter, const cluster::SharedGeneration& generation) {
  auto text = options_.text_reader->FromShared(
      {generation.chat_template, generation.tokens, generation.vocab_size});
  if (!text.ok()) {
    return Annotate(text.status(),
                    StrCat("generation ", generation.digest, " as it is registered"));
  }
  const auto set_text = [&] {
    if (*text != nullptr) options_.texts->Set(adapter, *text);
  };
  {
    const std::lock_guard lock(mutex_);
    if (const auto held = held_.find(adapter); held != held_.end()) {
      if (GenerationPtr known = held->second.generation.lock()) {
        set_text();  // a gateway of before may have registered less of it
        return known;
      }
    }
  }
  auto made = std::make_shared<const Generation>(
      ToDescription(adapter, generation),
      Generation::Hooks{.release = [this, adapter] { Release(adapter); }});
  const std::lock_guard lock(mutex_);
  Held& held = held_[adapter];
  if (GenerationPtr other = held.generation.lock()) return other;  // ours goes after the lock
  set_text();
  held = {made, generation.digest, generation.source, generation.pool_bytes,
          generation.invocation_tokens};
  return made;
}

void ClusterAdapters::Release(AdapterId adapter) {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(adapter);
  // There may be a new one by now.
  if (held == held_.end() || !held->second.generation.expired()) return;
  options_.texts->Erase(adapter);
  held_.erase(held);
}

std::optional<cluster::SharedAdapterUse> ClusterAdapters::Find(AdapterId adapter,
                                                               const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(adapter);
  if (found == held_.end()) return std::nullopt;
  const Held& held = found->second;
  std::vector<std::string> sources =
      names_.SourcesFor(held.digest, tenant, delivery::kMaxSources - 1);
  // A split does not say where its generations came from; and what a name says may be gone. Whose
  // the last one is nobody knows.
  if (sources.empty()) sources.emplace_back();
  if (std::ranges::find(sources, held.source) == sources.end()) sources.push_back(held.source);
  return cluster::SharedAdapterUse{
      {adapter, held.digest, std::move(sources)}, held.pool_bytes, held.invocation_tokens};
}

StatusOr<cluster::SharedGeneration> ClusterAdapters::DescribeFolder(
    const std::string& source) const {
  ASSIGN_OR_RETURN(const Folder dir, options_.roots.Find(source));
  const auto digest = DigestOfAdapter(dir);
  auto generation = digest.ok() ? Describe(dir, *digest, source)
                                : StatusOr<cluster::SharedGeneration>(digest.status());
  if (!generation.ok()) return WithSource(generation.status(), dir.path(), source);
  return generation;
}

StatusOr<std::shared_ptr<const Generation>> ClusterAdapters::Load(const std::string& source) {
  if (IsSourceUrl(source)) {
    return InvalidArgument(StrCat("nothing is fetched from ", source,
                                  " here: the gateway was started without --state-dir"));
  }
  ASSIGN_OR_RETURN(const cluster::SharedGeneration generation, DescribeFolder(source));
  return Register(generation);
}

StatusOr<Generation::Description> ClusterAdapters::Verify(const std::string& source) {
  ASSIGN_OR_RETURN(const cluster::SharedGeneration generation, DescribeFolder(source));
  return ToDescription(AdapterId(), generation);
}

StatusOr<std::shared_ptr<const Generation>> ClusterAdapters::Recall(const std::string& digest) {
  const auto found = names_.Find(digest);
  if (!found) {
    return NotFound(StrCat("generation ", digest, " is not registered in the cluster any more"));
  }
  return MakeKnown(found->first, found->second);
}

StatusOr<std::shared_ptr<const Generation>> ClusterAdapters::Open(
    const GenerationStore::Incoming& incoming, const std::string& source) {
  const auto generation = Describe(Folder(incoming.dir()), incoming.digest(), source);
  if (!generation.ok()) return WithSource(generation.status(), incoming.dir(), source);
  return Register(*generation);
}

StatusOr<Generation::Description> ClusterAdapters::Verify(const GenerationStore::Incoming& incoming,
                                                          const std::string& source) {
  const auto generation = Describe(Folder(incoming.dir()), incoming.digest(), source);
  if (!generation.ok()) return WithSource(generation.status(), incoming.dir(), source);
  return ToDescription(AdapterId(), *generation);
}

StatusOr<CatalogEntry> ClusterAdapters::Restore(const RegisteredAdapter& row) {
  return RestoreEntry(row, options_.parent, [this](const Generation::Description& registered) {
    return Recall(registered.digest);
  });
}

}  // namespace aril
