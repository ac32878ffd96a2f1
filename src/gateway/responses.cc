#include "gateway/responses.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "gateway/conversation.h"
#include "gateway/generation_fields.h"
#include "gateway/response_input.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

constexpr std::string_view kIncludeLogprobs = "message.output_text.logprobs";
// Of an element of `include` that a request brings into a message.
constexpr size_t kMaxShown = 64;
// Of what an answer repeats of its request, each of them, as JSON text: a stream does so three
// times.
constexpr size_t kMaxRepeatedBytes = 32 << 10;

// Besides those that no answer from here has: parts of tools that a server runs itself, and
// reasoning that only its server can read.
constexpr std::string_view kIncludes[] = {
    kIncludeLogprobs,
    "reasoning.encrypted_content",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
};

// What needs answers, or conversations, that are kept.
struct NeedsStore {
  std::string_view field;
  const char* message;
};
constexpr NeedsStore kNeedStore[] = {
    {"previous_response_id",
     "is not supported, because no answers are kept; send the whole conversation as `input`"},
    {"conversation",
     "is not supported, because no conversations are kept; send the whole one as `input`"},
    {"prompt", "is not supported, because no prompts are kept; send `instructions` and `input`"},
};

constexpr RenamedField kRenamed[] = {{"messages", "`input`"},
                                     {"max_tokens", "`max_output_tokens`"},
                                     {"max_completion_tokens", "`max_output_tokens`"},
                                     {"logprobs", "`top_logprobs`, with `include`"},
                                     {"reasoning_effort", "`reasoning.effort`"},
                                     {"functions", "`tools`"}};

void RefuseOthers(JsonFields& fields) {
  for (const NeedsStore& need : kNeedStore) {
    if (fields.Find(need.field) != nullptr) fields.Fail(need.field, need.message);
  }
  if (fields.GetBool("store", false)) {
    fields.Fail("store", "must be false, or left out: this server keeps no answers");
  }
  if (fields.GetBool("background", false)) {
    fields.Fail("background", "must be false: there is nowhere to fetch the answer from");
  }
  // "auto" leaves something out of a conversation that is too long, which is an error here.
  const std::string truncation = fields.GetString("truncation", "disabled");
  if (truncation != "disabled" && truncation != "auto") {
    fields.Fail("truncation", "must be \"disabled\" or \"auto\"");
  }
  RefuseRenamed(kRenamed, fields);
}

// Whether to show logprobs.
bool ReadInclude(JsonFields& fields) {
  const Json* include = fields.Find("include");
  if (include == nullptr) return false;
  const Json::Array* list = include->AsArray();
  if (list == nullptr) {
    fields.Fail("include", "must be an array, not " + include->KindName());
    return false;
  }
  bool with_logprobs = false;
  for (const Json& item : *list) {
    const std::string* name = item.AsString();
    if (name == nullptr || std::ranges::find(kIncludes, *name) == std::end(kIncludes)) {
      fields.Fail("include", name == nullptr ? std::string("must hold strings only")
                                             : StrCat("does not know \"",
                                                      name->substr(0, kMaxShown), "\" here"));
      return false;
    }
    with_logprobs |= *name == kIncludeLogprobs;
  }
  return with_logprobs;
}

void ReadLogprobs(JsonFields& fields, CompletionRequest* request) {
  request->logprobs = ReadInclude(fields);
  const int64_t count = fields.GetInt("top_logprobs", 0, 0, wire::kMaxLogprobs);
  if (request->logprobs) {
    request->common.sampling.num_logprobs = static_cast<int32_t>(count);
  } else if (count > 0) {
    fields.Fail("top_logprobs", StrCat("needs `include`: [\"", kIncludeLogprobs, "\"]"));
  }
}

// `reasoning`: how much of it. What is asked of summaries says only how they would be shown.
void ReadReasoningOptions(JsonFields& fields, ReasoningFields* reasoning) {
  const Json* options = fields.Find("reasoning");
  if (options == nullptr) return;
  if (options->AsObject() == nullptr) {
    return fields.Fail("reasoning", "must be an object, not " + options->KindName());
  }
  JsonFields inner(*options, "reasoning.");
  reasoning->effort = inner.GetString("effort", "");
  inner.GetString("summary", "");
  fields.Take(inner);
}

ApiResult<Conversation> ReadConversation(JsonFields& fields) {
  Conversation conversation = {.field = "input", .messages = {}, .folds_system = true};
  RefuseOthers(fields);
  // The answer repeats them also where the choice is "none".
  const Json* tools = fields.Find("tools");
  if (tools != nullptr && tools->AsArray() == nullptr) {
    fields.Fail("tools", "must be an array, not " + tools->KindName());
  }
  fields.GetBool("parallel_tool_calls", true);
  conversation.tools = ReadTools(fields, ToolStyle::kFlat);
  conversation.reasoning = ReadReasoning(fields);
  ReadReasoningOptions(fields, &conversation.reasoning);
  const std::string instructions = fields.GetString("instructions", "");
  if (!fields.ok()) return *fields.error();
  const Json* input = fields.Find("input");
  if (input == nullptr) return InvalidField("input", "`input` is required.");
  auto messages = MessagesOfInput(*input, instructions);
  if (!messages.ok()) return messages.error();
  conversation.messages = std::move(messages.value());
  return conversation;
}

// A token's logprob belongs to a text, and is not known to be of reasoning or of a call.
std::optional<ApiError> CheckLogprobs(const CompletionRequest& request) {
  if (!request.logprobs || (!request.reasoning && !request.tool_calls)) return std::nullopt;
  return InvalidField("include", StrCat("`include` cannot have ", kIncludeLogprobs, " beside ",
                                        request.tool_calls ? "`tools`" : "reasoning",
                                        ": which tokens are of the text is not known. Ask on "
                                        "/v1/chat/completions, whose logprobs are of all tokens."));
}

// What OpenAI's answers say of their requests, as JSON text; what is very long is left out.
std::string Repeated(const JsonFields& fields, const GenerationDefaults& defaults) {
  std::string repeated = R"({"previous_response_id":null,"store":false)";
  const auto add = [&](std::string_view name, const Json& otherwise) {
    const Json* value = fields.Find(name);
    std::string text = (value == nullptr ? otherwise : *value).Dump();
    if (text.size() > kMaxRepeatedBytes) text = otherwise.Dump();
    repeated += StrCat(",\"", name, "\":", text);
  };
  add("instructions", {});
  add("max_output_tokens", {});
  add("metadata", Json::Object());
  add("parallel_tool_calls", true);
  add("reasoning", Json::Object{{"effort", nullptr}, {"summary", nullptr}});
  add("temperature", defaults.temperature);
  add("text", Json::Object{{"format", Json::Object{{"type", "text"}}}});
  add("tool_choice", "auto");
  add("tools", Json::Array());
  add("top_logprobs", 0);
  add("top_p", defaults.top_p);
  add("truncation", "disabled");
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"}) add(name, {});
  return repeated + "}";
}

}  // namespace

ApiResult<CompletionRequest> ParseResponsesRequest(std::string_view body,
                                                   const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request = {.endpoint = Endpoint::kResponses};
  if (auto error = ResolveModel(fields, context, &request)) return *error;
  ReadGenerationFieldsOfOne(fields, context.model, &request);
  ReadLogprobs(fields, &request);
  const auto max_tokens = ReadMaxTokens(fields, "max_output_tokens", 1, request);
  const Json* metadata = fields.Find("metadata");
  if (metadata != nullptr && metadata->AsObject() == nullptr) {
    fields.Fail("metadata", "must be an object, not " + metadata->KindName());
  }
  if (!fields.ok()) return *fields.error();
  auto conversation = ReadConversation(fields);
  if (!conversation.ok()) return conversation.error();
  conversation.value().max_tokens = max_tokens;
  if (auto error = AskFor(std::move(conversation.value()), fields, context, &request)) {
    return *error;
  }
  if (auto error = CheckLogprobs(request)) return *error;
  request.repeated = Repeated(fields, context.model.generation_defaults);
  return request;
}

ApiResult<Json> CountInputTokens(std::string_view body, const RequestContext& context) {
  const auto count = CountTokens(body, context, ReadConversation);
  if (!count.ok()) return count.error();
  return Json(Json::Object{{"object", "response.input_tokens"}, {"input_tokens", count.value()}});
}

}  // namespace aril::gateway
