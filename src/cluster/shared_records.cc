#include "cluster/shared_records.h"

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "catalog/catalog.h"
#include "catalog/generation_store.h"
#include "catalog/split.h"
#include "spec/lora_config.h"

namespace aril::cluster {
namespace {

// Beyond all times and sizes that there are: what is computed with them stays a number.
constexpr int64_t kMaxInt = int64_t{1} << 40;

// Keeps the first thing that is wrong, so that reading is a list of members.
class RecordReader {
 public:
  explicit RecordReader(const Json& object) : object_(object) {
    if (object.AsObject() == nullptr) Fail("it", "is no object");
  }

  std::string Text(std::string_view name) {
    const Json* value = object_.Find(name);
    if (value == nullptr) return "";
    if (const std::string* text = value->AsString()) return *text;
    Fail(name, "is no string");
    return "";
  }
  int64_t Int(std::string_view name) {
    const Json* value = object_.Find(name);
    if (value == nullptr) return 0;
    const int64_t* number = value->AsInt();
    if (number != nullptr && *number >= 0 && *number <= kMaxInt) return *number;
    Fail(name, StrCat("is no integer from 0 to ", kMaxInt));
    return 0;
  }
  bool Bool(std::string_view name) {
    const Json* value = object_.Find(name);
    if (value == nullptr) return false;
    if (const bool* b = value->AsBool()) return *b;
    Fail(name, "is no boolean");
    return false;
  }
  const Json::Array& Array(std::string_view name, size_t max) {
    static const Json::Array kEmpty;
    const Json* value = object_.Find(name);
    if (value == nullptr) return kEmpty;
    const Json::Array* array = value->AsArray();
    if (array != nullptr && array->size() <= max) return *array;
    Fail(name, StrCat("is no array of at most ", max));
    return kEmpty;
  }
  std::string Digest(std::string_view name) {
    std::string digest = Text(name);
    if (!IsDigest(digest)) Fail(name, "is no digest");
    return digest;
  }
  void Fail(std::string_view name, const std::string& what) {
    if (status_.ok()) status_ = InvalidArgument(StrCat(name, " ", what));
  }
  void Take(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  const Status& status() const { return status_; }

 private:
  const Json& object_;
  Status status_;
};

Json ToJson(const SplitShare& share) {
  return Json::Object{{"generation", share.digest},
                      {"weight", share.weight},
                      {"adapter", share.adapter},
                      {"rank", share.rank},
                      {"bytes", share.bytes}};
}

Json ToJson(const PastGeneration& past) {
  Json::Array split;
  for (const SplitShare& share : past.split) split.push_back(ToJson(share));
  return Json::Object{{"generation", past.digest},
                      {"since", past.since_unix},
                      {"source", past.source},
                      {"split", std::move(split)}};
}

PastGeneration ReadPast(const Json& json, RecordReader& outer) {
  RecordReader reader(json);
  PastGeneration past = {.digest = reader.Text("generation"),
                         .since_unix = reader.Int("since"),
                         .split = {},
                         .source = reader.Text("source")};
  for (const Json& item : reader.Array("split", kMaxSplitShares)) {
    RecordReader share(item);
    past.split.push_back({.digest = share.Digest("generation"),
                          .weight = share.Int("weight"),
                          .adapter = share.Text("adapter"),
                          .rank = share.Int("rank"),
                          .bytes = share.Int("bytes")});
    if (past.split.back().weight < 1 || past.split.back().weight > kMaxSplitWeight) {
      share.Fail("weight", "is out of range");
    }
    reader.Take(share.status());
  }
  const bool is_right =
      past.split.empty() ? IsDigest(past.digest) : past.digest == DigestOfSplit(past.split);
  if (!is_right) reader.Fail("generation", "is no digest, or not that of the split");
  outer.Take(reader.status());
  return past;
}

}  // namespace

std::string ToText(const RegisteredAdapter& row) {
  Json::Array history;
  for (const PastGeneration& past : row.history) history.push_back(ToJson(past));
  return Json(Json::Object{{"owner", row.owner},
                           {"name", row.name},
                           {"expires", row.expires_unix},
                           {"pin", row.is_pinned},
                           {"rank", row.rank},
                           {"bytes", row.bytes},
                           {"history", std::move(history)}})
      .Dump();
}

std::string ToText(const SharedGeneration& generation) {
  Json::Array invocation_tokens;
  for (const int32_t token : generation.invocation_tokens) invocation_tokens.push_back(token);
  return Json(Json::Object{{"generation", generation.digest},
                           {"source", generation.source},
                           {"rank", generation.rank},
                           {"bytes", generation.bytes},
                           {"pool_bytes", generation.pool_bytes},
                           {"invocation_tokens", std::move(invocation_tokens)},
                           {"chat_template", generation.chat_template},
                           {"tokens", generation.tokens},
                           {"vocab_size", generation.vocab_size}})
      .Dump();
}

StatusOr<RegisteredAdapter> ReadRow(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, Json::Parse(text, {.max_bytes = SharedNames::kMaxValueBytes}));
  RecordReader reader(json);
  RegisteredAdapter row = {.owner = reader.Text("owner"),
                           .name = reader.Text("name"),
                           .expires_unix = reader.Int("expires"),
                           .is_pinned = reader.Bool("pin"),
                           .history = {},
                           .rank = reader.Int("rank"),
                           .bytes = reader.Int("bytes")};
  if (!IsValidName(row.name)) reader.Fail("name", "is no name");
  for (const Json& past : reader.Array("history", Catalog::kMaxHistory)) {
    row.history.push_back(ReadPast(past, reader));
  }
  if (row.history.empty()) reader.Fail("history", "is empty");
  RETURN_IF_ERROR(reader.status());
  return row;
}

StatusOr<SharedGeneration> ReadGeneration(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, Json::Parse(text, {.max_bytes = SharedNames::kMaxValueBytes}));
  RecordReader reader(json);
  SharedGeneration generation = {.digest = reader.Digest("generation"),
                                 .source = reader.Text("source"),
                                 .rank = reader.Int("rank"),
                                 .bytes = reader.Int("bytes"),
                                 .pool_bytes = reader.Int("pool_bytes"),
                                 .vocab_size = reader.Int("vocab_size")};
  if (generation.source.empty()) reader.Fail("source", "is missing");
  if (generation.vocab_size > std::numeric_limits<int32_t>::max()) {
    reader.Fail("vocab_size", "is too large");
  }
  for (const Json& token : reader.Array("invocation_tokens", kMaxInvocationTokens)) {
    const int64_t* id = token.AsInt();
    if (id == nullptr || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      reader.Fail("invocation_tokens", "has what is no token");
      break;
    }
    generation.invocation_tokens.push_back(static_cast<int32_t>(*id));
  }
  if (const Json* chat_template = json.Find("chat_template")) {
    generation.chat_template = *chat_template;
  }
  if (const Json* tokens = json.Find("tokens")) generation.tokens = *tokens;
  RETURN_IF_ERROR(reader.status());
  return generation;
}

}  // namespace aril::cluster
