#include "gateway/adapter_change_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "base/strings.h"
#include "catalog/split.h"
#include "gateway/json_fields.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

constexpr int64_t kMaxTtlSeconds = int64_t{10} * 365 * 24 * 3600;

constexpr std::array<std::string_view, 8> kChangeFields = {
    "source", "generation", "split", "ttl_seconds", "expected_generation",
    "pin",    "digest",     "sha256"};
constexpr std::array<std::string_view, 1> kChangeParameters = {"dry_run"};
constexpr std::array<std::string_view, 4> kUploadParameters = {"dry_run", "expected_generation",
                                                               "ttl_seconds", "digest"};
constexpr std::array<std::string_view, 1> kRemovalParameters = {"expected_generation"};
constexpr std::array<std::string_view, 3> kShareFields = {"generation", "adapter", "weight"};

std::optional<ApiError> CheckParameters(std::string_view query,
                                        std::span<const std::string_view> names) {
  const auto other = FindOtherParameter(query, names);
  if (!other.has_value()) return std::nullopt;
  const std::string name(*other);
  return InvalidField(name,
                      StrCat("`", name, "` is not known in the query of this request; it may have ",
                             Join(names, ", "), "."));
}

std::vector<ShareField> ReadSplit(JsonFields& fields) {
  std::vector<ShareField> shares;
  const Json* split = fields.Find("split");
  if (split == nullptr) return shares;
  const Json::Array* array = split->AsArray();
  if (array == nullptr || array->size() < 2 || array->size() > kMaxSplitShares) {
    fields.Fail("split", StrCat("must be an array of 2 to ", kMaxSplitShares, " shares"));
    return shares;
  }
  for (const Json& item : *array) {
    const std::string where = StrCat("split[", shares.size(), "]");
    if (item.AsObject() == nullptr) {
      fields.Fail(where, "must be an object, not " + item.KindName());
      return shares;
    }
    JsonFields share(item, where + ".");
    share.AllowOnly(kShareFields);
    const bool has_weight = share.Find("weight") != nullptr;
    shares.push_back({.generation = share.GetString("generation", ""),
                      .adapter = share.GetString("adapter", ""),
                      .weight = share.GetInt("weight", 1, 1, kMaxSplitWeight)});
    if (!has_weight) share.Fail("weight", "is required");
    if (shares.back().generation.empty() == shares.back().adapter.empty()) {
      share.Fail("generation", "or `adapter` is required, one of them");
    }
    fields.Take(share);
  }
  return shares;
}

void ReadDigests(JsonFields& fields, AdapterChange* change) {
  change->digests.generation = fields.GetString("digest", "");
  if (!change->digests.generation.empty() && !IsDigest(change->digests.generation)) {
    fields.Fail("digest",
                "must be the generation expected: 64 hexadecimal digits in small letters");
  }
  const Json* files = fields.Find("sha256");
  if (files == nullptr) return;
  const std::vector<std::string> names = AdapterFileNames();
  const Json::Object* members = files->AsObject();
  if (members == nullptr) return fields.Fail("sha256", "must be an object of digests by file name");
  for (const auto& [name, digest] : *members) {
    const std::string* text = digest.AsString();
    if (std::ranges::find(names, name) == names.end() || text == nullptr || !IsDigest(*text)) {
      return fields.Fail("sha256", "must give 64 hexadecimal digits in small letters for each of " +
                                       Join(names, ", ") + " that is named");
    }
    change->digests.files.emplace(name, *text);
  }
}

}  // namespace

ApiResult<AdapterChange> ParseAdapterChange(const std::string& name, const Json& body,
                                            std::string_view query) {
  if (auto error = CheckParameters(query, kChangeParameters)) return *std::move(error);
  JsonFields fields(body);
  fields.AllowOnly(kChangeFields);
  AdapterChange change = {.name = name,
                          .source = fields.GetString("source", ""),
                          .generation = fields.GetString("generation", ""),
                          .split = ReadSplit(fields),
                          .ttl_seconds = fields.GetInt("ttl_seconds", 0, 1, kMaxTtlSeconds)};
  if (fields.Find("expected_generation") != nullptr) {
    change.expected = fields.GetString("expected_generation", "");
  }
  if (fields.Find("pin") != nullptr) change.pin = fields.GetBool("pin", false);
  const int num_targets =
      int{!change.source.empty()} + int{!change.generation.empty()} + int{!change.split.empty()};
  if (num_targets > 1) {
    fields.Fail("source", "and `generation` and `split` exclude each other; give one of them");
  } else if (num_targets == 0 && !change.pin.has_value()) {
    fields.Fail("source", "or `generation` or `split` is required, one of them, or `pin` alone");
  }
  ReadDigests(fields, &change);
  if (!fields.ok()) return *fields.error();
  return change;
}

ApiResult<bool> ReadDryRun(std::string_view query) {
  const auto value = FindQueryParameter(query, "dry_run");
  if (!value.has_value() || *value == "false") return false;
  if (*value == "true") return true;
  return InvalidField("dry_run", "`dry_run` must be `true` or `false`.");
}

ApiResult<Catalog::Expected> ParseRemoval(std::string_view query) {
  if (auto error = CheckParameters(query, kRemovalParameters)) return *std::move(error);
  return FindQueryParameter(query, "expected_generation");
}

ApiResult<AdapterChange> ParseUpload(const std::string& name, std::string_view query) {
  if (auto error = CheckParameters(query, kUploadParameters)) return *std::move(error);
  AdapterChange change = {.name = name,
                          .source = "upload",
                          .expected = FindQueryParameter(query, "expected_generation")};
  change.digests.generation = FindQueryParameter(query, "digest").value_or("");
  if (!change.digests.IsEmpty() && !IsDigest(change.digests.generation)) {
    return InvalidField("digest", "`digest` must be 64 hexadecimal digits in small letters.");
  }
  const auto ttl = FindQueryParameter(query, "ttl_seconds");
  if (!ttl.has_value()) return change;
  const auto [end, error] =
      std::from_chars(ttl->data(), ttl->data() + ttl->size(), change.ttl_seconds);
  if (error != std::errc() || end != ttl->data() + ttl->size() || change.ttl_seconds < 1 ||
      change.ttl_seconds > kMaxTtlSeconds) {
    return InvalidField("ttl_seconds",
                        StrCat("`ttl_seconds` must be an integer from 1 to ", kMaxTtlSeconds, "."));
  }
  return change;
}

}  // namespace aril::gateway
