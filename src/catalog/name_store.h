// What must survive a restart: which names stand for which generations of adapters.

#ifndef ARIL_CATALOG_NAME_STORE_H_
#define ARIL_CATALOG_NAME_STORE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

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

// What other processes have done to the names.
struct NameChanges {
  std::vector<RegisteredAdapter> changed;
  std::vector<std::pair<std::string, std::string>> removed;  // owner and name
};

// Thread-safe. What a call has changed is there for good when it returns.
class NameStore {
 public:
  virtual ~NameStore() = default;
  // Whether a name stands or has stood for it.
  virtual bool Has(const std::string& digest) const = 0;
  // Writes a name, in place of what it was. Returns the generations that no name's history holds
  // any more. Aborted if another process has changed it since the last Poll.
  virtual StatusOr<std::vector<std::string>> Put(const RegisteredAdapter& adapter) = 0;
  // The same for a name that goes; one that is not there is no error.
  virtual StatusOr<std::vector<std::string>> Remove(const std::string& owner,
                                                    const std::string& name) = 0;
  // What has happened since the last call; at first, everything there is that was not written here.
  virtual StatusOr<NameChanges> Poll() = 0;
};

}  // namespace aril

#endif  // ARIL_CATALOG_NAME_STORE_H_
