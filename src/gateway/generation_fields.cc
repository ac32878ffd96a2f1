#include "gateway/generation_fields.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "catalog/split.h"
#include "gateway/adapter_loads.h"
#include "gateway/output_format_fields.h"
#include "gateway/sampling_fields.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxStopStringBytes = 1024;
constexpr size_t kMaxStopTokenIds = 1024;
// Of a field's name that a request brings into a message.
constexpr size_t kMaxShownField = 64;

// What vLLM has, and would give other answers than without it.
constexpr std::string_view kUnsupported[] = {"prompt_embeds", "prompt_logprobs", "use_beam_search"};

// Who asks, or in which session; the first one that is there counts.
constexpr std::string_view kStickyFields[] = {"user", "safety_identifier", "prompt_cache_key"};

void ReadStopStrings(JsonFields& fields, CompletionRequest* request) {
  const char* name = request->endpoint == Endpoint::kMessages ? "stop_sequences" : "stop";
  const Json* stop = fields.Find(name);
  if (stop == nullptr) return;
  const auto fail = [&](const std::string& message) { fields.Fail(name, message); };
  if (const std::string* one = stop->AsString()) {
    request->stop = {*one};
  } else if (const Json::Array* many = stop->AsArray()) {
    for (const Json& item : *many) {
      const std::string* text = item.AsString();
      if (text == nullptr) return fail("must hold strings only");
      request->stop.push_back(*text);
    }
  } else {
    return fail("must be a string or an array of strings, not " + stop->KindName());
  }
  if (request->stop.size() > kMaxStopStrings) {
    return fail(StrCat("must not hold more than ", kMaxStopStrings, " strings"));
  }
  for (const std::string& text : request->stop) {
    if (text.empty() || text.size() > kMaxStopStringBytes) {
      return fail(StrCat("strings must have 1 to ", kMaxStopStringBytes, " bytes"));
    }
  }
}

void ReadStopTokens(JsonFields& fields, const ServedModel& model, const ModelText& text,
                    wire::SequenceRequest* common) {
  const auto max_id = static_cast<int32_t>(text.vocab_size - 1);
  common->stop_token_ids = fields.GetIntArray("stop_token_ids", 0, max_id);
  if (common->stop_token_ids.size() > kMaxStopTokenIds) {
    fields.Fail("stop_token_ids", StrCat("must not hold more than ", kMaxStopTokenIds, " ids"));
  }
  if (!fields.GetBool("ignore_eos", false)) {
    const std::vector<int32_t> ends = model.EndTokensOf(text);
    common->stop_token_ids.insert(common->stop_token_ids.end(), ends.begin(), ends.end());
  }
}

void ReadStreaming(JsonFields& fields, CompletionRequest* request) {
  request->stream = fields.GetBool("stream", false);
  const Json* options = fields.Find("stream_options");
  if (options == nullptr) return;
  if (options->AsObject() == nullptr) {
    return fields.Fail("stream_options", "must be an object, not " + options->KindName());
  }
  if (!request->stream) return fields.Fail("stream_options", "needs `stream`: true");
  const Json* include_usage = options->Find("include_usage");
  if (include_usage == nullptr || include_usage->is_null()) return;
  if (include_usage->AsBool() == nullptr) {
    return fields.Fail("stream_options.include_usage",
                       "must be a boolean, not " + include_usage->KindName());
  }
  request->include_usage = *include_usage->AsBool();
}

void RefuseUnsupported(JsonFields& fields) {
  for (const std::string_view name : kUnsupported) {
    if (AsksForNothing(fields.Find(name))) continue;
    fields.Fail(name, "is not supported by this server; leave it out");
  }
}

// One of `adapters`: {"name", "weight"}. A weight of 0 leaves the adapter out.
std::optional<ApiError> ReadAdapter(const Json& json, const std::string& where,
                                    JsonFields& request_fields, const RequestContext& context,
                                    CompletionRequest* request) {
  if (json.AsObject() == nullptr) {
    return InvalidField("adapters", StrCat("`", where,
                                           "` must be an object with a name and, if "
                                           "need be, a weight, not ",
                                           json.KindName()));
  }
  JsonFields fields(json, where + ".");
  const std::string name = fields.GetString("name", "");
  const double weight =
      fields.GetNumber("weight", 1, -wire::kMaxAdapterWeight, wire::kMaxAdapterWeight);
  if (fields.Find("name") == nullptr) fields.Fail("name", "is required");
  for (const auto& [key, value] : *json.AsObject()) {
    if (key != "name" && key != "weight") {
      fields.Fail(key.substr(0, kMaxShownField), "is not known; an adapter has name and weight");
    }
  }
  if (!fields.ok()) return fields.error();
  auto entry = FindModel(name, request_fields, context);
  if (!entry.ok()) {
    ApiError error = entry.error();
    error.param = where + ".name";
    return error;
  }
  const AdapterId id = entry.value()->adapter();
  if (id == kBaseModel) {
    return InvalidField(where + ".name", StrCat("`", name, "` is the base model, not an adapter"));
  }
  if (Uses(request->common.adapters, id)) {
    return InvalidField(where + ".name",
                        StrCat("`", name, "` is in the list already: give it one weight"));
  }
  if (weight == 0) return std::nullopt;
  request->common.adapters.push_back({id, static_cast<float>(weight)});
  request->entries.push_back(std::move(entry.value()));
  return std::nullopt;
}

// `adapters`: several at a time, each with a weight, instead of the one that `model` names.
std::optional<ApiError> ReadAdapters(const Json& json, JsonFields& fields,
                                     const RequestContext& context, CompletionRequest* request) {
  const Json::Array* list = json.AsArray();
  if (list == nullptr || list->size() > kMaxAdaptersPerRequest) {
    return InvalidField("adapters",
                        StrCat("`adapters` must be a list of at most ", kMaxAdaptersPerRequest,
                               " objects {\"name\": …, \"weight\": …}"));
  }
  if (request->first_adapter() != kBaseModel) {
    return InvalidField("adapters",
                        StrCat("`adapters` says which adapters apply: `model` must then be the "
                               "base model, ",
                               context.model.catalog->base_name()));
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string where = StrCat("adapters[", i, "]");
    if (auto error = ReadAdapter((*list)[i], where, fields, context, request)) return error;
  }
  return std::nullopt;
}

// The same for all requests of one user or session; without any, for all of one seed, or of what
// metadata calls a user.
uint64_t ReadSplitPoint(const std::string& model, JsonFields& fields,
                        const RequestContext& context) {
  for (const std::string_view name : kStickyFields) {
    const std::string key = fields.GetString(name, "");
    if (!key.empty()) return SplitPoint(context.tenant, model, "key", key);
  }
  if (const auto seed = fields.FindInt("seed", INT64_MIN, INT64_MAX)) {
    return SplitPoint(context.tenant, model, "seed", StrCat(*seed));
  }
  // Where Anthropic's API has a user, and others what the client likes: before chance only.
  const Json* metadata = fields.Find("metadata");
  const Json* user = metadata == nullptr ? nullptr : metadata->Find("user_id");
  if (user != nullptr && user->AsString() != nullptr && !user->AsString()->empty()) {
    return SplitPoint(context.tenant, model, "key", *user->AsString());
  }
  return context.draw;
}

// Of an adapter whose files are closed, where nobody may wait for that.
ApiError MustOpen(const std::string& name, AdapterId adapter) {
  ApiError error = Overloaded(StrCat("The files of the adapter `", name, "` have to be opened."));
  error.closed_adapter = adapter;
  return error;
}

// Of a name that has no generation, but a load.
ApiError NotLoaded(const std::string& name, const AdapterLoadStatus& load) {
  if (load.state != AdapterLoadStatus::State::kFailed) {
    ApiError error =
        Overloaded(StrCat("The adapter `", name, "` is still being loaded (", load.done_bytes,
                          " bytes so far); GET /v1/adapters/", name, " shows how far it is."));
    error.code = "adapter_loading";
    error.param = "model";
    error.awaited_model = name;
    return error;
  }
  const std::string message =
      StrCat("The adapter `", name, "` could not be loaded: ", Message(load.error));
  // A passing failure, or one of the adapter that was registered: there is no such model.
  ApiError error = FromStatus(load.error);
  if (error.status < 500) error = ModelNotFound(name);
  error.message = message;
  error.param = "model";
  error.code = "adapter_load_failed";
  return error;
}

// An entry that keeps its adapter's files open.
CatalogEntryPtr KeepOpen(CatalogEntryPtr entry, Generation::Opened opened) {
  struct Kept {
    CatalogEntryPtr entry;
    Generation::Opened opened;
  };
  const auto kept = std::make_shared<const Kept>(Kept{std::move(entry), std::move(opened)});
  return {kept, kept->entry.get()};
}

// What bounds the logprobs of an answer.
struct LogprobFields {
  std::string_view alternatives;
  std::string_view tokens;
};

LogprobFields LogprobFieldsOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kCompletions:
      return {"logprobs", "`max_tokens`, `n`, `best_of`, `echo`"};
    case Endpoint::kChat:
      return {"top_logprobs", "`max_completion_tokens`, `n`"};
    case Endpoint::kResponses:
      return {"top_logprobs", "`max_output_tokens`"};
    case Endpoint::kMessages:  // which have none
    case Endpoint::kEmbeddings:
    case Endpoint::kClassify:
      return {"top_logprobs", "`max_tokens`"};
  }
  CHECK(false);
}

}  // namespace

ApiResult<CatalogEntryPtr> FindModel(const std::string& name, JsonFields& fields,
                                     const RequestContext& context) {
  // Asked before the catalog is: what is over by the time that the catalog is asked is there.
  const auto load =
      context.loads == nullptr ? std::nullopt : context.loads->Find(context.tenant, name);
  const CatalogEntryPtr named = context.model.catalog->Resolve(context.tenant, name);
  if (named == nullptr) return load.has_value() ? NotLoaded(name, *load) : ModelNotFound(name);
  if (named->generation == nullptr) return named;
  const uint64_t point = ReadSplitPoint(name, fields, context);
  CatalogEntryPtr entry = named->is_split() ? ChooseShare(*named, point).entry : named;
  StatusOr<Generation::Opened> opened = entry->generation->FindPrepared();
  if (*opened == nullptr) {
    if (!context.may_open) return MustOpen(name, entry->adapter());
    opened = entry->generation->Prepare();
  }
  // What is wrong with our own files, and where they are, is no business of clients.
  constexpr const char* kReason = "its files cannot be read; the server's log says why";
  entry->usage->OnRequest(context.unix_seconds, opened.ok() ? "" : kReason);
  if (entry != named) named->usage->OnRequest(context.unix_seconds, opened.ok() ? "" : kReason);
  if (opened.ok()) return KeepOpen(std::move(entry), *std::move(opened));
  LogError(StrCat("adapter ", name, " cannot be served: ", Message(opened.status())));
  ApiError error =
      FromStatus(Internal(StrCat("The adapter `", name, "` cannot be served: ", kReason)));
  error.param = "model";
  return error;
}

std::optional<ApiError> ResolveModel(JsonFields& fields, const RequestContext& context,
                                     CompletionRequest* request) {
  request->model = fields.GetString("model", "");
  if (!fields.ok()) return fields.error();
  if (fields.Find("model") == nullptr) return InvalidField("model", "`model` is required.");
  auto entry = FindModel(request->model, fields, context);
  if (!entry.ok()) return entry.error();
  if (!context.model.spec.has_lm_head && !request->is_pooled()) {
    return InvalidField(
        "model", StrCat("The base model is a decoder alone (", context.model.spec.architecture,
                        "), without lm_head: it makes embeddings and classes, and no "
                        "text."));
  }
  request->common.tenant = context.tenant;
  request->common.adapters = MixOf(entry.value()->adapter());
  request->entries.push_back(std::move(entry.value()));
  if (const Json* adapters = fields.Find("adapters")) {
    if (auto error = ReadAdapters(*adapters, fields, context, request)) return error;
  }
  request->model_text = context.model.TextOf(request->first_adapter());
  for (const AdapterUse& use : request->common.adapters) {
    if (context.model.TextOf(use.id)->vocab_size == request->model_text->vocab_size) continue;
    return InvalidField("adapters",
                        "`adapters` has one whose vocabulary was resized behind one of another "
                        "vocabulary: name it first, as text is that of the first.");
  }
  return std::nullopt;
}

void ReadGenerationFields(JsonFields& fields, const ServedModel& model,
                          CompletionRequest* request) {
  request->n = static_cast<int32_t>(fields.GetInt("n", 1, 1, INT32_MAX));
  request->best_of = request->n;
  request->skip_special_tokens = fields.GetBool("skip_special_tokens", true);
  request->return_token_ids = fields.GetBool("return_token_ids", false);
  request->includes_stop = fields.GetBool("include_stop_str_in_output", false);
  wire::SequenceRequest& common = request->common;
  common.min_tokens = static_cast<int32_t>(fields.GetInt("min_tokens", 0, 0, INT32_MAX));
  if (const auto seed = fields.FindInt("seed", INT64_MIN, INT64_MAX)) {
    request->has_seed = true;
    common.sampling.seed = static_cast<uint64_t>(*seed);
  }
  ReadSampling(fields, model.generation_defaults, *request->model_text, &common.sampling);
  ReadStopStrings(fields, request);
  ReadStopTokens(fields, model, *request->model_text, &common);
  ReadStreaming(fields, request);
  RefuseUnsupported(fields);
  request->format_field = ReadOutputFormat(fields, request->endpoint, &common);
  common.priority = ReadPriority(fields);
  for (const std::string_view name : kStickyFields) fields.GetString(name, "");
}

void ReadGenerationFieldsOfOne(JsonFields& fields, const ServedModel& model,
                               CompletionRequest* request) {
  ReadGenerationFields(fields, model, request);
  if (request->n != 1) {
    fields.Fail("n", "must be 1: there is one answer here; send several requests");
  }
  if (request->return_token_ids) {
    fields.Fail("return_token_ids", "is not supported here, but on /v1/chat/completions");
  }
}

int32_t ReadPriority(JsonFields& fields) {
  return -static_cast<int32_t>(fields.GetInt("priority", 0, -INT32_MAX, INT32_MAX));
}

std::optional<int64_t> ReadMaxTokens(JsonFields& fields, std::string_view name, int64_t min,
                                     const CompletionRequest& request) {
  const auto max_tokens = fields.FindInt(name, min, INT32_MAX);
  if (max_tokens && request.common.min_tokens > *max_tokens) {
    fields.Fail("min_tokens", StrCat("must not be greater than `", name, "`"));
  }
  return max_tokens;
}

std::optional<ApiError> CheckNumSequences(int64_t num_prompts, const CompletionRequest& request,
                                          const CompletionLimits& limits) {
  if (num_prompts * request.best_of <= limits.max_sequences) return std::nullopt;
  const char* number = request.best_of > request.n ? "best_of" : "n";
  return InvalidField(
      request.best_of > limits.max_sequences ? number : "prompt",
      StrCat(num_prompts, " prompts with ", number, " = ", request.best_of, " are more than the ",
             limits.max_sequences, " completions that one request may ask for."));
}

std::optional<ApiError> CheckNumLogprobs(const CompletionRequest& request) {
  if (!request.logprobs) return std::nullopt;
  const wire::SamplingParams& sampling = request.common.sampling;
  const int64_t of_token = sampling.num_logprobs.value_or(0) + 1;
  const LogprobFields names = LogprobFieldsOf(request.endpoint);
  int64_t num_tokens = 0;
  for (const CompletionPrompt& prompt : request.prompts) {
    const auto num_prompt = static_cast<int64_t>(prompt.tokens.size());
    if (sampling.prompt_logprobs) num_tokens += num_prompt;
    if (!request.stream) num_tokens += prompt.max_tokens;
    if (request.stream && sampling.prompt_logprobs && num_prompt * of_token > kMaxLogprobsOfEvent) {
      return InvalidField(
          "stream",
          StrCat("With `echo` the first event of a stream would have the logprobs of all ",
                 num_prompt, " tokens of the prompt, with ", of_token - 1,
                 " alternatives for each: more than the ", kMaxLogprobsOfEvent,
                 " that one event may have. Ask without `stream`, or for fewer `logprobs`."));
    }
  }
  num_tokens *= request.best_of;
  if (num_tokens * of_token <= kMaxLogprobsOfAnswer) return std::nullopt;
  return InvalidField(
      std::string(names.alternatives),
      StrCat("An answer of up to ", num_tokens, " tokens, with ", of_token - 1,
             " alternatives for each, would have more than the ", kMaxLogprobsOfAnswer,
             " logprobs that one answer may have: ask for fewer tokens (", names.tokens,
             "), or for fewer alternatives."));
}

}  // namespace aril::gateway
