// The names of one process, in SQLite.

#ifndef ARIL_CATALOG_REGISTRY_H_
#define ARIL_CATALOG_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/name_store.h"

struct sqlite3;

namespace aril {

// One file, for one process at a time: a second one that opens it is refused. Every change is one
// transaction, on disk when the call returns; whenever the process ends, the file holds it or does
// not. Thread-safe.
class Registry final : public NameStore {
 public:
  // 1 GiB. 20,000 names with ten generations each take a twentieth of it.
  static constexpr int64_t kMaxPages = int64_t{1} << 18;
  // Makes the file if need be. `base` tells base models apart: FailedPrecondition if the file was
  // made for another one, is no registry, or is of a newer Aril; Unavailable if another process has
  // it.
  // The file never has more than `max_pages` pages of 4 KiB.
  static StatusOr<std::unique_ptr<Registry>> Open(const std::string& path, const std::string& base,
                                                  int64_t max_pages = kMaxPages);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  ~Registry() override;

  // All names, by owner and name.
  StatusOr<std::vector<RegisteredAdapter>> List() const;
  // The generations that names stand or have stood for, in order.
  StatusOr<std::vector<std::string>> Generations() const;

  bool Has(const std::string& digest) const override;
  // ResourceExhausted if the disk is full.
  StatusOr<std::vector<std::string>> Put(const RegisteredAdapter& adapter) override;
  StatusOr<std::vector<std::string>> Remove(const std::string& owner,
                                            const std::string& name) override;
  // Nobody else has the file.
  StatusOr<NameChanges> Poll() override { return NameChanges(); }

 private:
  Registry(sqlite3* db, std::string path) : db_(db), path_(std::move(path)) {}

  Status Run(const char* sql) const;
  Status Error(int code) const;
  Status SetUp(const std::string& base, int64_t max_pages);
  Status Upgrade(int64_t version);
  StatusOr<std::vector<std::string>> Strings(const char* sql) const;
  StatusOr<std::vector<std::string>> Replace(const std::string& owner, const std::string& name,
                                             const RegisteredAdapter* adapter);
  Status Insert(const RegisteredAdapter& adapter);
  Status InsertShares(const RegisteredAdapter& adapter, int64_t position);
  Status ReadShares(RegisteredAdapter* adapter) const;
  StatusOr<bool> IsUsed(const std::string& digest) const;
  StatusOr<std::vector<std::string>> Unused(const std::vector<std::string>& candidates) const;

  mutable std::mutex mutex_;
  sqlite3* const db_;
  const std::string path_;
};

}  // namespace aril

#endif  // ARIL_CATALOG_REGISTRY_H_
