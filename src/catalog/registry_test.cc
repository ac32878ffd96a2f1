#include "catalog/registry.h"

#include <sqlite3.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RegisteredAdapter Adapter(const std::string& name, const std::vector<std::string>& digests,
                          const std::string& owner = "") {
  RegisteredAdapter adapter = {
      .owner = owner, .name = name, .expires_unix = 7, .rank = 8, .bytes = 4096};
  int64_t since = 100;
  for (const std::string& digest : digests) {
    adapter.history.push_back(
        {.digest = digest, .since_unix = since++, .source = "/adapters/" + digest});
  }
  return adapter;
}

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() : path_(dir_ / "registry.sqlite") { Reopen(); }
  void Reopen() {
    registry_ = nullptr;
    auto registry = Registry::Open(path_, "base");
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
  }
  // "owner/name=first,…,last" of each.
  std::vector<std::string> Rows() {
    const auto list = registry_->List();
    EXPECT_TRUE(list.ok()) << list.status();
    std::vector<std::string> rows;
    for (const RegisteredAdapter& adapter : *list) {
      std::vector<std::string> digests;
      for (const PastGeneration& past : adapter.history) digests.push_back(past.digest);
      rows.push_back(StrCat(adapter.owner, "/", adapter.name, "=", Join(digests, ",")));
    }
    return rows;
  }
  std::vector<std::string> Put(const RegisteredAdapter& adapter) {
    const auto forgotten = registry_->Put(adapter);
    EXPECT_TRUE(forgotten.ok()) << forgotten.status();
    return forgotten.ok() ? *forgotten : std::vector<std::string>{};
  }

  TestDir dir_;
  const std::string path_;
  std::unique_ptr<Registry> registry_;
};

TEST_F(RegistryTest, ARestartForgetsNothing) {
  EXPECT_THAT(Put(Adapter("sql", {"v1", "v2"})), IsEmpty());
  EXPECT_THAT(Put(Adapter("sql", {"v3"}, "acme")), IsEmpty());
  EXPECT_THAT(Put(Adapter("b", {"v1"})), IsEmpty());
  Reopen();
  EXPECT_THAT(Rows(), ElementsAre("/b=v1", "/sql=v1,v2", "acme/sql=v3"));
  const RegisteredAdapter sql = registry_->List()->at(1);
  EXPECT_EQ(sql.expires_unix, 7);
  EXPECT_EQ(sql.history[0].source, "/adapters/v1");
  EXPECT_EQ(sql.history[1].since_unix, 101);
  EXPECT_EQ(sql.rank, 8);
  EXPECT_EQ(sql.bytes, 4096);
  EXPECT_THAT(*registry_->Generations(), ElementsAre("v1", "v2", "v3"));
}

TEST_F(RegistryTest, AGenerationGoesWithTheLastHistoryThatHoldsIt) {
  Put(Adapter("a", {"v1"}));
  Put(Adapter("b", {"v1", "v2"}));
  EXPECT_THAT(Put(Adapter("a", {"v3"})), IsEmpty()) << "b has stood for v1";
  EXPECT_THAT(Put(Adapter("b", {"v2"})), ElementsAre("v1"));
  EXPECT_THAT(Put(Adapter("b", {"v2", "v4", "v2"})), IsEmpty());
  EXPECT_THAT(*registry_->Remove("", "b"), ElementsAre("v2", "v4"));
  EXPECT_THAT(*registry_->Remove("", "b"), IsEmpty());
  Reopen();
  EXPECT_THAT(Rows(), ElementsAre("/a=v3"));
  EXPECT_THAT(*registry_->Generations(), ElementsAre("v3"));
}

TEST_F(RegistryTest, TextIsNotSql) {
  const std::string evil = "'; DROP TABLE adapters; --\n\"";
  Put(Adapter(evil, {"v1"}, evil));
  Reopen();
  EXPECT_THAT(Rows(), ElementsAre(StrCat(evil, "/", evil, "=v1")));
}

TEST_F(RegistryTest, OneProcessAtATime) {
  const auto second = Registry::Open(path_, "base");
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(second.status()), HasSubstr("in use by another process"));
}

TEST_F(RegistryTest, RefusesWhatIsNotItsOwn) {
  const auto error = [](const std::string& path, const std::string& base = "base") {
    return Message(Registry::Open(path, base).status());
  };
  registry_ = nullptr;
  EXPECT_THAT(error(path_, "other"), HasSubstr("is of another base model"));
  EXPECT_THAT(error(dir_.Write("text", std::string(5000, 'x'))),
              HasSubstr("file is not a database; restore it"));
  EXPECT_THAT(error(dir_ / "none/registry.sqlite"), HasSubstr("unable to open"));
  const auto with_sql = [&](const std::string& name, const char* sql) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open((dir_ / name).c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(db);
    return dir_ / name;
  };
  EXPECT_THAT(error(with_sql("foreign", "CREATE TABLE t(x)")), HasSubstr("of another program"));
  EXPECT_THAT(error(with_sql("registry.sqlite", "PRAGMA user_version = 99")),
              HasSubstr("written by a newer Aril (version 99"));
}

TEST_F(RegistryTest, KeepsWhatIsPinned) {
  RegisteredAdapter pinned = Adapter("a", {"v1"});
  pinned.is_pinned = true;
  Put(pinned);
  Put(Adapter("b", {"v1"}));
  Reopen();
  EXPECT_TRUE(registry_->List()->at(0).is_pinned);
  EXPECT_FALSE(registry_->List()->at(1).is_pinned);
}

// As version 1 wrote it.
TEST_F(RegistryTest, AnOlderFileIsTakenOver) {
  registry_ = nullptr;
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((dir_ / "old").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, R"(
      CREATE TABLE base(fingerprint TEXT NOT NULL);
      CREATE TABLE adapters(owner TEXT NOT NULL, name TEXT NOT NULL, source TEXT NOT NULL,
        expires_unix INTEGER NOT NULL, rank INTEGER NOT NULL, bytes INTEGER NOT NULL,
        PRIMARY KEY(owner, name)) WITHOUT ROWID;
      CREATE TABLE history(owner TEXT NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL,
        digest TEXT NOT NULL, since_unix INTEGER NOT NULL, PRIMARY KEY(owner, name, position),
        FOREIGN KEY(owner, name) REFERENCES adapters(owner, name) ON DELETE CASCADE) WITHOUT ROWID;
      CREATE INDEX history_by_digest ON history(digest);
      INSERT INTO base VALUES ('base');
      INSERT INTO adapters VALUES ('acme', 'sql', '/x', 7, 8, 4096);
      INSERT INTO adapters VALUES ('', 'sql', '/y', 7, 8, 4096);
      INSERT INTO history VALUES ('acme', 'sql', 0, 'v0', 90);
      INSERT INTO history VALUES ('acme', 'sql', 1, 'v1', 100);
      INSERT INTO history VALUES ('', 'sql', 0, 'v2', 110);
      PRAGMA application_id = 0x4172696C; PRAGMA user_version = 1;)",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  for (int time = 0; time < 2; ++time) {
    registry_ = nullptr;
    auto registry = Registry::Open(dir_ / "old", "base");
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
    EXPECT_THAT(Rows(), ElementsAre("/sql=v2", "acme/sql=v0,v1"));
    const RegisteredAdapter sql = registry_->List()->at(1);
    EXPECT_EQ(sql.bytes, 4096);
    EXPECT_EQ(sql.history[0].source, "");  // it was not kept
    EXPECT_EQ(sql.history[1].source, "/x");
    EXPECT_EQ(registry_->List()->at(0).history[0].source, "/y");
  }
  Put(Adapter("sql", {"v1", "v2"}, "acme"));
  EXPECT_THAT(Rows(), ElementsAre("/sql=v2", "acme/sql=v1,v2"));
}

TEST_F(RegistryTest, AFullFileKeepsWhatItHas) {
  Put(Adapter("a", {"v1"}));
  registry_ = nullptr;
  const auto size = std::filesystem::file_size(path_);
  constexpr uintmax_t kPageBytes = 4096;
  auto full = Registry::Open(path_, "base", static_cast<int64_t>(size / kPageBytes) + 1);
  ASSERT_TRUE(full.ok()) << full.status();
  registry_ = *std::move(full);
  Status failed;
  std::vector<std::string> before;
  for (int i = 0; i < 1000 && failed.ok(); ++i) {
    before = Rows();
    failed = registry_->Put(Adapter(StrCat("name-", i), {"v1", StrCat("v", i)})).status();
  }
  EXPECT_EQ(failed.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(failed),
              HasSubstr("registry of adapters: database or disk is full: nothing was "
                        "changed; make room on the disk, or unload adapters"));
  EXPECT_EQ(Rows(), before);
  // What needs no room still works, and makes some.
  EXPECT_TRUE(registry_->Remove("", "name-0").ok());
  EXPECT_TRUE(registry_->Put(Adapter("a", {"v2"})).ok());
  Reopen();
  EXPECT_THAT(Rows(), testing::Contains("/a=v2"));
  EXPECT_EQ(Rows().size(), before.size() - 1);
}

TEST_F(RegistryTest, AFailedChangeChangesNothing) {
  Put(Adapter("a", {"v1"}));
  registry_ = nullptr;
  // What fails in the middle of a change: a trigger on its last table.
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "CREATE TRIGGER t BEFORE INSERT ON history WHEN NEW.digest = 'bad' "
                         "BEGIN SELECT RAISE(ABORT, 'no'); END",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(db);
  Reopen();
  EXPECT_FALSE(registry_->Put(Adapter("a", {"v2", "bad"})).ok());
  EXPECT_THAT(Rows(), ElementsAre("/a=v1"));
  EXPECT_THAT(Put(Adapter("a", {"v2"})), ElementsAre("v1")) << "and the next one works";
}

}  // namespace
}  // namespace aril
