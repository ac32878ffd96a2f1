// What must survive a restart: which names stand for which generations of adapters, in SQLite.

#ifndef ARIL_CATALOG_REGISTRY_H_
#define ARIL_CATALOG_REGISTRY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

struct sqlite3;

namespace aril {

// One of the generations that a name divides its requests among (catalog/split.h).
struct SplitShare {
  std::string digest;
  int64_t weight = 0;
  std::string adapter = {};  // under whose name it was given; empty: the name's own
  int64_t rank = 0;
  int64_t bytes = 0;
};

// What the digest of a split begins with.
inline constexpr std::string_view kSplitPrefix = "split:";

// A generation, as a name that has stood for it remembers it; or several of them at a time.
struct PastGeneration {
  std::string digest;  // catalog/generation_store.h, or of a split
  int64_t since_unix = 0;
  std::vector<SplitShare> split = {};  // empty: one generation
  std::string source = {};             // where its files came from; empty if unknown or a split
};

// A name, and what is needed to serve it again.
struct RegisteredAdapter {
  std::string owner;  // the tenant whose it is; empty: everybody's
  std::string name;
  int64_t expires_unix = 0;  // 0: never
  bool is_pinned = false;
  // What the name has stood for, oldest first; the last is what it stands for. Never empty.
  std::vector<PastGeneration> history;
  int64_t rank = 0;   // of the last: the largest of a module
  int64_t bytes = 0;  // of the last: its weights' file
};

// One file, for one process at a time: a second one that opens it is refused. Every change is one
// transaction, on disk when the call returns; whenever the process ends, the file holds it or does
// not. Thread-safe.
class Registry {
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
  ~Registry();

  // All names, by owner and name.
  StatusOr<std::vector<RegisteredAdapter>> List() const;
  // The generations that names stand or have stood for, in order.
  StatusOr<std::vector<std::string>> Generations() const;

  // Whether a name stands or has stood for it.
  bool Has(const std::string& digest) const;

  // Writes a name, in place of what it was. Returns the generations that no name's history holds
  // any more. ResourceExhausted if the disk is full.
  StatusOr<std::vector<std::string>> Put(const RegisteredAdapter& adapter);
  // The same for a name that goes; one that is not there is no error.
  StatusOr<std::vector<std::string>> Remove(const std::string& owner, const std::string& name);

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
