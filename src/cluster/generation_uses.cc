#include "cluster/generation_uses.h"

namespace aril::cluster {
namespace {

// What a name holds on to: each generation once, with the source that it was given last.
std::map<std::string, std::string> SourcesByDigest(const RegisteredAdapter& row) {
  std::map<std::string, std::string> sources;
  for (const PastGeneration& past : row.history) {
    if (past.split.empty()) {
      std::string& source = sources[past.digest];
      if (!past.source.empty()) source = past.source;
    }
    for (const SplitShare& share : past.split) sources.try_emplace(share.digest);
  }
  return sources;
}

}  // namespace

void GenerationUses::Add(const RegisteredAdapter& row) {
  const std::lock_guard lock(mutex_);
  for (const auto& [digest, source] : SourcesByDigest(row)) {
    ++by_digest_[digest][{row.owner, source}];
  }
}

std::vector<std::string> GenerationUses::Remove(const RegisteredAdapter& row) {
  std::vector<std::string> unused;
  const std::lock_guard lock(mutex_);
  for (const auto& [digest, source] : SourcesByDigest(row)) {
    const auto found = by_digest_.find(digest);
    Names& names = found->second;
    const auto use = names.find({row.owner, source});
    if (--use->second == 0) names.erase(use);
    if (!names.empty()) continue;
    by_digest_.erase(found);
    unused.push_back(digest);
  }
  return unused;
}

bool GenerationUses::Has(const std::string& digest) const {
  const std::lock_guard lock(mutex_);
  return by_digest_.contains(digest);
}

std::vector<std::string> GenerationUses::SourcesFor(const std::string& digest,
                                                    const std::string& tenant, size_t max) const {
  std::vector<std::string> sources;
  const std::lock_guard lock(mutex_);
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) return sources;
  const Names& names = found->second;
  const auto append = [&](const std::string& owner) {
    for (auto it = names.lower_bound({owner, ""});
         it != names.end() && it->first.first == owner && sources.size() < max; ++it) {
      const std::string& source = it->first.second;
      if (!source.empty()) sources.push_back(source);
    }
  };
  append(tenant);
  if (!tenant.empty()) append("");
  return sources;
}

}  // namespace aril::cluster
