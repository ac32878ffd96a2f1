// Which generations of adapters the names of a cluster stand for, or have stood for, and where each
// name's owner got their files.

#ifndef ARIL_CLUSTER_GENERATION_USES_H_
#define ARIL_CLUSTER_GENERATION_USES_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "catalog/name_store.h"

namespace aril::cluster {

// Thread-safe; nothing waits for etcd here.
class GenerationUses {
 public:
  // A name, with all its history.
  void Add(const RegisteredAdapter& row);
  // What was added before. Returns the generations that no name's history holds any more.
  std::vector<std::string> Remove(const RegisteredAdapter& row);

  bool Has(const std::string& digest) const;
  // Where names that `tenant` may use got a generation from: its own first, then everybody's, at
  // most `max`. What belongs to other tenants is not among them: whether their sources last is
  // theirs to say.
  std::vector<std::string> SourcesFor(const std::string& digest, const std::string& tenant,
                                      size_t max) const;

 private:
  // How many names of that owner hold it, from that source (empty: of a split, which says none).
  using Names = std::map<std::pair<std::string, std::string>, size_t>;

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Names> by_digest_;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_GENERATION_USES_H_
