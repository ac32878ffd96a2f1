#include "gateway/responses.h"

#include "base/strings.h"
#include "gateway/auth.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ApiResult<CompletionRequest> Parse(const std::string& body) {
  static const auto* const model = new std::shared_ptr<const ServedModel>(MakeServedModel());
  return ParseResponsesRequest(
      body, {.model = **model, .limits = {.max_sequences = 8}, .tenant = kDefaultTenant});
}

// The members of a request besides model and input.
ApiResult<CompletionRequest> ParseMembers(const std::string& members) {
  return Parse(R"({"model":"base","input":"Hi")" + (members.empty() ? "" : "," + members) + "}");
}

std::string PromptOf(const ApiResult<CompletionRequest>& parsed) {
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  if (!parsed.ok()) return "";
  return ByteTokenizer().Decode(parsed.value().prompts[0].tokens, false);
}

TEST(Responses, HaveTheDefaultsOfOpenAi) {
  const auto parsed = ParseMembers("");
  EXPECT_EQ(PromptOf(parsed), "u:Hi;a:");
  const CompletionRequest& request = parsed.value();
  EXPECT_EQ(request.endpoint, Endpoint::kResponses);
  EXPECT_EQ(request.num_candidates(), 1);
  EXPECT_EQ(request.prompts[0].max_tokens, 64 - 7);
  EXPECT_FALSE(request.stream || request.logprobs);
  EXPECT_THAT(request.common.stop_token_ids, ElementsAre(kEosToken));
  EXPECT_EQ(request.repeated,
            R"({"previous_response_id":null,"store":false,"instructions":null,)"
            R"("max_output_tokens":null,"metadata":{},"parallel_tool_calls":true,)"
            R"("reasoning":{"effort":null,"summary":null},"temperature":1.0,)"
            R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],)"
            R"("top_logprobs":0,"top_p":1.0,"truncation":"disabled","user":null,)"
            R"("safety_identifier":null,"prompt_cache_key":null})");
}

// A stream does so three times, whatever its client reads.
TEST(Responses, RepeatNothingThatIsVeryLong) {
  const auto repeated = [](const std::string& members) {
    const auto parsed = ParseMembers(members);
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return parsed.ok() ? parsed.value().repeated : "";
  };
  const auto metadata = [&](size_t size) {
    return repeated(R"("metadata":{"a":")" + std::string(size, 'x') + R"("})");
  };
  EXPECT_THAT(metadata((32 << 10) - 8), HasSubstr("xxx"));
  EXPECT_THAT(metadata((32 << 10) - 7), HasSubstr(R"("metadata":{},)"));
  EXPECT_THAT(
      repeated(R"("tool_choice":"none","tools":[{"a":")" + std::string(1 << 20, 'x') + R"("}])"),
      HasSubstr(R"("tools":[],)"));
}

TEST(Responses, ReadTheirFields) {
  const auto parsed = ParseMembers(
      R"("instructions":"I","max_output_tokens":5,"temperature":0.5,"top_p":0.25,"stream":true,
         "include":["message.output_text.logprobs","reasoning.encrypted_content"],"top_logprobs":3,
         "store":false,"background":false,"truncation":"auto","service_tier":"auto",
         "metadata":{"a":"b"},"user":"u","text":{"format":{"type":"text"},"verbosity":"medium"},
         "seed":7,"top_k":9,"logprobs":false,"functions":[],"chat_template_kwargs":{"mood":"!"},"tool_choice":"none",
         "reasoning":{"summary":"detailed"},"reasoning_format":"none","stream_options":{"include_obfuscation":false},
         "previous_response_id":null,"conversation":null,"prompt":null,"unknown":{})");
  EXPECT_EQ(PromptOf(parsed), "s:I;u:Hi;a:!");
  const CompletionRequest& request = parsed.value();
  EXPECT_EQ(request.prompts[0].max_tokens, 5);
  EXPECT_TRUE(request.stream && request.logprobs && request.has_seed);
  EXPECT_EQ(request.common.sampling.num_logprobs, 3);
  EXPECT_EQ(request.common.sampling.top_k, 9);
  for (const char* repeated :
       {R"("instructions":"I")", R"("max_output_tokens":5)", R"("metadata":{"a":"b"})",
        R"("temperature":0.5)", R"("top_p":0.25)", R"("user":"u")", R"("tool_choice":"none")",
        R"("reasoning":{"summary":"detailed"})", R"("verbosity":"medium")"}) {
    EXPECT_THAT(request.repeated, HasSubstr(repeated));
  }
}

TEST(Responses, AreOfAdapters) {
  EXPECT_EQ(PromptOf(Parse(R"({"model":"poet","input":"Hi"})")), "poem:");
  EXPECT_EQ(Parse(R"({"model":"nobody","input":"Hi"})").error().status, 404);
}

// OpenAI's clients name the system so; a template that does not know the name would drop it.
TEST(Responses, TellTheSystemWhatDevelopersSay) {
  EXPECT_EQ(PromptOf(Parse(R"({"model":"base","input":[{"role":"developer","content":"I"},
                                                       {"role":"user","content":"Hi"}]})")),
            "s:I;u:Hi;a:");
}

TEST(Responses, MayHaveAFormat) {
  const auto source = [](const std::string& format) {
    const auto parsed = ParseMembers(R"("text":{"format":)" + format + "}");
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return parsed.ok() ? parsed.value().common.format.source : "";
  };
  EXPECT_EQ(source(R"({"type":"json_schema","name":"n","strict":true,"schema":{"type":"null"}})"),
            R"({"type":"null"})");
  EXPECT_EQ(source(R"({"type":"json_object"})"), R"({"type":"object"})");
  EXPECT_EQ(source("null"), "");
  EXPECT_EQ(ParseMembers(R"("structured_outputs":{"regex":"a+"})").value().common.format.source,
            "a+");
}

constexpr char kTools[] =
    R"("tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true},
                {"type":"function","name":"g"}])";

TEST(Responses, MayCallTools) {
  const auto parsed = ParseMembers(kTools);
  EXPECT_EQ(PromptOf(parsed), "f,g,u:Hi;a:") << "as the template knows them";
  EXPECT_THAT(parsed.value().common.format.source,
              HasSubstr(R"("tools":[{"name":"f","parameters":{"type":"object"}},{"name":"g")"));
  EXPECT_THAT(parsed.value().repeated, HasSubstr(R"("tools":[{"type":"function","name":"f",)"));
  const auto named =
      ParseMembers(StrCat(kTools, R"(,"tool_choice":{"type":"function","name":"g"})"));
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_TRUE(named.value().tool_calls->only_at_start);
  EXPECT_THAT(named.value().common.format.source, HasSubstr(R"("tools":[{"name":"g")"));
  const auto allowed =
      ParseMembers(StrCat(kTools, R"(,"tool_choice":{"type":"allowed_tools","mode":"required",
                          "tools":[{"type":"function","name":"f"}]})"));
  ASSERT_TRUE(allowed.ok()) << allowed.error().message;
  EXPECT_THAT(allowed.value().common.format.source, HasSubstr(R"("required":true)"));
}

TEST(Responses, TellTheTemplateHowMuchToReason) {
  const auto prompt = [](const std::string& model, const std::string& members) {
    return PromptOf(Parse(R"({"model":")" + model + R"(","input":"Hi",)" + members + "}"));
  };
  EXPECT_EQ(prompt("base", R"("reasoning":{"effort":"high"})"), "u:Hi;high;a:");
  EXPECT_EQ(prompt("base", R"("reasoning":{"effort":"none"})"), "u:Hi;none;off;a:");
  EXPECT_EQ(prompt("base", R"("reasoning":{"effort":"none"},
                              "chat_template_kwargs":{"enable_thinking":true})"),
            "u:Hi;none;a:")
      << "what is said more exactly counts";
}

TEST(Responses, RefuseWhatTheyCannotDoByNamingIt) {
  struct Bad {
    const char* members;
    const char* param;
    const char* message;
  };
  for (const Bad& bad : std::initializer_list<Bad>{
           {R"("previous_response_id":"resp_1")", "previous_response_id", "whole conversation"},
           {R"("conversation":"conv_1")", "conversation", "as `input`"},
           {R"("prompt":{"id":"p"})", "prompt", "`instructions`"},
           {R"("store":true)", "store", "keeps no answers"},
           {R"("background":true)", "background", "must be false"},
           {R"("truncation":"left")", "truncation", "\"disabled\" or \"auto\""},
           {R"("messages":[{}])", "messages", "is `input` here"},
           {R"("max_tokens":5)", "max_tokens", "is `max_output_tokens` here"},
           {R"("max_completion_tokens":5)", "max_completion_tokens", "`max_output_tokens`"},
           {R"("logprobs":true)", "logprobs", "`top_logprobs`"},
           {R"("reasoning_effort":"low")", "reasoning_effort", "`reasoning.effort`"},
           {R"("functions":[{}])", "functions", "is `tools` here"},
           {R"("response_format":{"type":"text"})", "response_format", "is `text.format` here"},
           {R"("n":2)", "n", "must be 1"},
           {R"("return_token_ids":true)", "return_token_ids", "/v1/chat/completions"},
           {R"("include":{})", "include", "must be an array"},
           {R"("include":[7])", "include", "strings only"},
           {R"("include":["usage"])", "include", "does not know \"usage\""},
           {R"("top_logprobs":2)", "top_logprobs", "needs `include`"},
           {R"("include":["message.output_text.logprobs"],"top_logprobs":21)", "top_logprobs",
            "between 0 and 20"},
           {R"("max_output_tokens":0)", "max_output_tokens", "at least 1"},
           {R"("max_output_tokens":60)", "input", "maximum context length is 64 tokens"},
           {R"("instructions":7)", "instructions", "must be a string"},
           {R"("metadata":[])", "metadata", "must be an object"},
           {R"("text":"x")", "text", "must be an object"},
           {R"("text":{"verbosity":"low"})", "text.verbosity", "\"medium\""},
           {R"("text":{"format":{"type":"grammar"}})", "text.format", "json_schema"},
           {R"("text":{"format":{"type":"json_schema","schema":{}}})", "text.format.name",
            "is required"},
           {R"("text":{"format":{"type":"json_schema","name":"n"}})", "text.format.schema",
            "is required"},
           {R"("text":{"format":{"type":"json_schema","name":"n","schema":{"type":"x"}}})",
            "text.format.schema", "cannot be kept to"},
           {R"("reasoning":"high")", "reasoning", "must be an object"},
           {R"("reasoning":{"effort":7})", "reasoning.effort", "must be a string"},
           {R"("reasoning":{"summary":7})", "reasoning.summary", "must be a string"},
           {R"("tools":"x","tool_choice":"none")", "tools", "must be an array"},
           {R"("parallel_tool_calls":1,"tool_choice":"none")", "parallel_tool_calls",
            "must be a boolean"},
           {R"("tools":[{"type":"web_search"}])", "tools[0]", "tools that a server runs itself"},
           {R"("tools":[{"type":"function"}])", "tools[0].name", "is required"},
           {R"("tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}])",
            "tools[1].name", "another tool"},
           {R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"file_search"})",
            "tool_choice", R"({"type": "function", "name": …})"},
           {R"("tools":[{"type":"function","name":"f"}],
               "include":["message.output_text.logprobs"])",
            "include", "beside `tools`"},
           {R"("chat_template_kwargs":{"mood":"<think>"},
               "include":["message.output_text.logprobs"])",
            "include", "beside reasoning"}}) {
    const auto parsed = ParseMembers(bad.members);
    ASSERT_FALSE(parsed.ok()) << bad.members;
    EXPECT_EQ(parsed.error().param, bad.param) << bad.members;
    EXPECT_THAT(parsed.error().message, HasSubstr(bad.message)) << bad.members;
    EXPECT_EQ(parsed.error().status, 400);
  }
  EXPECT_EQ(Parse(R"({"model":"base"})").error().message, "`input` is required.");
  EXPECT_EQ(Parse(R"({"input":"Hi"})").error().param, "model");
}

}  // namespace
}  // namespace aril::gateway
