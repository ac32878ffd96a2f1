// Entries and catalogs for tests.

#ifndef ARIL_CATALOG_TEST_SUPPORT_H_
#define ARIL_CATALOG_TEST_SUPPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "catalog/catalog.h"
#include "gtest/gtest.h"

namespace aril {

// What a change expects of a name that must be free.
inline const Catalog::Expected kFree = "";

inline CatalogEntry Base(const std::string& name) {
  return {.name = name, .parent = "", .root = "/models/" + name, .generation = nullptr};
}

// Adapter `id`, of generation "g<id>".
inline CatalogEntry Adapter(const std::string& name, int32_t id,
                            std::function<void()> release = nullptr) {
  return {.name = name,
          .parent = "base",
          .root = "/adapters/" + name,
          .generation = std::make_shared<const Generation>(
              Generation::Description{.adapter = AdapterId(id), .digest = StrCat("g", id)},
              Generation::Hooks{.release = std::move(release)})};
}

// Adapter's generation of that digest (catalog/restore_entry.h); "g99" there is none.
inline StatusOr<std::shared_ptr<const Generation>> FindByDigest(
    const Generation::Description& registered) {
  const int32_t id = std::stoi(registered.digest.substr(1));
  if (id == 99) return NotFound("not registered");
  return Adapter("", id).generation;
}

inline std::shared_ptr<Catalog> MakeCatalog(std::vector<CatalogEntry> entries,
                                            Catalog::Options options = {}) {
  auto catalog = Catalog::Create(std::move(entries), std::move(options));
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return *std::move(catalog);
}

// As the operator: changes what everybody may use.
inline Status Put(Catalog& catalog, CatalogEntry entry,
                  const Catalog::Expected& expected = std::nullopt) {
  return catalog.Put(kDefaultTenant, std::move(entry), expected).status();
}
inline Status Remove(Catalog& catalog, const std::string& name) {
  return catalog.Remove(kDefaultTenant, name, std::nullopt);
}

}  // namespace aril

#endif  // ARIL_CATALOG_TEST_SUPPORT_H_
