#include "gateway/conversation.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/strings.h"
#include "gateway/generation_fields.h"
#include "gateway/output_format_fields.h"
#include "gateway/prompt_tokens.h"
#include "gateway/special_text.h"
#include "gateway/system_turns.h"
#include "gateway/text.h"
#include "gateway/tool_call_syntax.h"
#include "grammar/tool_calls.h"
#include "tokenizer/chat_template.h"

namespace aril::gateway {
namespace {

// A conversation as the model gets it.
struct EncodedChat {
  std::shared_ptr<const ChatDialect> dialect;
  std::string text;
  std::vector<int32_t> tokens;
  // Where in the text the answer begins whose beginning it ends with.
  std::optional<size_t> answer = {};
};

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

// The variables that ask for so much reasoning: gpt-oss' templates take the words, others whether
// there is to be any, by either name.
Json::Object EffortVariables(const ReasoningFields& reasoning) {
  const std::string& effort = reasoning.effort;
  const auto is_wanted = effort == "none" ? std::optional(false) : reasoning.is_wanted;
  Json::Object variables;
  if (!effort.empty()) variables.emplace_back("reasoning_effort", effort);
  for (const char* name : {"enable_thinking", "thinking"}) {
    if (is_wanted) variables.emplace_back(name, *is_wanted);
  }
  return variables;
}

// chat_template_kwargs, and `documents`, which may stand there or in the request itself, as in
// vLLM.
void ReadVariables(JsonFields& fields, const ReasoningFields& reasoning, ChatPrompt* prompt) {
  Json::Object variables = EffortVariables(reasoning);
  const Json* given = fields.Find("chat_template_kwargs");
  const Json::Object* object = given == nullptr ? nullptr : given->AsObject();
  if (given != nullptr && object == nullptr) {
    return fields.Fail("chat_template_kwargs", "must be an object");
  }
  // Of two with one name the later counts.
  if (object != nullptr) variables.insert(variables.end(), object->begin(), object->end());
  prompt->variables = std::move(variables);
  JsonFields inner(prompt->variables, "chat_template_kwargs.");
  if (!IsEmptyList(inner.Find("tools"))) {
    inner.Fail("tools", "is not taken from here; give `tools` in the request itself");
  }
  prompt->documents = ReadDocuments(fields.Find("documents") != nullptr ? fields : inner);
  fields.Take(inner);
}

// What the template gets. Takes the messages.
ChatPrompt ReadChatPrompt(Conversation& conversation, JsonFields& fields,
                          const RequestContext& context) {
  ChatPrompt prompt;
  prompt.messages = std::move(conversation.messages);
  prompt.tools = conversation.tools.shown;
  prompt.unix_seconds = context.unix_seconds;
  const bool begins_anew = fields.GetBool("add_generation_prompt", false);
  prompt.continue_final_message =
      fields.GetBool("continue_final_message", conversation.is_begun && !begins_anew);
  prompt.add_generation_prompt = fields.GetBool(
      "add_generation_prompt", !prompt.continue_final_message && !conversation.is_over);
  if (prompt.add_generation_prompt && prompt.continue_final_message) {
    fields.Fail("continue_final_message", "excludes `add_generation_prompt`");
  }
  if (fields.Find("chat_template") != nullptr) {
    fields.Fail("chat_template",
                "is not taken from requests; start the server with --chat-template");
  }
  ReadVariables(fields, conversation.reasoning, &prompt);
  return prompt;
}

// OpenAI's newer name of a system message, for templates that know only the older one, and would
// leave it out without a word, or refuse it.
void NameDevelopers(const ChatTemplate& chat_template, Json* messages) {
  if (chat_template.knows_developers()) return;
  for (Json& message : *messages->AsArray()) {
    Json* role = message.Find("role");
    if (IsText(role, "developer")) *role = "system";
  }
}

// The text of the last message, without the whitespace around it, is what `text` ends with.
size_t BeginningOfLast(const Json& messages, std::string_view text) {
  const Json* content = messages.AsArray()->back().Find("content");
  const std::string_view said = StripLeft(StripRight(*content->AsString()));
  return said.empty() ? text.size() : std::min(text.rfind(said), text.size());
}

// Takes the messages.
ApiResult<EncodedChat> Encode(Conversation& conversation, JsonFields& fields,
                              const RequestContext& context, const ModelText& model_text) {
  ChatPrompt prompt = ReadChatPrompt(conversation, fields, context);
  const bool add_special_tokens = fields.GetBool("add_special_tokens", false);
  if (!fields.ok()) return *fields.error();
  const ChatDialectOr& dialect = model_text.chat_dialect;
  if (!dialect.ok()) return InvalidField("model", Message(dialect.status()));
  const ChatTemplate& chat_template = (*dialect)->chat_template();
  NameDevelopers(chat_template, &prompt.messages);
  if (conversation.folds_system && HasLaterSystem(prompt.messages) &&
      !(*dialect)->ShowsLaterSystem()) {
    FoldLaterSystem(&prompt.messages);
  }
  auto text = chat_template.Render(prompt);
  if (!text.ok()) return InvalidField(conversation.field, Message(text.status()));
  auto tokens =
      EncodeText(context.model, model_text, *text, add_special_tokens, conversation.field);
  if (!tokens.ok()) return tokens.error();
  EncodedChat chat = {
      .dialect = *dialect, .text = *std::move(text), .tokens = std::move(tokens.value())};
  if (prompt.continue_final_message) chat.answer = BeginningOfLast(prompt.messages, chat.text);
  return chat;
}

// Makes the output one that may begin with reasoning: how to read it, its format, and how much of
// it there may be.
std::optional<ApiError> AllowReasoning(const Conversation& conversation, const EncodedChat& chat,
                                       CompletionRequest* request) {
  const auto syntax = chat.dialect->Reasoning();
  if (!syntax) return std::nullopt;
  const ReasoningFields& fields = conversation.reasoning;
  const Tokenizer& tokenizer = *request->model_text->tokenizer;
  const ReasoningState state = StateBehind(chat.text, chat.answer, *syntax);
  request->reasoning = ReadingOf(fields, *syntax, state, tokenizer);
  wire::OutputFormat& format = request->common.format;
  const bool has_format = !format.is_text() || !conversation.tools.callable.empty();
  // A format holds from the first token on, where reasoning is text like any other.
  if (has_format && !request->reasoning) return std::nullopt;
  if (!format.is_text()) format.reasoning = ToWire(*request->reasoning, tokenizer);
  auto budget = BudgetOf(fields, *syntax, state, *request->model_text);
  if (!budget.ok()) return budget.error();
  request->common.reasoning_budget = std::move(budget.value());
  return std::nullopt;
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

// What keeps an output to a format knows the base model's tokens alone. `written`: what comes
// before or in it.
std::optional<ApiError> CheckKnowsTokens(const std::vector<std::string>& written,
                                         const ServedModel& model, const ModelText& text,
                                         const std::string& field, const std::string& what) {
  const Tokenizer& tokenizer = *text.tokenizer;
  for (const std::string& part : written) {
    const std::vector<int32_t> tokens =
        tokenizer.Encode(part, {.add_special_tokens = false, .parse_special_tokens = true});
    const int32_t* const own = FindOwn(tokens, tokenizer, *model.text->tokenizer);
    if (own == nullptr) continue;
    return InvalidField(
        field, StrCat("`", field, "` cannot be kept to: this adapter writes ", what, " with ",
                      JsonQuote(tokenizer.TokenBytes(*own, /*is_first=*/false,
                                                     /*skip_special_tokens=*/false)),
                      ", a token that it has added to the base model's."));
  }
  return std::nullopt;
}

// Of nothing where arguments are an object, which says itself what each is.
ToolArgumentTypes TypesOfArguments(const grammar::ToolCallSyntax& syntax,
                                   const std::vector<grammar::ToolCallFormat::Tool>& tools) {
  ToolArgumentTypes types;
  if (!syntax.argument) return types;
  for (const auto& tool : tools) {
    types.emplace(tool.name, grammar::ArgumentTypes(tool.parameters));
  }
  return types;
}

// Makes this the format of the output, as far as tools that are not strict let it.
Status KeepTo(grammar::ToolCallFormat format, const ServedModel& model,
              CompletionRequest* request) {
  RETURN_IF_ERROR(grammar::Loosen(&format));
  wire::OutputFormat& output = request->common.format;
  output = {.kind = wire::OutputFormat::Kind::kToolCalls};
  if (request->reasoning) {
    output.reasoning = ToWire(*request->reasoning, *request->model_text->tokenizer);
  }
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
  const Tokenizer& tokenizer = *request->model_text->tokenizer;
  auto syntax = dialect.ToolCalls(tokenizer, model.EndTokensOf(*request->model_text));
  if (!syntax.ok()) return InvalidField("tools", Message(syntax.status()));
  if (auto error = CheckKnowsTokens(TextsOf(*syntax), model, *request->model_text, "tools",
                                    "calls of tools")) {
    return error;
  }
  if (const Status& why = request->model_text->keeps_formats; !why.ok()) {
    return InvalidField("tools", "`tools` cannot be kept to: " + Message(why) + ".");
  }
  const std::optional<ReasoningSyntax>& reasoning = dialect.Reasoning();
  if (reasoning && reasoning->is_in_channels() && !request->reasoning) {
    return InvalidField("tools",
                        "`tools` need a prompt that begins no answer, and the special tokens that "
                        "the chat template writes: this model calls a tool in place of an answer.");
  }
  wire::SequenceRequest& common = request->common;
  // Of what is a call whatever the format of a text.
  if (tools.is_required) common.format = {};
  if (auto error = CheckBesideFormat(common.format, *syntax)) return error;
  if (const char* excluded = ExcludedByFormats(common)) {
    return InvalidField(excluded, StrCat("`", excluded, "` excludes `tools`", kWhyExcluded, "."));
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
                      .argument_types = TypesOfArguments(*syntax, tools.callable),
                      .special_tokens = SpecialTokensOf(*syntax, tokenizer),
                      .only_at_start = tools.is_required || format.text_schema.has_value(),
                      .is_named = tools.is_named};
  const Status status = KeepTo(std::move(format), model, request);
  if (status.ok()) return std::nullopt;
  return InvalidField("tools", "`tools` cannot be kept to: " + Message(status) + ".");
}

}  // namespace

ApiResult<std::vector<int32_t>> EncodeConversation(Conversation conversation, JsonFields& fields,
                                                   const RequestContext& context,
                                                   AdapterId adapter) {
  const ModelTextPtr model_text = context.model.TextOf(adapter);
  auto chat = Encode(conversation, fields, context, *model_text);
  if (!chat.ok()) return chat.error();
  return std::move(chat.value().tokens);
}

ApiResult<int64_t> CountTokens(std::string_view body, const RequestContext& context,
                               ConversationReader read) {
  auto json = ParseBody(body, context.limits.max_body_bytes);
  if (!json.ok()) return json.error();
  JsonFields fields(json.value());
  CompletionRequest request;
  if (!fields.GetString("model", "").empty() || fields.Find("adapters") != nullptr) {
    if (auto error = ResolveModel(fields, context, &request)) return *error;
  }
  auto conversation = read(fields);
  if (!conversation.ok()) return conversation.error();
  const auto tokens =
      EncodeConversation(std::move(conversation.value()), fields, context, request.first_adapter());
  if (!tokens.ok()) return tokens.error();
  return static_cast<int64_t>(tokens.value().size());
}

std::optional<ApiError> AskFor(Conversation conversation, JsonFields& fields,
                               const RequestContext& context, CompletionRequest* request) {
  const ServedModel& model = context.model;
  auto chat = Encode(conversation, fields, context, *request->model_text);
  if (!chat.ok()) return chat.error();
  if (auto error = AllowReasoning(conversation, chat.value(), request)) return error;
  CheckOutputFormat(request->format_field, request->common.format, model, *request->model_text,
                    fields);
  const auto max_prompt_tokens =
      ReadMaxPromptTokens(fields, model.max_model_len, conversation.max_tokens);
  if (!fields.ok()) return fields.error();
  const ToolFields& tools = conversation.tools;
  if (request->reasoning && (!request->common.format.is_text() || !tools.callable.empty())) {
    const std::string field = tools.callable.empty() ? request->format_field : "tools";
    const ReasoningSyntax& syntax = request->reasoning->syntax;
    if (auto error = CheckKnowsTokens({syntax.begin, syntax.end, syntax.answer}, model,
                                      *request->model_text, field, "its reasoning")) {
      return error;
    }
  }
  if (!tools.callable.empty()) {
    if (auto error = AllowToolCalls(tools, *chat.value().dialect, model, request)) return error;
  }
  CompletionPrompt prompt = {.tokens = std::move(chat.value().tokens), .text = {}, .max_tokens = 0};
  if (max_prompt_tokens) {
    KeepLast(*max_prompt_tokens, *request->model_text->tokenizer, &prompt.tokens);
  }
  if (prompt.tokens.empty()) {
    return InvalidField(conversation.field,
                        StrCat("The chat template makes no token of `", conversation.field, "`."));
  }
  const auto num_tokens = static_cast<int64_t>(prompt.tokens.size());
  auto max_tokens = conversation.max_tokens;
  if (max_tokens && conversation.may_fill_context) {
    max_tokens = std::min(*max_tokens, std::max<int64_t>(1, model.max_model_len - num_tokens));
  }
  auto resolved = ResolveMaxTokens(num_tokens, max_tokens,
                                   model.generation_defaults.max_new_tokens.value_or(INT32_MAX),
                                   model.max_model_len, conversation.field);
  if (!resolved.ok()) return resolved.error();
  prompt.max_tokens = resolved.value();
  request->fills_context = num_tokens + prompt.max_tokens == model.max_model_len &&
                           conversation.max_tokens != prompt.max_tokens;
  request->prompts.push_back(std::move(prompt));
  return CheckNumLogprobs(*request);
}

}  // namespace aril::gateway
