#include "gateway/tenant_limits.h"

#include <charconv>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "catalog/catalog.h"

namespace aril::gateway {
namespace {

constexpr size_t kMaxFileBytes = 4 << 20;
constexpr int64_t kMaxLimit = 1'000'000'000;
constexpr std::string_view kOthers = "*";
constexpr std::string_view kUnlimited = "unlimited";

struct LimitName {
  std::string_view name;
  std::optional<int64_t> TenantLimits::*limit;
};

constexpr LimitName kNames[] = {
    {"requests-per-minute", &TenantLimits::requests_per_minute},
    {"tokens-per-minute", &TenantLimits::tokens_per_minute},
    {"concurrent-requests", &TenantLimits::concurrent_requests},
};

// What one line says: for each limit of kNames nullopt, if it says nothing of it.
struct Line {
  std::optional<std::optional<int64_t>> limits[std::size(kNames)];

  TenantLimits Over(const TenantLimits& others) const {
    TenantLimits merged = others;
    for (size_t i = 0; i < std::size(kNames); ++i) {
      if (limits[i]) merged.*kNames[i].limit = *limits[i];
    }
    return merged;
  }
};

// Sets what `word`, "name=value", says.
Status ReadLimit(std::string_view word, Line* line) {
  const size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name != kNames[i].name) continue;
    if (line->limits[i]) return InvalidArgument(StrCat(name, " was already given"));
    const std::string_view value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    if (value == kUnlimited) {
      line->limits[i] = std::optional<int64_t>();
      return OkStatus();
    }
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = error == std::errc() && end == value.data() + value.size();
    if (!is_number || number < 1 || number > kMaxLimit) {
      return InvalidArgument(StrCat(name, " must be a number from 1 to ", kMaxLimit, ", or ",
                                    kUnlimited, ": ", name, "=100"));
    }
    line->limits[i] = number;
    return OkStatus();
  }
  return InvalidArgument(StrCat(JsonQuote(std::string(name)), " is no limit: there are ",
                                kNames[0].name, ", ", kNames[1].name, " and ", kNames[2].name));
}

}  // namespace

StatusOr<TenantLimitTable> ReadTenantLimitsFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxFileBytes));
  std::map<std::string, Line> of_tenant;
  std::istringstream lines(content);
  int line_number = 0;
  for (std::string text; std::getline(lines, text);) {
    ++line_number;
    if (text.starts_with('#')) continue;
    std::istringstream words(text);
    std::string tenant;
    if (!(words >> tenant)) continue;
    const auto bad = [&](const std::string& what) {
      return InvalidArgument(StrCat(path, ":", line_number, ": ", what));
    };
    if (tenant != kOthers && !IsValidName(tenant)) {
      return bad("expected a tenant's name, or * for all others, and limits after it");
    }
    const auto [entry, is_new] = of_tenant.try_emplace(tenant);
    if (!is_new) return bad(StrCat(tenant, " has a line already"));
    for (std::string word; words >> word;) {
      const Status read = ReadLimit(word, &entry->second);
      if (!read.ok()) return bad(Message(read));
    }
  }
  TenantLimitTable table;
  table.of_others = of_tenant[std::string(kOthers)].Over({});
  of_tenant.erase(std::string(kOthers));
  for (const auto& [tenant, line] : of_tenant) {
    table.of_tenant.emplace(tenant, line.Over(table.of_others));
  }
  return table;
}

}  // namespace aril::gateway
