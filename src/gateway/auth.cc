#include "gateway/auth.h"

#include <set>
#include <sstream>

#include "base/file.h"
#include "base/strings.h"
#include "catalog/catalog.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

constexpr std::string_view kScheme = "Bearer ";
constexpr size_t kMaxKeyFileBytes = 1 << 20;

bool EqualInConstantTime(std::string_view presented, std::string_view key) {
  // Volatile, so that the loop is not cut short once a difference is known.
  volatile unsigned difference = presented.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < presented.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference = difference | static_cast<unsigned>(static_cast<unsigned char>(presented[i]) ^
                                                    static_cast<unsigned char>(expected));
  }
  return difference == 0;
}

// Empty, which no key is, if there is none.
std::string_view PresentedKey(const HttpHeaders& headers) {
  const std::string_view authorization = FindHeader(headers, "Authorization");
  const bool has_scheme = EqualsIgnoreCase(authorization.substr(0, kScheme.size()), kScheme);
  return has_scheme ? authorization.substr(kScheme.size()) : FindHeader(headers, "X-Api-Key");
}

}  // namespace

std::optional<std::string> ApiKeys::FindTenant(const HttpHeaders& headers) const {
  if (keys_.empty()) return kDefaultTenant;
  const std::string_view presented = PresentedKey(headers);
  const ApiKey* found = nullptr;
  for (const ApiKey& key : keys_) {
    if (EqualInConstantTime(presented, key.key)) found = &key;
  }
  if (found == nullptr || presented.empty()) return std::nullopt;
  return found->tenant;
}

StatusOr<std::vector<ApiKey>> ReadApiKeyFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxKeyFileBytes));
  std::vector<ApiKey> keys;
  std::set<std::string> seen;
  std::istringstream lines(content);
  int line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++line_number;
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    ApiKey key;
    if (!(words >> key.key)) continue;
    const auto bad = [&](const char* what) {
      return InvalidArgument(StrCat(path, ":", line_number, ": ", what));
    };
    std::string rest;
    if (words >> key.tenant && !IsValidName(key.tenant)) return bad("the tenant is no valid name");
    if (words >> rest) return bad("expected a key and, after a space, its tenant");
    if (!seen.insert(key.key).second) return bad("this key was already given");
    keys.push_back(std::move(key));
  }
  if (keys.empty()) return InvalidArgument(path + ": holds no key; write one key per line");
  return keys;
}

}  // namespace aril::gateway
