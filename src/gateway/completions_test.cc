#include "gateway/completions.h"

#include "base/strings.h"
#include "gateway/auth.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

ApiResult<CompletionRequest> Parse(const std::string& body) {
  static const auto* const model = new std::shared_ptr<const ServedModel>(MakeServedModel());
  return ParseCompletionRequest(
      body, {.model = **model, .limits = {.max_sequences = 8}, .tenant = kDefaultTenant});
}

// The fields of a request besides model and prompt.
ApiResult<CompletionRequest> ParseFields(const std::string& fields) {
  return Parse(R"({"model":"base","prompt":"hi")" + (fields.empty() ? "" : "," + fields) + "}");
}

TEST(Completions, HaveTheDefaultsOfOpenAi) {
  const auto parsed = ParseFields("");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const CompletionRequest& request = parsed.value();
  EXPECT_EQ(request.model, "base");
  EXPECT_EQ(request.n, 1);
  EXPECT_FALSE(request.stream || request.echo || request.include_usage || request.has_seed);
  EXPECT_TRUE(request.skip_special_tokens);
  ASSERT_EQ(request.prompts.size(), 1u);
  EXPECT_THAT(request.prompts[0].tokens, ElementsAre(kBosToken, 'h', 'i'));
  EXPECT_EQ(request.prompts[0].max_tokens, 16);
  EXPECT_THAT(request.common.adapters, IsEmpty());
  EXPECT_THAT(request.common.stop_token_ids, ElementsAre(kEosToken));
  const wire::SamplingParams& sampling = request.common.sampling;
  EXPECT_EQ(sampling.temperature, 1);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.top_p, 1);
  EXPECT_EQ(sampling.num_logprobs, std::nullopt);
}

TEST(Completions, HaveTheDefaultsOfTheModel) {
  const auto whole = MakeServedModel();
  const ServedModel model = {.spec = whole->spec,
                             .generation_defaults = {.temperature = 0.6,
                                                     .top_k = 20,
                                                     .top_p = 0.95,
                                                     .min_p = 0.05,
                                                     .repetition_penalty = 1.1},
                             .text = TextOfBytes(),
                             .catalog = whole->catalog,
                             .max_model_len = 64};
  const CompletionLimits limits;
  const auto sampling = [&](const std::string& fields) {
    const auto parsed =
        ParseCompletionRequest(R"({"model":"base","prompt":"hi")" + fields + "}",
                               {.model = model, .limits = limits, .tenant = kDefaultTenant});
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return parsed.value().common.sampling;
  };
  const wire::SamplingParams of_model = sampling(R"(,"temperature":null)");
  EXPECT_EQ(of_model.temperature, 0.6f);
  EXPECT_EQ(of_model.top_k, 20);
  EXPECT_EQ(of_model.top_p, 0.95f);
  EXPECT_EQ(of_model.min_p, 0.05f);
  EXPECT_EQ(of_model.repetition_penalty, 1.1f);
  const wire::SamplingParams of_request =
      sampling(R"(,"temperature":0,"top_k":-1,"top_p":1,"min_p":0,"repetition_penalty":1)");
  EXPECT_EQ(of_request.temperature, 0);
  EXPECT_EQ(of_request.top_k, 0);
  EXPECT_EQ(of_request.top_p, 1);
  EXPECT_EQ(of_request.min_p, 0);
  EXPECT_EQ(of_request.repetition_penalty, 1);
}

TEST(Completions, ReadEveryField) {
  const auto parsed = ParseFields(
      R"("max_tokens":7,"n":3,"best_of":3,"seed":-1,"temperature":0.5,"top_p":0.9,"top_k":40,
         "min_p":0.1,"repetition_penalty":1.1,"presence_penalty":-2,"frequency_penalty":2,
         "logit_bias":{"5":-100,"7":1.5},"logprobs":2,"echo":true,"stop":["a","b"],
         "stop_token_ids":[1,2],"min_tokens":3,"stream":true,"stream_options":{"include_usage":true},
         "skip_special_tokens":false,"add_special_tokens":false,"priority":-3,"user":"me",
         "return_token_ids":true,"suffix":null,"some_new_field":{"x":[1]})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const CompletionRequest& request = parsed.value();
  EXPECT_TRUE(request.echo && request.stream && request.include_usage && request.has_seed);
  EXPECT_TRUE(request.return_token_ids);
  EXPECT_FALSE(request.skip_special_tokens);
  EXPECT_EQ(request.num_candidates(), 3);
  EXPECT_THAT(request.stop, ElementsAre("a", "b"));
  EXPECT_THAT(request.prompts[0].tokens, ElementsAre('h', 'i'));
  EXPECT_EQ(request.prompts[0].text, "hi");
  EXPECT_EQ(request.prompts[0].max_tokens, 7);
  EXPECT_EQ(request.common.min_tokens, 3);
  EXPECT_EQ(request.common.priority, 3) << "the lower goes first, as in vLLM";
  EXPECT_THAT(request.common.stop_token_ids, ElementsAre(1, 2, kEosToken));
  const wire::SamplingParams& sampling = request.common.sampling;
  EXPECT_EQ(sampling.seed, UINT64_MAX);
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.1f);
  EXPECT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampling.presence_penalty, -2);
  EXPECT_EQ(sampling.frequency_penalty, 2);
  EXPECT_THAT(sampling.logit_bias, ElementsAre(std::pair(5, -100.0f), std::pair(7, 1.5f)));
  EXPECT_EQ(sampling.num_logprobs, 2);
  EXPECT_TRUE(sampling.prompt_logprobs);
}

TEST(Completions, SayWhichTokensMayCome) {
  const auto parsed = ParseFields(R"("allowed_token_ids":[9,7,9,0],"bad_words":[" no","no","ok"])");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const wire::SamplingParams& sampling = parsed.value().common.sampling;
  EXPECT_THAT(sampling.allowed_token_ids, ElementsAre(0, 7, 9));
  EXPECT_THAT(sampling.bad_words, ElementsAre(ElementsAre('n', 'o'), ElementsAre(' ', 'n', 'o'),
                                              ElementsAre('o', 'k'), ElementsAre(' ', 'o', 'k')));
  std::string many = "\"a\"";
  for (int i = 0; i < 256; ++i) many += ",\"a\"";
  for (const std::string& words :
       {many, StrCat('"', std::string(1025, 'a'), '"'), StrCat('"', std::string(129, 'a'), '"')}) {
    const auto refused = ParseFields(StrCat(R"("bad_words":[)", words, "]"));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().param, "bad_words");
  }
}

TEST(Completions, CutPromptsToTheirLastTokens) {
  const auto prompt = [](const std::string& fields) {
    auto parsed = Parse(R"({"model":"base",)" + fields + "}");
    EXPECT_TRUE(parsed.ok()) << parsed.error().message;
    return parsed.ok() ? std::move(parsed.value().prompts[0]) : CompletionPrompt();
  };
  EXPECT_THAT(prompt(R"("prompt":"abc","truncate_prompt_tokens":3)").tokens,
              ElementsAre(kBosToken, 'b', 'c'));
  EXPECT_THAT(prompt(R"("prompt":"abc","truncate_prompt_tokens":1)").tokens, ElementsAre('c'));
  EXPECT_THAT(prompt(R"("prompt":"abc","truncate_prompt_tokens":9)").tokens, SizeIs(4));
  EXPECT_THAT(prompt(R"("prompt":[97,98,99],"truncate_prompt_tokens":2)").tokens,
              ElementsAre('b', 'c'));
  EXPECT_EQ(prompt(R"("prompt":"abc","truncate_prompt_tokens":2,"echo":true)").text, "c");
  const std::string long_one = StrCat(R"("prompt":")", std::string(100, 'a'), '"');
  const auto cut = prompt(StrCat(long_one, R"(,"truncate_prompt_tokens":-1,"max_tokens":20)"));
  EXPECT_THAT(cut.tokens, SizeIs(44));
  EXPECT_EQ(cut.max_tokens, 20);
  EXPECT_THAT(prompt(StrCat(long_one, R"(,"truncate_prompt_tokens":-1)")).tokens, SizeIs(48));
}

TEST(Completions, TakeEveryFormOfPrompt) {
  const auto tokens = [](const std::string& prompt) {
    const auto parsed = Parse(R"({"model":"poet","prompt":)" + prompt + "}");
    std::string text = parsed.ok() ? "" : parsed.error().message;
    if (!parsed.ok()) return text;
    EXPECT_EQ(parsed.value().common.adapters, MixOf(AdapterId(0)));
    for (const CompletionPrompt& p : parsed.value().prompts)
      text += "[" + Join(p.tokens, ",") + "]";
    return text;
  };
  EXPECT_EQ(tokens(R"("A")"), "[256,65]");
  EXPECT_EQ(tokens(R"("")"), "[256]");
  EXPECT_EQ(tokens("[1,2,3]"), "[1,2,3]");
  EXPECT_EQ(tokens(R"(["A","B"])"), "[256,65][256,66]");
  EXPECT_EQ(tokens("[[1,2],[3]]"), "[1,2][3]");
  EXPECT_EQ(tokens(R"(["A",[3]])"), "[256,65][3]");
}

TEST(Completions, SeveralAdaptersWithWeights) {
  const auto parsed =
      ParseFields(R"("adapters":[{"name":"org/pirate","weight":0.5},{"name":"poet"}])");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().common.adapters, (AdapterMix{{AdapterId(1), 0.5f}, {AdapterId(0), 1}}));
  EXPECT_EQ(parsed.value().first_adapter(), AdapterId(1));
  EXPECT_EQ(parsed.value().entries.size(), 3u) << "all are held";
  EXPECT_THAT(ParseFields(R"("adapters":[])").value().common.adapters, IsEmpty());
  EXPECT_THAT(ParseFields(R"("adapters":[{"name":"poet","weight":0}])").value().common.adapters,
              IsEmpty());
}

TEST(Completions, ListsOfAdaptersThatAreNone) {
  const auto error = [](const std::string& adapters) {
    const auto parsed = ParseFields("\"adapters\":" + adapters);
    return parsed.ok() ? "" : parsed.error().param + ": " + parsed.error().message;
  };
  EXPECT_THAT(error(R"("poet")"), StartsWith("adapters: `adapters` must be a list of at most 8"));
  EXPECT_THAT(error(R"(["poet"])"), HasSubstr("`adapters[0]` must be an object"));
  EXPECT_THAT(error(R"([{"weight":1}])"), HasSubstr("adapters[0].name"));
  EXPECT_THAT(error(R"([{"name":"poet","weight":"1"}])"), StartsWith("adapters[0].weight:"));
  EXPECT_THAT(error(R"([{"name":"poet","weight":1e3}])"), StartsWith("adapters[0].weight:"));
  EXPECT_THAT(error(R"([{"name":"poet","scale":1}])"), StartsWith("adapters[0].scale:"));
  EXPECT_THAT(error(R"([{"name":"nobody"}])"), StartsWith("adapters[0].name:"));
  EXPECT_THAT(error(R"([{"name":"base"}])"), HasSubstr("is the base model"));
  EXPECT_THAT(error(R"([{"name":"poet"},{"name":"poet","weight":2}])"),
              StartsWith("adapters[1].name:"));
  std::string nine = R"([{"name":"poet"})";
  for (int i = 0; i < 8; ++i) nine += R"(,{"name":"poet"})";
  EXPECT_THAT(error(nine + "]"), HasSubstr("at most 8"));
  const auto both = Parse(R"({"model":"poet","prompt":"hi","adapters":[{"name":"org/pirate"}]})");
  ASSERT_FALSE(both.ok());
  EXPECT_THAT(both.error().message, HasSubstr("`model` must then be the base model, base"));
}

TEST(Completions, NumbersThatSwitchAParameterOff) {
  EXPECT_EQ(ParseFields(R"("top_k":-1)").value().common.sampling.top_k, 0);
  EXPECT_EQ(ParseFields(R"("temperature":1e-9)").value().common.sampling.temperature, 0);
  EXPECT_THAT(ParseFields(R"("ignore_eos":true)").value().common.stop_token_ids, IsEmpty());
}

TEST(Completions, EchoMayAskForNothingElse) {
  const auto parsed = ParseFields(R"("echo":true,"max_tokens":0,"logprobs":1)");
  ASSERT_TRUE(parsed.ok());
  const CompletionRequest& request = parsed.value();
  EXPECT_TRUE(request.prompt_only(request.prompts[0]));
  EXPECT_EQ(MakeSequence(request, 0, SequenceId(0), 0, {}).max_tokens, 0);
}

TEST(Completions, AnEchoedPromptMayFillTheContext) {
  const auto parse = [](int num_prompt_tokens, int max_tokens) {
    return Parse(StrCat(R"({"model":"base","echo":true,"max_tokens":)", max_tokens,
                        R"(,"prompt":[)", Join(std::vector<int>(num_prompt_tokens, 1), ","), "]}"));
  };
  EXPECT_TRUE(parse(64, 0).ok());
  EXPECT_FALSE(parse(64, 1).ok());
  const auto too_long = parse(65, 0);
  ASSERT_FALSE(too_long.ok());
  EXPECT_THAT(too_long.error().message,
              HasSubstr("your prompt is too long: 65 tokens > 64 maximum"));
}

TEST(Completions, WithoutMaxTokensAskForWhatFits) {
  const std::string ids = "[" + Join(std::vector<int>(60, 1), ",") + "]";
  const auto parsed = Parse(R"({"model":"base","prompt":)" + ids + "}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().prompts[0].max_tokens, 4);
}

TEST(Completions, CompareMoreCandidatesThanTheyAnswer) {
  const auto parsed = ParseFields(R"("n":2,"best_of":5)");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().num_candidates(), 5);
  EXPECT_EQ(parsed.value().common.sampling.num_logprobs, 0);
  EXPECT_FALSE(parsed.value().logprobs);
}

TEST(Completions, MakeSequencesPromptByPrompt) {
  const auto parsed = Parse(R"({"model":"org/pirate","prompt":[[1],[2]],"n":2,"max_tokens":5})");
  ASSERT_TRUE(parsed.ok());
  const auto sequence =
      MakeSequence(parsed.value(), 3, SequenceId(9), /*seed=*/77, TimePoint(Duration(5)));
  EXPECT_EQ(sequence.sequence, SequenceId(9));
  EXPECT_EQ(sequence.adapters, MixOf(AdapterId(1)));
  EXPECT_THAT(sequence.prompt, ElementsAre(2));
  EXPECT_EQ(sequence.choice, 1);
  EXPECT_EQ(sequence.max_tokens, 5);
  EXPECT_EQ(sequence.sampling.seed, 77u);
  EXPECT_EQ(sequence.arrival, TimePoint(Duration(5)));
  EXPECT_TRUE(sequence.is_sibling);
  EXPECT_FALSE(MakeSequence(parsed.value(), 0, SequenceId(6), 0, {}).is_sibling);
}

TEST(Completions, GiveAllSequencesTheirFormat) {
  const auto parsed = ParseFields(R"("guided_regex":"[ab]+","n":2,"echo":true,"max_tokens":0)");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const wire::OutputFormat expected = {.kind = wire::OutputFormat::Kind::kRegex, .source = "[ab]+"};
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(MakeSequence(parsed.value(), i, SequenceId(i), 0, {}).format, expected);
  }
  EXPECT_TRUE(ParseFields("").value().common.format.is_text());
}

struct BadRequest {
  const char* body;
  const char* param;
  const char* message;
};

TEST(Completions, RefuseBadRequestsByNamingTheField) {
  const BadRequest kCases[] = {
      {"", "", "the request body: invalid JSON"},
      {"[]", "", "must be a JSON object, not an array"},
      {"{\"model\":\"base\",\"prompt\":\"\xFF\"}", "", "invalid JSON"},
      {R"({"model":"base","prompt":"\ud800"})", "", "invalid JSON"},
      {R"({"model":"base","model":"base","prompt":"x"})", "", "duplicate key"},
      {R"({"prompt":"x"})", "model", "`model` is required."},
      {R"({"model":7,"prompt":"x"})", "model", "`model` must be a string, not an integer."},
      {R"({"model":"no","prompt":"x"})", "model", "The model `no` does not exist."},
      {R"({"model":"base"})", "prompt", "`prompt` is required."},
      {R"({"model":"base","prompt":null})", "prompt", "`prompt` is required."},
      {R"({"model":"base","prompt":5})", "prompt", "`prompt` must be a string"},
      {R"({"model":"base","prompt":{}})", "prompt", "`prompt` must be a string"},
      {R"({"model":"base","prompt":[]})", "prompt", "must not be empty"},
      {R"({"model":"base","prompt":[[]]})", "prompt", "at least one token"},
      {R"({"model":"base","prompt":"","add_special_tokens":false})", "prompt",
       "at least one token"},
      {R"({"model":"base","prompt":[1,-1]})", "prompt", "between 0 and 257"},
      {R"({"model":"base","prompt":[258]})", "prompt", "between 0 and 257"},
      {R"({"model":"base","prompt":[1,"a"]})", "prompt", "between 0 and 257"},
      {R"({"model":"base","prompt":[1.5]})", "prompt", "`prompt` must be a string"},
      {R"({"model":"base","prompt":["a",true]})", "prompt", "`prompt` must be a string"},
      {R"({"model":"base","prompt":["a","b","c"],"n":3})", "prompt", "more than the 8"},
      {R"({"model":"base","prompt":"x","n":9})", "n", "more than the 8"},
      {R"({"model":"base","prompt":"x","n":9223372036854775807})", "n", "at most 2147483647"},
  };
  for (const BadRequest& bad : kCases) {
    const auto parsed = Parse(bad.body);
    ASSERT_FALSE(parsed.ok()) << bad.body;
    EXPECT_EQ(parsed.error().param, bad.param) << bad.body;
    EXPECT_THAT(parsed.error().message, HasSubstr(bad.message)) << bad.body;
  }
}

TEST(Completions, RefuseBadFieldsByNamingThem) {
  const BadRequest kCases[] = {
      {R"("max_tokens":0)", "max_tokens", "at least 1, not 0"},
      {R"("max_tokens":-5)", "max_tokens", "at least 1"},
      {R"("max_tokens":"5")", "max_tokens", "must be an integer, not a string"},
      {R"("max_tokens":1.5)", "max_tokens", "must be an integer, not a number"},
      {R"("max_tokens":62)", "prompt",
       "This model's maximum context length is 64 tokens. However, you requested 65 tokens (3 in "
       "the prompt, 62 in the completion)"},
      {R"("max_tokens":2147483647)", "prompt", "maximum context length is 64"},
      {R"("max_tokens":4294967297)", "max_tokens", "at most 2147483647"},
      {R"("n":0)", "n", "at least 1"},
      {R"("top_p":1.0000001)", "top_p", "not 1.0000001"},
      {R"("n":true)", "n", "must be an integer, not a boolean"},
      {R"("n":3,"best_of":2)", "best_of", "must not be less than `n`"},
      {R"("best_of":2,"stream":true)", "best_of", "must be equal to `n` in a stream"},
      {R"("best_of":9)", "best_of", "more than the 8 completions"},
      {R"("guided_json":5)", "guided_json", "must be an object"},
      {R"("structured_outputs":{"grammar":"x"})", "structured_outputs.grammar", "is not supported"},
      {R"("allowed_token_ids":[])", "allowed_token_ids", "must not be empty"},
      {R"("allowed_token_ids":[258])", "allowed_token_ids", "between 0 and 257"},
      {R"("allowed_token_ids":[1],"guided_regex":"a")", "allowed_token_ids",
       "excludes `guided_regex`: that says what may come"},
      {R"("bad_words":"a")", "bad_words", "must be an array of strings, not a string"},
      {R"("bad_words":["a",5])", "bad_words", "must hold strings only"},
      {R"("bad_words":["  "])", "bad_words", "not only spaces"},
      {R"("bad_words":["a"],"guided_regex":"a")", "bad_words", "excludes `guided_regex`"},
      {R"("include_stop_str_in_output":1)", "include_stop_str_in_output", "must be a boolean"},
      {R"("prompt_logprobs":0)", "prompt_logprobs", "is not supported"},
      {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens", "at least 1, or -1"},
      {R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens", "at least -1"},
      {R"("use_beam_search":true)", "use_beam_search", "is not supported"},
      {R"("response_format":{"type":"structural_tag"})", "response_format", "\"text\""},
      {R"("temperature":-0.1)", "temperature", "between 0 and"},
      {R"("temperature":"hot")", "temperature", "must be a number, not a string"},
      {R"("top_p":0)", "top_p", "greater than 0"},
      {R"("top_p":1.1)", "top_p", "between 0 and 1"},
      {R"("top_k":-2)", "top_k", "at least -1"},
      {R"("top_k":1e3)", "top_k", "must be an integer"},
      {R"("min_p":2)", "min_p", "between 0 and 1"},
      {R"("repetition_penalty":0)", "repetition_penalty", "between 0.01"},
      {R"("presence_penalty":3)", "presence_penalty", "between -2 and 2"},
      {R"("frequency_penalty":[])", "frequency_penalty", "must be a number, not an array"},
      {R"("logit_bias":[])", "logit_bias", "must be an object"},
      {R"("logit_bias":{"x":1})", "logit_bias", "token ids between 0 and 257"},
      {R"("logit_bias":{"258":1})", "logit_bias", "token ids between 0 and 257"},
      {R"("logit_bias":{"1":1,"01":2})", "logit_bias", "token ids between 0 and 257"},
      {R"("logit_bias":{"1":101})", "logit_bias", "between -100 and 100"},
      {R"("logit_bias":{"1":"a"})", "logit_bias", "between -100 and 100"},
      {R"("logprobs":21)", "logprobs", "between 0 and 20"},
      {R"("logprobs":true)", "logprobs", "must be an integer, not a boolean"},
      {R"("seed":1.5)", "seed", "must be an integer"},
      {R"("stop":5)", "stop", "must be a string or an array of strings"},
      {R"("stop":[5])", "stop", "must hold strings only"},
      {R"("stop":"")", "stop", "must have 1 to 1024 bytes"},
      {R"("stop_token_ids":[300])", "stop_token_ids", "between 0 and 257"},
      {R"("stop_token_ids":5)", "stop_token_ids", "must be an array of integers"},
      {R"("min_tokens":5,"max_tokens":4)", "min_tokens", "not be greater than `max_tokens`"},
      {R"("min_tokens":-1)", "min_tokens", "at least 0"},
      {R"("echo":1)", "echo", "must be a boolean, not an integer"},
      {R"("stream":"yes")", "stream", "must be a boolean"},
      {R"("stream_options":{})", "stream_options", "needs `stream`"},
      {R"("stream":true,"stream_options":1)", "stream_options", "must be an object"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage",
       "must be a boolean"},
      {R"("suffix":"x")", "suffix", "is not supported"},
      {R"("priority":2147483648)", "priority", "must be"},
      {R"("user":5)", "user", "must be a string"},
      {R"("skip_special_tokens":0)", "skip_special_tokens", "must be a boolean"},
      {R"("add_special_tokens":"")", "add_special_tokens", "must be a boolean"},
      {R"("ignore_eos":0)", "ignore_eos", "must be a boolean"},
  };
  for (const BadRequest& bad : kCases) {
    const auto parsed = ParseFields(bad.body);
    ASSERT_FALSE(parsed.ok()) << bad.body;
    EXPECT_EQ(parsed.error().status, 400) << bad.body;
    EXPECT_EQ(parsed.error().param, bad.param) << bad.body;
    EXPECT_THAT(parsed.error().message, HasSubstr(bad.message)) << bad.body;
  }
}

TEST(Completions, RefuseTextsThatCannotFitWithoutTokenizingThem) {
  const auto parsed = Parse(R"({"model":"base","prompt":")" + std::string(64 * 128, 'x') + R"("})");
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr("maximum context length is 64 tokens"));
}

TEST(Completions, RefuseTextsWithTokensThatTheModelDoesNotHave) {
  const auto large = MakeServedModel();
  ModelText text = *TextOfBytes();
  text.vocab_size = kBosToken;
  const ServedModel model = {.spec = large->spec,
                             .text = std::make_shared<const ModelText>(text),
                             .catalog = large->catalog,
                             .max_model_len = 64};
  const auto parsed = ParseCompletionRequest(
      R"({"model":"base","prompt":"x"})",
      {.model = model, .limits = {.max_sequences = 8}, .tenant = kDefaultTenant});
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr("holds token 256"));
}

TEST(Completions, RefuseMoreLogprobsThanAnAnswerMayHave) {
  const auto small = MakeServedModel();
  const ServedModel model = {.spec = small->spec,
                             .text = TextOfBytes(),
                             .catalog = small->catalog,
                             .max_model_len = 1 << 17};
  const auto parse = [&](const std::string& fields) {
    return ParseCompletionRequest(
        R"({"model":"base","prompt":"x","max_tokens":50000,)" + fields + "}",
        {.model = model, .limits = {.max_sequences = 8}, .tenant = kDefaultTenant});
  };
  for (const char* fields : {R"("logprobs":19)", R"("logprobs":0,"n":8)", R"("n":8)",
                             R"("logprobs":20,"stream":true,"echo":true)", R"("best_of":8)"}) {
    EXPECT_TRUE(parse(fields).ok()) << fields;
  }
  for (const char* fields : {R"("logprobs":20)", R"("logprobs":5,"best_of":8)"}) {
    const auto parsed = parse(fields);
    ASSERT_FALSE(parsed.ok()) << fields;
    EXPECT_EQ(parsed.error().param, "logprobs");
    EXPECT_THAT(parsed.error().message, HasSubstr("more than the 1048576 logprobs"));
  }
  // A prompt of 3,121 tokens with 21 logprobs each has 65,541.
  const auto echo = [&](size_t num_tokens, const std::string& fields) {
    const std::string ids = Join(std::vector<std::string>(num_tokens, "1"), ",");
    return ParseCompletionRequest(
        R"({"model":"base","prompt":[)" + ids + R"(],"echo":true,"logprobs":20,)" + fields + "}",
        {.model = model, .limits = {.max_sequences = 8}, .tenant = kDefaultTenant});
  };
  EXPECT_TRUE(echo(3120, R"("stream":true)").ok());
  EXPECT_TRUE(echo(3121, R"("stream":false)").ok());
  EXPECT_EQ(echo(3121, R"("stream":true)").error().param, "stream");
  EXPECT_EQ(echo(60000, R"("stream":false)").error().param, "logprobs");
}

TEST(Completions, RefuseDeepNesting) {
  const auto parsed = ParseFields(R"("x":)" + std::string(70, '[') + std::string(70, ']'));
  ASSERT_FALSE(parsed.ok());
  EXPECT_THAT(parsed.error().message, HasSubstr("deeper than 64"));
}

}  // namespace
}  // namespace aril::gateway
