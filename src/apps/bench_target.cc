#include "apps/bench_target.h"

#include <random>
#include <utility>

#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

// The base model and, of those that have a parent, the adapters.
StatusOr<BenchModels> ReadModels(const std::string& text, const std::string& base) {
  ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  const Json* data = json.Find("data");
  if (data == nullptr || data->AsArray() == nullptr) {
    return FailedPrecondition("/v1/models: the answer has no `data`");
  }
  BenchModels models = {.base = base, .adapters = {}};
  for (const Json& model : *data->AsArray()) {
    const Json* id = model.Find("id");
    const Json* parent = model.Find("parent");
    if (id == nullptr || id->AsString() == nullptr) continue;
    const bool is_base = parent == nullptr || parent->is_null();
    if (is_base && models.base.empty()) models.base = *id->AsString();
    if (!is_base) models.adapters.push_back(*id->AsString());
  }
  if (models.base.empty()) return FailedPrecondition("/v1/models: no base model; give --model");
  return models;
}

StatusOr<std::vector<std::string>> ReadLoraIds(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  std::vector<std::string> ids;
  if (json.AsArray() == nullptr) return FailedPrecondition("/lora-adapters: expected an array");
  for (const Json& adapter : *json.AsArray()) {
    const Json* id = adapter.Find("id");
    if (id == nullptr || id->AsInt() == nullptr) {
      return FailedPrecondition("/lora-adapters: an adapter has no integer `id`");
    }
    ids.push_back(std::to_string(*id->AsInt()));
  }
  return ids;
}

// llama-server gives an adapter that the list leaves out the scale 0, but an empty list, like none,
// leaves all at those it was started with: for the base model, some adapter is named with scale 0.
std::string LoraList(const BenchModels& models, int64_t adapter) {
  if (models.adapters.empty()) return "[]";
  const size_t named = adapter < 0 ? 0 : static_cast<size_t>(adapter);
  return StrCat("[{\"id\":", models.adapters[named], ",\"scale\":", adapter < 0 ? "0.0" : "1.0",
                "}]");
}

std::string PromptIds(int64_t num_tokens, size_t request_idx, const RequestOptions& options) {
  std::mt19937_64 prefix(options.seed);
  std::mt19937_64 random(options.seed * 1'000'003 + request_idx);
  const auto num_ids = static_cast<uint64_t>(options.max_token_id - kMinTokenId) + 1;
  std::string ids;
  for (int64_t i = 0; i < num_tokens; ++i) {
    if (i > 0) ids += ',';
    const uint64_t drawn = i < options.prefix_tokens ? prefix() : random();
    ids += std::to_string(kMinTokenId + static_cast<int32_t>(drawn % num_ids));
  }
  return ids;
}

}  // namespace

StatusOr<AdapterField> ParseAdapterField(const std::string& name) {
  if (name == "model") return AdapterField::kModel;
  if (name == "lora") return AdapterField::kLora;
  return InvalidArgument(StrCat("`", name, "`: expected model or lora"));
}

StatusOr<BenchModels> ListModels(const BenchTarget& target, const std::string& base) {
  ASSIGN_OR_RETURN(const std::string text, target.Fetch("/v1/models"));
  ASSIGN_OR_RETURN(BenchModels models, ReadModels(text, base));
  if (target.field == AdapterField::kModel) return models;
  ASSIGN_OR_RETURN(const std::string loras, target.Fetch("/lora-adapters"));
  ASSIGN_OR_RETURN(models.adapters, ReadLoraIds(loras));
  return models;
}

std::string RequestBody(AdapterField field, const BenchModels& models,
                        const WorkloadRequest& request, size_t request_idx,
                        const RequestOptions& options) {
  const bool is_by_name = field == AdapterField::kModel && request.adapter >= 0;
  const std::string& model =
      is_by_name ? models.adapters[static_cast<size_t>(request.adapter)] : models.base;
  // Written as text, not as a tree of a million integers: a client must not be what is measured.
  std::string body = "{\"model\":" + JsonQuote(model);
  if (field == AdapterField::kLora) body += ",\"lora\":" + LoraList(models, request.adapter);
  body += ",\"prompt\":[" + PromptIds(request.prompt_tokens, request_idx, options) + "]";
  body += ",\"max_tokens\":" + std::to_string(request.output_tokens);
  // return_token_ids: a chunk for every token, also for those that add no text yet.
  body +=
      ",\"ignore_eos\":true,\"temperature\":0,\"stream\":true,"
      "\"stream_options\":{\"include_usage\":true},\"return_token_ids\":true}";
  return body;
}

}  // namespace aril
