#include "gateway/chat_completions.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/strings.h"
#include "gateway/chat_messages.h"
#include "gateway/generation_fields.h"
#include "gateway/output_format_fields.h"
#include "gateway/prompt_tokens.h"
#include "gateway/reasoning_fields.h"
#include "gateway/text.h"
#include "gateway/tool_call_syntax.h"
#include "gateway/tool_fields.h"
#include "grammar/tool_calls.h"
#include "tokenizer/chat_template.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

bool IsEmpty(const Json* value) {
  return value == nullptr || (value->AsArray() != nullptr && value->AsArray()->empty());
}

// OpenAI's older form of tools.
void RefuseFunctions(JsonFields& fields) {
  if (!IsEmpty(fields.Find("functions"))) fields.Fail("functions", "is not supported; use `tools`");
  const Json* call = fields.Find("function_call");
  if (call != nullptr && !IsText(call, "none") && !IsText(call, "auto")) {
    fields.Fail("function_call", "is not supported; use `tool_choice`");
  }
}

void RefuseOtherModalities(JsonFields& fields) {
  if (fields.Find("audio") != nullptr) fields.Fail("audio", "is not supported");
  const Json* modalities = fields.Find("modalities");
  if (modalities == nullptr) return;
  const Json::Array* list = modalities->AsArray();
  if (list == nullptr || list->size() != 1 || !IsText(&list->front(), "text")) {
    fields.Fail("modalities", "must be [\"text\"]");
  }
}

void ReadChatLogprobs(JsonFields& fields, CompletionRequest* request) {
  request->logprobs = fields.GetBool("logprobs", false);
  const int64_t count = fields.GetInt("top_logprobs", 0, 0, wire::kMaxLogprobs);
  if (count > 0 && !request->logprobs) return fields.Fail("top_logprobs", "needs `logprobs`: true");
  if (request->logprobs) request->common.sampling.num_logprobs = static_cast<int32_t>(count);
}

std::optional<int64_t> ReadChatMaxTokens(JsonFields& fields, const CompletionRequest& request) {
  const auto legacy = ReadMaxTokens(fields, "max_tokens", 1, request);
  const auto current = ReadMaxTokens(fields, "max_completion_tokens", 1, request);
  return current ? current : legacy;
}

// What a template may quote from.
Json ReadDocuments(JsonFields& fields) {
  const Json* documents = fields.Find("documents");
  if (documents == nullptr) return {};
  const Json::Array* list = documents->AsArray();
  const auto is_object = [](const Json& item) { return item.AsObject() != nullptr; };
  if (list == nullptr || !std::ranges::all_of(*list, is_object)) {
    fields.Fail("documents", "must be an array of objects");
  }
  return *documents;
}

// chat_template_kwargs, and `documents`, which may stand there or in the request itself, as in
// vLLM.
void ReadVariables(JsonFields& fields, ChatPrompt* prompt) {
  const Json* variables = fields.Find("chat_template_kwargs");
  if (variables != nullptr && variables->AsObject() == nullptr) {
    return fields.Fail("chat_template_kwargs", "must be an object");
  }
  prompt->variables = variables == nullptr ? Json::Object() : *variables;
  JsonFields inner(prompt->variables, "chat_template_kwargs.");
  if (!IsEmpty(inner.Find("tools"))) {
    inner.Fail("tools", "is not taken from here; give `tools` in the request itself");
  }
  prompt->documents = ReadDocuments(fields.Find("documents") != nullptr ? fields : inner);
  fields.Take(inner);
}

// What the template gets besides the messages.
ApiResult<ChatPrompt> ReadChatPrompt(JsonFields& fields, const RequestContext& context,
                                     const Json& tools) {
  const Json* messages = fields.Find("messages");
  if (messages == nullptr) return InvalidField("messages", "`messages` is required.");
  auto normalized = NormalizeMessages(*messages);
  if (!normalized.ok()) return normalized.error();
  ChatPrompt prompt;
  prompt.messages = std::move(normalized.value());
  prompt.tools = tools;
  prompt.unix_seconds = context.unix_seconds;
  prompt.continue_final_message = fields.GetBool("continue_final_message", false);
  prompt.add_generation_prompt =
      fields.GetBool("add_generation_prompt", !prompt.continue_final_message);
  if (prompt.add_generation_prompt && prompt.continue_final_message) {
    fields.Fail("continue_final_message", "excludes `add_generation_prompt`");
  }
  if (fields.Find("chat_template") != nullptr) {
    fields.Fail("chat_template",
                "is not taken from requests; start the server with --chat-template");
  }
  ReadVariables(fields, &prompt);
  if (!fields.ok()) return *fields.error();
  return prompt;
}

// A conversation as the model gets it.
struct EncodedChat {
  std::shared_ptr<const ChatDialect> dialect;
  std::string text;
  std::vector<int32_t> tokens;
  // Where in the text the answer begins whose beginning it ends with.
  std::optional<size_t> answer = {};
};

// The text of the last message, without the whitespace around it, is what `text` ends with.
size_t BeginningOfLast(const Json& messages, std::string_view text) {
  const Json* content = messages.AsArray()->back().Find("content");
  const std::string_view said = StripLeft(StripRight(*content->AsString()));
  return said.empty() ? text.size() : std::min(text.rfind(said), text.size());
}

ApiResult<EncodedChat> Encode(JsonFields& fields, const RequestContext& context, AdapterId adapter,
                              const Json& tools) {
  auto prompt = ReadChatPrompt(fields, context, tools);
  const bool add_special_tokens = fields.GetBool("add_special_tokens", false);
  if (!prompt.ok()) return prompt.error();
  if (!fields.ok()) return *fields.error();
  const ChatDialectOr dialect = context.model.ChatDialectOf(adapter);
  if (!dialect.ok()) return InvalidField("model", Message(dialect.status()));
  auto text = (*dialect)->chat_template().Render(prompt.value());
  if (!text.ok()) return InvalidField("messages", Message(text.status()));
  auto tokens = EncodeText(context.model, *text, add_special_tokens, "messages");
  if (!tokens.ok()) return tokens.error();
  EncodedChat chat = {
      .dialect = *dialect, .text = *std::move(text), .tokens = std::move(tokens.value())};
  if (prompt.value().continue_final_message) {
    chat.answer = BeginningOfLast(prompt.value().messages, chat.text);
  }
  return chat;
}

// Makes the output one that may begin with reasoning: how to read it, and its format.
void AllowReasoning(const ReasoningFields& fields, const EncodedChat& chat,
                    const Tokenizer& tokenizer, CompletionRequest* request) {
  request->reasoning =
      ReadingOf(fields, chat.dialect->Reasoning(), chat.text, chat.answer, tokenizer);
  wire::OutputFormat& format = request->common.format;
  if (request->reasoning && !format.is_text()) {
    format.reasoning = ToWire(*request->reasoning, tokenizer);
  }
}

std::optional<ApiError> CheckBesideFormat(const wire::OutputFormat& format,
                                          const grammar::ToolCallSyntax& syntax) {
  if (format.is_text()) return std::nullopt;
  const bool is_json = format.kind == wire::OutputFormat::Kind::kJsonSchema;
  if (is_json && grammar::IsUnlikeJson(syntax)) return std::nullopt;
  return InvalidField("tools", is_json
                                   ? "`tools` cannot stand beside a format of the output: this "
                                     "model's calls could be taken for JSON."
                                   : "`tools` can stand beside a JSON Schema only, beside no other "
                                     "format of the output.");
}

// Makes this the format of the output, as far as tools that are not strict let it.
Status KeepTo(grammar::ToolCallFormat format, const ServedModel& model,
              CompletionRequest* request) {
  RETURN_IF_ERROR(grammar::Loosen(&format));
  wire::OutputFormat& output = request->common.format;
  output = {.kind = wire::OutputFormat::Kind::kToolCalls};
  if (request->reasoning) output.reasoning = ToWire(*request->reasoning, *model.tokenizer);
  const auto check = [&] {
    output.source = ToSource(format);
    return model.check_format(output);
  };
  const Status status = check();
  return !status.ok() && grammar::LoosenAll(&format) ? check() : status;
}

// Makes the output one that may call tools: its format, and how to read it.
std::optional<ApiError> AllowToolCalls(const ToolFields& tools, const ChatDialect& dialect,
                                       const ServedModel& model, CompletionRequest* request) {
  const Tokenizer& tokenizer = *model.tokenizer;
  auto syntax = dialect.ToolCalls(tokenizer, model.spec.eos_token_ids);
  if (!syntax.ok()) return InvalidField("tools", Message(syntax.status()));
  wire::SequenceRequest& common = request->common;
  // Of what is a call whatever the format of a text.
  if (tools.is_required) common.format = {};
  if (auto error = CheckBesideFormat(common.format, *syntax)) return error;
  if (common.min_tokens > 0) {
    return InvalidField("min_tokens",
                        "`min_tokens` excludes `tools`: a call may be complete sooner.");
  }
  if (!tools.is_parallel) syntax->next.reset();
  grammar::ToolCallFormat format = {.syntax = MarkSpecialTokens(*syntax, tokenizer),
                                    .tools = tools.callable,
                                    .is_required = tools.is_required};
  if (!common.format.is_text()) {
    auto schema = Json::Parse(common.format.source);
    if (!schema.ok()) return FromStatus(schema.status());
    format.text_schema = *std::move(schema);
  }
  request->tool_calls =
      ToolCallReading{.syntax = *syntax,
                      .special_tokens = SpecialTokensOf(*syntax, tokenizer),
                      .only_at_start = tools.is_required || format.text_schema.has_value(),
                      .is_named = tools.is_named};
  const Status status = KeepTo(std::move(format), model, request);
  if (status.ok()) return std::nullopt;
  return InvalidField("tools", "`tools` cannot be kept to: " + Message(status) + ".");
}

}  // namespace

ApiResult<std::vector<int32_t>> EncodeChat(JsonFields& fields, const RequestContext& context,
                                           AdapterId adapter) {
  RefuseFunctions(fields);
  const ToolFields tools = ReadTools(fields);
  auto chat = Encode(fields, context, adapter, tools.shown);
  if (!chat.ok()) return chat.error();
  return std::move(chat.value().tokens);
}

ApiResult<CompletionRequest> ParseChatRequest(std::string_view body,
                                              const RequestContext& context) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request = {.endpoint = Endpoint::kChat};
  if (auto error = ResolveModel(fields, context, &request)) return *error;
  ReadGenerationFields(fields, context.model, &request);
  ReadChatLogprobs(fields, &request);
  const auto max_tokens = ReadChatMaxTokens(fields, request);
  RefuseOtherModalities(fields);
  RefuseFunctions(fields);
  const ToolFields tools = ReadTools(fields);
  const ReasoningFields reasoning = ReadReasoning(fields);
  if (!fields.ok()) return *fields.error();
  if (auto error = CheckNumSequences(1, request, context.limits)) return *error;

  CompletionPrompt prompt;
  auto chat = Encode(fields, context, request.first_adapter(), tools.shown);
  if (!chat.ok()) return chat.error();
  AllowReasoning(reasoning, chat.value(), *context.model.tokenizer, &request);
  CheckOutputFormat(request.format_field, request.common.format, context.model, fields);
  if (!fields.ok()) return *fields.error();
  if (!tools.callable.empty()) {
    if (auto error = AllowToolCalls(tools, *chat.value().dialect, context.model, &request)) {
      return *error;
    }
  }
  prompt.tokens = std::move(chat.value().tokens);
  if (prompt.tokens.empty()) {
    return InvalidField("messages", "The chat template makes no token of these `messages`.");
  }
  auto resolved =
      ResolveMaxTokens(static_cast<int64_t>(prompt.tokens.size()), max_tokens,
                       context.model.generation_defaults.max_new_tokens.value_or(INT32_MAX),
                       context.model.max_model_len, "messages");
  if (!resolved.ok()) return resolved.error();
  prompt.max_tokens = resolved.value();
  request.prompts.push_back(std::move(prompt));
  if (auto error = CheckNumLogprobs(request)) return *error;
  return request;
}

}  // namespace aril::gateway
