#include "catalog/registry.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

// "Aril" in the file's header, so that file(1) and we know whose it is.
constexpr int64_t kApplicationId = 0x4172696C;

// Version 1. What came later are the changes below, which old files get when they are opened.
constexpr const char* kSchema = R"(
CREATE TABLE base(fingerprint TEXT NOT NULL);
CREATE TABLE adapters(
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  source TEXT NOT NULL,
  expires_unix INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY(owner, name)
) WITHOUT ROWID;
CREATE TABLE history(
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  position INTEGER NOT NULL,
  digest TEXT NOT NULL,
  since_unix INTEGER NOT NULL,
  PRIMARY KEY(owner, name, position),
  FOREIGN KEY(owner, name) REFERENCES adapters(owner, name) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX history_by_digest ON history(digest);
)";

constexpr const char* kChanges[] = {
    // Version 2
    "ALTER TABLE adapters ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",
    // Version 3
    R"(
CREATE TABLE splits(
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  position INTEGER NOT NULL,
  share INTEGER NOT NULL,
  digest TEXT NOT NULL,
  weight INTEGER NOT NULL,
  adapter TEXT NOT NULL,
  rank INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY(owner, name, position, share),
  FOREIGN KEY(owner, name, position) REFERENCES history(owner, name, position) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX splits_by_digest ON splits(digest);
)",
    // Version 4: a source for each generation. Of the earlier ones it is not known any more.
    R"(
ALTER TABLE history ADD COLUMN source TEXT NOT NULL DEFAULT '';
UPDATE history SET source = (
  SELECT source FROM adapters
  WHERE adapters.owner = history.owner AND adapters.name = history.name
) WHERE position = (
  SELECT max(position) FROM history AS other
  WHERE other.owner = history.owner AND other.name = history.name
);
ALTER TABLE adapters DROP COLUMN source;
)",
};
constexpr int64_t kVersion = 1 + int64_t{std::size(kChanges)};

// One run of a prepared statement.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    code_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& Bind(const std::string& text) {
    if (code_ == SQLITE_OK) {
      code_ = sqlite3_bind_text64(statement_, ++num_bound_, text.data(), text.size(),
                                  SQLITE_TRANSIENT, SQLITE_UTF8);
    }
    return *this;
  }
  Statement& Bind(int64_t number) {
    if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(statement_, ++num_bound_, number);
    return *this;
  }

  // Whether there is a (next) row; if not, code() says whether that is the end or an error.
  bool Next() {
    if (code_ == SQLITE_OK || code_ == SQLITE_ROW) code_ = sqlite3_step(statement_);
    return code_ == SQLITE_ROW;
  }
  int code() const { return code_ == SQLITE_DONE || code_ == SQLITE_ROW ? SQLITE_OK : code_; }

  std::string Text(int column) const {
    const unsigned char* text = sqlite3_column_text(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return {reinterpret_cast<const char*>(text), static_cast<size_t>(size)};
  }
  int64_t Int(int column) const { return sqlite3_column_int64(statement_, column); }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
  int num_bound_ = 0;
};

std::string Quoted(const std::string& path) { return StrCat("the registry ", path); }

}  // namespace

Status Registry::Error(int code) const {
  if (code == SQLITE_OK) return OkStatus();
  // Clients are told what went wrong, and the log where.
  LogError(StrCat(Quoted(path_), ": ", sqlite3_errmsg(db_)));
  const std::string what = StrCat("the registry of adapters: ", sqlite3_errmsg(db_));
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Unavailable(Quoted(path_) + " is in use by another process; give each server a " +
                         "--state-dir of its own");
    case SQLITE_FULL:
      return ResourceExhausted(what +
                               ": nothing was changed; make room on the disk, or unload adapters");
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return Internal(what + "; restore it from a backup, or move it away to begin anew");
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_IOERR:
      return Unavailable(what);
    default:
      return Internal(what);
  }
}

Status Registry::Run(const char* sql) const {
  return Error(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr));
}

StatusOr<std::unique_ptr<Registry>> Registry::Open(const std::string& path, const std::string& base,
                                                   int64_t max_pages) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      nullptr);
  if (db == nullptr) return ResourceExhausted(Quoted(path) + ": no memory to open it");
  std::unique_ptr<Registry> registry(new Registry(db, path));
  RETURN_IF_ERROR(registry->Error(code));
  RETURN_IF_ERROR(registry->SetUp(base, max_pages));
  return registry;
}

Registry::~Registry() { sqlite3_close(db_); }

Status Registry::SetUp(const std::string& base, int64_t max_pages) {
  // The lock of the first transaction stays until the file is closed.
  RETURN_IF_ERROR(
      Run("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = FULL;"
          "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; BEGIN EXCLUSIVE"));
  RETURN_IF_ERROR(Run(StrCat("PRAGMA max_page_count = ", max_pages).c_str()));
  const auto number = [this](const char* sql) -> StatusOr<int64_t> {
    Statement statement(db_, sql);
    if (!statement.Next()) return Error(statement.code());
    return statement.Int(0);
  };
  ASSIGN_OR_RETURN(const int64_t num_tables, number("SELECT count(*) FROM sqlite_schema"));
  if (num_tables == 0) {
    RETURN_IF_ERROR(Run(kSchema));
    RETURN_IF_ERROR(Run(StrCat("PRAGMA application_id = ", kApplicationId).c_str()));
    RETURN_IF_ERROR(Upgrade(1));
    Statement insert(db_, "INSERT INTO base VALUES (?)");
    insert.Bind(base).Next();
    RETURN_IF_ERROR(Error(insert.code()));
    return Run("COMMIT");
  }
  ASSIGN_OR_RETURN(const int64_t application, number("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const int64_t version, number("PRAGMA user_version"));
  if (application != kApplicationId) {
    return FailedPrecondition(Quoted(path_) + " is a database of another program");
  }
  if (version > kVersion) {
    return FailedPrecondition(StrCat(Quoted(path_), " was written by a newer Aril (version ",
                                     version, " of its format; this one knows ", kVersion, ")"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> bases, Strings("SELECT fingerprint FROM base"));
  if (bases != std::vector<std::string>{base}) {
    return FailedPrecondition(Quoted(path_) +
                              " is of another base model: its adapters would give other answers "
                              "with this one; give each base model a --state-dir of its own");
  }
  RETURN_IF_ERROR(Upgrade(version));
  return Run("COMMIT");
}

Status Registry::Upgrade(int64_t version) {
  if (version < 1) {
    return Internal(StrCat(Quoted(path_), " has version ", version,
                           " of its format, which there never was; restore it from a backup"));
  }
  if (version == kVersion) return OkStatus();
  for (int64_t next = version; next < kVersion; ++next) RETURN_IF_ERROR(Run(kChanges[next - 1]));
  return Run(StrCat("PRAGMA user_version = ", kVersion).c_str());
}

StatusOr<std::vector<std::string>> Registry::Strings(const char* sql) const {
  std::vector<std::string> result;
  Statement select(db_, sql);
  while (select.Next()) result.push_back(select.Text(0));
  RETURN_IF_ERROR(Error(select.code()));
  return result;
}

StatusOr<std::vector<std::string>> Registry::Generations() const {
  const std::lock_guard lock(mutex_);
  return Strings(
      "SELECT digest FROM history WHERE substr(digest, 1, 6) <> 'split:' "
      "UNION SELECT digest FROM splits ORDER BY digest");
}

StatusOr<std::vector<RegisteredAdapter>> Registry::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<RegisteredAdapter> result;
  Statement select(
      db_,
      "SELECT owner, name, expires_unix, rank, bytes, pinned, digest, since_unix, history.source "
      "FROM adapters JOIN history USING(owner, name) ORDER BY owner, name, position");
  while (select.Next()) {
    const std::string owner = select.Text(0);
    const std::string name = select.Text(1);
    if (result.empty() || result.back().owner != owner || result.back().name != name) {
      result.push_back({.owner = owner,
                        .name = name,
                        .expires_unix = select.Int(2),
                        .is_pinned = select.Int(5) != 0,
                        .rank = select.Int(3),
                        .bytes = select.Int(4)});
    }
    result.back().history.push_back(
        {.digest = select.Text(6), .since_unix = select.Int(7), .source = select.Text(8)});
  }
  RETURN_IF_ERROR(Error(select.code()));
  for (RegisteredAdapter& adapter : result) RETURN_IF_ERROR(ReadShares(&adapter));
  return result;
}

Status Registry::ReadShares(RegisteredAdapter* adapter) const {
  Statement select(db_,
                   "SELECT position, digest, weight, adapter, rank, bytes FROM splits "
                   "WHERE owner = ? AND name = ? ORDER BY position, share");
  select.Bind(adapter->owner).Bind(adapter->name);
  while (select.Next()) {
    const int64_t position = select.Int(0);
    if (position < 0 || position >= static_cast<int64_t>(adapter->history.size())) {
      return Internal(StrCat(Quoted(path_), ": ", adapter->name, " has a share at position ",
                             position, " of its history, which there is not; restore it from a ",
                             "backup"));
    }
    adapter->history[static_cast<size_t>(position)].split.push_back({.digest = select.Text(1),
                                                                     .weight = select.Int(2),
                                                                     .adapter = select.Text(3),
                                                                     .rank = select.Int(4),
                                                                     .bytes = select.Int(5)});
  }
  return Error(select.code());
}

StatusOr<std::vector<std::string>> Registry::Put(const RegisteredAdapter& adapter) {
  return Replace(adapter.owner, adapter.name, &adapter);
}

StatusOr<std::vector<std::string>> Registry::Remove(const std::string& owner,
                                                    const std::string& name) {
  return Replace(owner, name, nullptr);
}

StatusOr<std::vector<std::string>> Registry::Replace(const std::string& owner,
                                                     const std::string& name,
                                                     const RegisteredAdapter* adapter) {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(Run("BEGIN IMMEDIATE"));
  const auto change = [&]() -> StatusOr<std::vector<std::string>> {
    std::vector<std::string> before;
    Statement select(db_,
                     "SELECT digest FROM history WHERE owner = ?1 AND name = ?2 "
                     "AND substr(digest, 1, 6) <> 'split:' "
                     "UNION SELECT digest FROM splits WHERE owner = ?1 AND name = ?2");
    select.Bind(owner).Bind(name);
    while (select.Next()) before.push_back(select.Text(0));
    RETURN_IF_ERROR(Error(select.code()));
    Statement remove(db_, "DELETE FROM adapters WHERE owner = ? AND name = ?");
    remove.Bind(owner).Bind(name).Next();
    RETURN_IF_ERROR(Error(remove.code()));
    if (adapter != nullptr) RETURN_IF_ERROR(Insert(*adapter));
    return Unused(before);
  };
  auto forgotten = change();
  const Status committed = forgotten.ok() ? Run("COMMIT") : forgotten.status();
  if (committed.ok()) return forgotten;
  // Fails where SQLite has rolled back by itself.
  sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  return committed;
}

Status Registry::Insert(const RegisteredAdapter& adapter) {
  Statement row(db_,
                "INSERT INTO adapters(owner, name, expires_unix, rank, bytes, pinned) "
                "VALUES (?, ?, ?, ?, ?, ?)");
  row.Bind(adapter.owner).Bind(adapter.name).Bind(adapter.expires_unix);
  row.Bind(adapter.rank).Bind(adapter.bytes).Bind(int64_t{adapter.is_pinned}).Next();
  RETURN_IF_ERROR(Error(row.code()));
  int64_t position = 0;
  for (const PastGeneration& past : adapter.history) {
    Statement insert(db_,
                     "INSERT INTO history(owner, name, position, digest, since_unix, source) "
                     "VALUES (?, ?, ?, ?, ?, ?)");
    insert.Bind(adapter.owner).Bind(adapter.name).Bind(position);
    insert.Bind(past.digest).Bind(past.since_unix).Bind(past.source).Next();
    RETURN_IF_ERROR(Error(insert.code()));
    RETURN_IF_ERROR(InsertShares(adapter, position++));
  }
  return OkStatus();
}

Status Registry::InsertShares(const RegisteredAdapter& adapter, int64_t position) {
  int64_t number = 0;
  for (const SplitShare& share : adapter.history[static_cast<size_t>(position)].split) {
    Statement insert(db_, "INSERT INTO splits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    insert.Bind(adapter.owner).Bind(adapter.name).Bind(position).Bind(number++);
    insert.Bind(share.digest).Bind(share.weight).Bind(share.adapter);
    insert.Bind(share.rank).Bind(share.bytes).Next();
    RETURN_IF_ERROR(Error(insert.code()));
  }
  return OkStatus();
}

StatusOr<std::vector<std::string>> Registry::Unused(
    const std::vector<std::string>& candidates) const {
  std::vector<std::string> unused;
  for (const std::string& digest : candidates) {
    ASSIGN_OR_RETURN(const bool is_used, IsUsed(digest));
    if (!is_used) unused.push_back(digest);
  }
  return unused;
}

StatusOr<bool> Registry::IsUsed(const std::string& digest) const {
  Statement select(db_,
                   "SELECT 1 FROM history WHERE digest = ?1 "
                   "UNION ALL SELECT 1 FROM splits WHERE digest = ?1 LIMIT 1");
  const bool is_used = select.Bind(digest).Next();
  RETURN_IF_ERROR(Error(select.code()));
  return is_used;
}

bool Registry::Has(const std::string& digest) const {
  const std::lock_guard lock(mutex_);
  // If it cannot be told, nothing is to be removed.
  return IsUsed(digest).value_or(true);
}

}  // namespace aril
