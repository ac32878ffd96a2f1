#include "gateway/chat_completions.h"

#include "base/strings.h"
#include "gateway/auth.h"
#include "gateway/chat_messages.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ApiResult<CompletionRequest> Parse(const std::string& body) {
  static const auto* const model = new std::shared_ptr<const ServedModel>(MakeServedModel());
  return ParseChatRequest(
      body, {.model = **model, .limits = {.max_sequences = 8}, .tenant = kDefaultTenant});
}

// The fields of a request besides model and messages.
ApiResult<CompletionRequest> ParseFields(const std::string& fields) {
  return Parse(R"({"model":"base","messages":[{"role":"user","content":"Hi"}])" +
               (fields.empty() ? "" : "," + fields) + "}");
}

std::string PromptOf(const ApiResult<CompletionRequest>& parsed) {
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  if (!parsed.ok()) return "";
  return ByteTokenizer().Decode(parsed.value().prompts[0].tokens, false);
}

TEST(ChatCompletions, HaveTheDefaultsOfOpenAi) {
  const auto parsed = ParseFields("");
  EXPECT_EQ(PromptOf(parsed), "u:Hi;a:");
  const CompletionRequest& request = parsed.value();
  EXPECT_EQ(request.endpoint, Endpoint::kChat);
  EXPECT_EQ(request.num_candidates(), 1);
  EXPECT_EQ(request.prompts[0].max_tokens, 64 - 7);
  EXPECT_FALSE(request.stream || request.logprobs);
  EXPECT_THAT(request.common.stop_token_ids, ElementsAre(kEosToken));
}

TEST(ChatCompletions, ReadTheirFields) {
  const auto parsed = ParseFields(
      R"("max_tokens":9,"max_completion_tokens":5,"logprobs":true,"top_logprobs":3,"n":2,"stop":"x",
         "add_generation_prompt":false,"chat_template_kwargs":{"mood":"!"},"add_special_tokens":true,
         "tools":[{"type":"function"}],"tool_choice":"none","response_format":{"type":"text"},
         "modalities":["text"],"store":true,"metadata":{"a":"b"},"parallel_tool_calls":true)");
  EXPECT_EQ(PromptOf(parsed), "<s>u:Hi;!");
  EXPECT_EQ(parsed.value().prompts[0].max_tokens, 5);
  EXPECT_TRUE(parsed.value().logprobs);
  EXPECT_EQ(parsed.value().common.sampling.num_logprobs, 3);
  EXPECT_EQ(ParseFields(R"("max_tokens":9)").value().prompts[0].max_tokens, 9);
}

TEST(ChatCompletions, MayHaveAFormat) {
  const auto parsed = ParseFields(
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"null"}}})");
  EXPECT_EQ(PromptOf(parsed), "u:Hi;a:") << "which the prompt says nothing of";
  EXPECT_EQ(parsed.value().common.format.source, R"({"type":"null"})");
}

TEST(ChatCompletions, MayBePredicted) {
  const auto prediction = [](const std::string& content) {
    const auto parsed =
        ParseFields(R"("n":2,"prediction":{"type":"content","content":)" + content + "}");
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return ByteTokenizer().Decode(parsed.value().common.prediction, false);
  };
  EXPECT_EQ(prediction(R"("ok")"), "ok");
  EXPECT_EQ(prediction(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])"), "a\nb");
  EXPECT_EQ(prediction(R"("")"), "");
  EXPECT_EQ(prediction('"' + std::string(100, 'x') + '"'), std::string(57, 'x'))
      << "no answer is longer";
  EXPECT_THAT(ParseFields(R"("prediction":null)").value().common.prediction, IsEmpty());
}

// As in vLLM: what the model states counts where a request says nothing, and bounds nothing.
TEST(ChatCompletions, MayHaveALengthFromTheModel) {
  const auto whole = MakeServedModel();
  const ServedModel model = {.spec = whole->spec,
                             .generation_defaults = {.max_new_tokens = 6},
                             .text = whole->text,
                             .catalog = whole->catalog,
                             .max_model_len = 64};
  const CompletionLimits limits;
  const auto max_tokens_of = [&](const std::string& members, size_t content_size) {
    const auto parsed =
        ParseChatRequest(StrCat(R"({"model":"base","messages":[{"role":"user","content":")",
                                std::string(content_size, 'x'), R"("}])", members, "}"),
                         {.model = model, .limits = limits, .tenant = kDefaultTenant});
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return parsed.ok() ? parsed.value().prompts[0].max_tokens : -1;
  };
  EXPECT_EQ(max_tokens_of("", 2), 6);
  EXPECT_EQ(max_tokens_of("", 64 - 5 - 2), 2) << "no more fit";
  EXPECT_EQ(max_tokens_of(R"(,"max_tokens":9)", 2), 9);
}

TEST(ChatCompletions, GiveDocumentsToTheTemplate) {
  const std::string documents = R"([{"title":"a","text":"b"},{}])";
  EXPECT_EQ(PromptOf(ParseFields(R"("documents":)" + documents)), "2d:u:Hi;a:");
  EXPECT_EQ(PromptOf(ParseFields(R"("chat_template_kwargs":{"documents":)" + documents + "}")),
            "2d:u:Hi;a:");
  EXPECT_EQ(PromptOf(ParseFields(R"("documents":[{}],"chat_template_kwargs":{"documents":)" +
                                 documents + "}")),
            "1d:u:Hi;a:");
  EXPECT_EQ(PromptOf(ParseFields(R"("documents":null,"chat_template_kwargs":{"tools":[]})")),
            "u:Hi;a:");
}

TEST(ChatCompletions, TellTheSystemWhatDevelopersSayIfTheTemplateKnowsNone) {
  const std::string messages = R"("messages":[{"role":"developer","content":"I"}])";
  EXPECT_EQ(PromptOf(Parse(R"({"model":"base",)" + messages + "}")), "s:I;a:");
}

TEST(ChatCompletions, TellTheTemplateHowMuchToReason) {
  EXPECT_EQ(PromptOf(ParseFields(R"("reasoning_effort":"low")")), "u:Hi;low;a:");
  EXPECT_EQ(PromptOf(ParseFields(R"("reasoning_effort":"none")")), "u:Hi;none;off;a:");
  EXPECT_EQ(PromptOf(ParseFields(
                R"("reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"})")),
            "u:Hi;high;a:");
}

TEST(ChatCompletions, AdaptersMayBringTheirTemplate) {
  const std::string messages = R"(,"messages":[{"role":"user","content":"Hi"}]})";
  EXPECT_EQ(PromptOf(Parse(R"({"model":"poet")" + messages)), "poem:");
  EXPECT_EQ(PromptOf(Parse(R"({"model":"org/pirate")" + messages)), "u:Hi;a:");
}

TEST(ChatCompletions, WithoutATemplateSayWhatToDo) {
  const auto whole = MakeServedModel();
  const ServedModel model = {.spec = whole->spec,
                             .text = TextOfBytes(NotFound("give one")),
                             .catalog = whole->catalog,
                             .max_model_len = 64};
  const CompletionLimits limits;
  const auto parsed =
      ParseChatRequest(R"({"model":"base","messages":[{"role":"user","content":"Hi"}]})",
                       {.model = model, .limits = limits, .tenant = kDefaultTenant});
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().param, "model");
  EXPECT_EQ(parsed.error().message, "give one");
}

constexpr char kTools[] =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},
                {"type":"function","function":{"name":"g","parameters":{"not":{}}}}])";

TEST(ChatCompletions, MayCallTools) {
  const auto parsed = ParseFields(kTools);
  EXPECT_EQ(PromptOf(parsed), "f,g,u:Hi;a:");
  const CompletionRequest& request = parsed.value();
  ASSERT_TRUE(request.tool_calls.has_value());
  EXPECT_FALSE(request.tool_calls->is_named || request.tool_calls->only_at_start);
  EXPECT_EQ(request.tool_calls->syntax.begin, "<call>{\"name\": \"");
  EXPECT_EQ(request.common.format.kind, wire::OutputFormat::Kind::kToolCalls);
  EXPECT_EQ(request.common.format.source,
            R"({"begin":"<call>{\"name\": \"","middle":"\", \"arguments\": ","end":"}</call>",)"
            R"("marker":"<call>","required":false,"next":"}</call><call>{\"name\": \"",)"
            R"("tools":[{"name":"f","parameters":{"type":"object"}},)"
            R"({"name":"g","parameters":{"type":"object"}}]})");

  const auto source = [](const std::string& fields) {
    return ParseFields(kTools + fields).value().common.format.source;
  };
  EXPECT_THAT(source(R"(,"parallel_tool_calls":false)"), Not(HasSubstr("next")));
  EXPECT_THAT(source(R"(,"tool_choice":"required")"), HasSubstr(R"("required":true)"));
  const auto named = ParseFields(
      kTools + std::string(R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"));
  EXPECT_EQ(PromptOf(named), "f,g,u:Hi;a:");
  EXPECT_TRUE(named.value().tool_calls->is_named && named.value().tool_calls->only_at_start);
  EXPECT_FALSE(ParseFields(kTools + std::string(R"(,"tool_choice":"none")")).value().tool_calls);
}

// As agents ask for it whose last answer is to have a form.
TEST(ChatCompletions, MayCallToolsOrHaveAFormat) {
  const auto parsed =
      ParseFields(kTools + std::string(R"(,"response_format":{"type":"json_object"})"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_THAT(parsed.value().common.format.source, HasSubstr(R"("text_schema":{"type":"object"})"));
  EXPECT_TRUE(parsed.value().tool_calls->only_at_start);
}

// A call is none of the texts that a format is about.
TEST(ChatCompletions, HaveNoFormatWhereCallsAreRequired) {
  for (const char* format :
       {R"("structured_outputs":{"regex":"a+"})", R"("response_format":{"type":"json_object"})"}) {
    const auto parsed = ParseFields(StrCat(kTools, R"(,"tool_choice":"required",)", format));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_THAT(parsed.value().common.format.source, Not(HasSubstr("text_schema")));
  }
}

// The schemas alone would fit, but not with the rest.
TEST(ChatCompletions, LoosenToolsThatTheWholeHasNoRoomFor) {
  const auto tool_of = [](int max_length, const std::string& strict) {
    return StrCat(R"("tools":[{"type":"function","function":{"name":"f","strict":)", strict,
                  R"(,"parameters":{"properties":{"a":{"type":"string","maxLength":)", max_length,
                  "}}}}}]");
  };
  EXPECT_THAT(ParseFields(tool_of(9'000, "false")).value().common.format.source,
              HasSubstr("maxLength"));
  for (int max_length = 99'700; max_length < 100'100; max_length += 20) {
    EXPECT_TRUE(ParseFields(tool_of(max_length, "false")).ok()) << max_length;
  }
  const auto strict = ParseFields(tool_of(100'100, "true"));
  ASSERT_FALSE(strict.ok());
  EXPECT_THAT(strict.error().message, HasSubstr("nodes"));
}

TEST(ChatCompletions, CutConversationsToTheirLastTokens) {
  const auto parsed = ParseFields(R"("truncate_prompt_tokens":5)");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_THAT(parsed.value().prompts[0].tokens, ElementsAre('H', 'i', ';', 'a', ':'));
}

TEST(ChatCompletions, RefuseToolsThatTheyCannotCall) {
  const auto error = [](const std::string& fields) {
    const auto parsed = ParseFields(kTools + fields);
    return parsed.ok() ? "" : parsed.error().param + ": " + parsed.error().message;
  };
  EXPECT_THAT(error(R"(,"structured_outputs":{"regex":"a"})"),
              HasSubstr("tools: `tools` can stand beside a JSON Schema only"));
  EXPECT_THAT(error(R"(,"min_tokens":1)"), HasSubstr("min_tokens: `min_tokens` excludes `tools`"));
  EXPECT_THAT(error(R"(,"bad_words":["a"])"), HasSubstr("`bad_words` excludes `tools`"));
  const auto poet = Parse(R"({"model":"poet","messages":[{"role":"user","content":"Hi"}],)" +
                          std::string(kTools) + "}");
  ASSERT_FALSE(poet.ok());
  EXPECT_EQ(poet.error().param, "tools");
  EXPECT_THAT(poet.error().message, HasSubstr("leaves the last message out; leave tools out"));
  const auto large = [](const std::string& name) {
    return R"({"type":"function","function":{"name":")" + name + R"(","strict":true,)" +
           R"("parameters":{"const":")" + std::string(70'000, 'x') + R"("}}})";
  };
  const auto parsed = ParseFields(R"("tools":[)" + large("f") + "," + large("g") + "]");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr("`tools` cannot be kept to: f: #: "));
}

TEST(ChatCompletions, RefuseWhatTheyCannotDoByNamingIt) {
  struct Bad {
    const char* fields;
    const char* param;
    const char* message;
  };
  for (const Bad& bad : std::initializer_list<Bad>{
           {R"("tools":[{}])", "tools[0]", "type is \"function\""},
           {R"("tool_choice":"required")", "tool_choice", "needs `tools`"},
           {R"("functions":[{}])", "functions", "use `tools`"},
           {R"("function_call":{"name":"f"})", "function_call", "use `tool_choice`"},
           {R"("response_format":{"type":"grammar"})", "response_format", "json_schema"},
           {R"("guided_grammar":"root ::= x")", "guided_grammar", "is not supported"},
           {R"("modalities":["text","audio"])", "modalities", "must be"},
           {R"("audio":{})", "audio", "not supported"},
           {R"("top_logprobs":2)", "top_logprobs", "needs `logprobs`"},
           {R"("logprobs":3)", "logprobs", "must be a boolean"},
           {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "between 0 and 20"},
           {R"("max_completion_tokens":0)", "max_completion_tokens", "at least 1"},
           {R"("max_tokens":60)", "messages", "maximum context length is 64 tokens"},
           {R"("min_tokens":4,"max_completion_tokens":3)", "min_tokens", "`max_completion_tokens`"},
           {R"("n":9)", "n", "more than the 8"},
           {R"("chat_template":"x")", "chat_template", "--chat-template"},
           {R"("reasoning_effort":1)", "reasoning_effort", "must be a string"},
           {R"("chat_template_kwargs":[])", "chat_template_kwargs", "must be an object"},
           {R"("chat_template_kwargs":{"tools":[{}]})", "chat_template_kwargs.tools",
            "in the request itself"},
           {R"("chat_template_kwargs":{"documents":"x"})", "chat_template_kwargs.documents",
            "must be an array of objects"},
           {R"("prediction":"x")", "prediction", "must be an object, "},
           {R"("prediction":{"content":"x"})", "prediction.type", "must be \"content\""},
           {R"("prediction":{"type":"content"})", "prediction.content", "is required"},
           {R"("prediction":{"type":"content","content":3})", "prediction.content",
            "must be a string or an array of text parts"},
           {R"("documents":{})", "documents", "must be an array of objects"},
           {R"("documents":["x"])", "documents", "must be an array of objects"},
           {R"("continue_final_message":true,"add_generation_prompt":true)",
            "continue_final_message", "excludes"}}) {
    const auto parsed = ParseFields(bad.fields);
    ASSERT_FALSE(parsed.ok()) << bad.fields;
    EXPECT_EQ(parsed.error().param, bad.param) << bad.fields;
    EXPECT_THAT(parsed.error().message, HasSubstr(bad.message)) << bad.fields;
    EXPECT_EQ(parsed.error().status, 400);
  }
}

TEST(ChatCompletions, PassOnWhatTheTemplateObjectsTo) {
  const auto parsed = Parse(R"({"model":"base","messages":[{"role":"elf","content":"Hi"}]})");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().message, "no elves");
  EXPECT_EQ(parsed.error().param, "messages");
}

std::string Normalized(const std::string& messages) {
  const auto json = Json::Parse(messages);
  EXPECT_TRUE(json.ok()) << json.status();
  const auto result = NormalizeMessages(*json);
  return result.ok() ? result.value().Dump() : result.error().param + " " + result.error().message;
}

TEST(ChatMessages, ContentBecomesText) {
  EXPECT_EQ(Normalized(R"([{"role":"user","content":[{"type":"text","text":"a"},
                                                     {"type":"text","text":"b"}],"name":"x"}])"),
            R"([{"role":"user","content":"a\nb","name":"x"}])");
  EXPECT_EQ(Normalized(R"([{"role":"assistant","content":null},{"role":"assistant"}])"),
            R"([{"role":"assistant","content":""},{"role":"assistant","content":""}])");
}

// As /v1/responses has them: some clients send one history to both.
TEST(ChatMessages, PartsMayBeThoseOfResponses) {
  EXPECT_EQ(Normalized(R"([{"role":"user","content":[{"type":"input_text","text":"a"},
                            {"type":"output_text","text":"b"},{"type":"refusal","refusal":"c"}]}])"),
            R"([{"role":"user","content":"a\nb\nc"}])");
}

TEST(ChatMessages, NullMembersAreAbsent) {
  // An assistant's turn as OpenAI's library dumps it. Templates ask "'tool_calls' in message".
  EXPECT_EQ(Normalized(R"([{"role":"assistant","content":"Hi","refusal":null,"annotations":[],
                            "audio":null,"function_call":null,"tool_calls":null}])"),
            R"([{"role":"assistant","content":"Hi","annotations":[]}])");
  EXPECT_THAT(Normalized(R"([{"role":null,"content":"x"}])"), HasSubstr("messages[0].role "));
  EXPECT_THAT(Normalized(R"([{"role":"user","content":null}])"), HasSubstr("messages[0].content "));
}

TEST(ChatMessages, ReasoningHasTheNamesThatTemplatesRead) {
  const auto normalized = [](const std::string& reasoning) {
    return Normalized(R"([{"role":"assistant","content":"",)" + reasoning + "}]");
  };
  for (const char* name : {"reasoning", "thinking", "reasoning_content"}) {
    const std::string both = normalized(StrCat('"', name, R"(":"why")"));
    EXPECT_THAT(both, HasSubstr(R"("thinking":"why")"));
    EXPECT_THAT(both, HasSubstr(R"("reasoning_content":"why")"));
  }
  // The first one counts, in the order of transformers; `thinking` stays what it is.
  EXPECT_EQ(normalized(R"("thinking":"b","reasoning":"c")"),
            R"([{"role":"assistant","content":"","thinking":"b","reasoning":"c",)"
            R"("reasoning_content":"b"}])");
  EXPECT_EQ(normalized(R"("thinking":"b","reasoning_content":"a")"),
            R"([{"role":"assistant","content":"","thinking":"b","reasoning_content":"a"}])");
  EXPECT_EQ(normalized(R"("reasoning":null)"), R"([{"role":"assistant","content":""}])");
}

TEST(ChatMessages, ArgumentsOfToolCallsBecomeObjects) {
  EXPECT_EQ(Normalized(R"([{"role":"assistant","content":"","tool_calls":[{"type":"function",
                            "function":{"name":"f","arguments":"{\"x\": [1]}"}}]}])"),
            R"([{"role":"assistant","content":"","tool_calls":[{"type":"function",)"
            R"("function":{"name":"f","arguments":{"x":[1]}}}]}])");
}

TEST(ChatMessages, ErrorsNameTheMessage) {
  EXPECT_THAT(Normalized("{}"), HasSubstr("messages `messages` must be an array"));
  EXPECT_THAT(Normalized("[]"), HasSubstr("must not be empty"));
  EXPECT_THAT(Normalized("[1]"), HasSubstr("messages[0] "));
  EXPECT_THAT(Normalized(R"([{"role":"user","content":"x"},{"content":"x"}])"),
              HasSubstr("messages[1].role "));
  EXPECT_THAT(Normalized(R"([{"role":"user"}])"), HasSubstr("messages[0].content "));
  EXPECT_THAT(Normalized(R"([{"role":"user","content":7}])"), HasSubstr("not an integer"));
  EXPECT_THAT(Normalized(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
              HasSubstr("messages[0].content[0] "));
  EXPECT_THAT(Normalized(R"([{"role":"assistant","tool_calls":[{"function":{"arguments":"["}}]}])"),
              HasSubstr("messages[0].tool_calls[0].function.arguments "));
}

}  // namespace
}  // namespace aril::gateway
