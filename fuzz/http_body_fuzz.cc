// The requests of all endpoints that are answered by sequences, on any bytes: what is accepted must
// be fit for a runner. And those that load and unload adapters: nothing may come to be known under
// a bad name.

#include <cmath>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "gateway/adapters_api.h"
#include "gateway/anthropic_messages.h"
#include "gateway/auth.h"
#include "gateway/chat_completions.h"
#include "gateway/classify.h"
#include "gateway/completions.h"
#include "gateway/embeddings.h"
#include "gateway/responses.h"
#include "gateway/texts_input.h"
#include "grammar/compile.h"
#include "wire/limits.h"

namespace {

using aril::gateway::ApiResult;
using aril::gateway::CompletionRequest;
using aril::gateway::ServedModel;

constexpr int64_t kVocabSize = 259;
constexpr int64_t kMaxModelLen = 64;
constexpr int64_t kMaxSequences = 16;

// A token for each byte, one to begin with, and two that reasoning is written with.
class ByteTokenizer final : public aril::Tokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<int32_t> ids;
    if (options.add_special_tokens) ids.push_back(256);
    while (!text.empty()) {
      int32_t id = static_cast<unsigned char>(text[0]);
      size_t size = 1;
      for (const int32_t tag : {257, 258}) {
        if (!options.parse_special_tokens || !text.starts_with(TagOf(tag))) continue;
        id = tag;
        size = TagOf(tag).size();
      }
      ids.push_back(id);
      text.remove_prefix(size);
    }
    return ids;
  }
  std::string TokenBytes(int32_t id, bool, bool) const override {
    return id < 256 ? std::string(1, static_cast<char>(id)) : std::string(TagOf(id));
  }
  int64_t vocab_size() const override { return kVocabSize; }
  bool IsSpecial(int32_t id) const override { return id == 256; }
  std::optional<int32_t> bos_token_id() const override { return 256; }
  std::optional<int32_t> eos_token_id() const override { return std::nullopt; }

 private:
  static std::string_view TagOf(int32_t id) { return id == 257 ? "<t>" : id == 258 ? "</t>" : ""; }
};

// It shows tools and calls of them, and reasoning.
constexpr std::string_view kChatTemplate =
    "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
    "{% for m in messages %}{% if m.reasoning_content %}<t>{{ m.reasoning_content }}</t>{% endif %}"
    "{{ m.content }}"
    "{% for c in m.tool_calls %}<call>{{ c.function | tojson }}</call>{% endfor %}.{% endfor %}";

const ServedModel& Model() {
  static const ServedModel* const model = [] {
    auto catalog = aril::Catalog::Create({{.name = "m", .parent = "", .root = ""}}, {});
    CHECK(catalog.ok());
    aril::ModelSpec spec;
    spec.vocab_size = kVocabSize;
    spec.hidden_size = 4096;
    auto chat_template = aril::ChatTemplate::Parse(kChatTemplate, {});
    CHECK(chat_template.ok());
    return new ServedModel{
        .spec = spec,
        .text = std::make_shared<const aril::gateway::ModelText>(aril::gateway::ModelText{
            .tokenizer = std::make_shared<ByteTokenizer>(),
            .vocab_size = kVocabSize,
            .chat_dialect =
                std::make_shared<const aril::gateway::ChatDialect>(*std::move(chat_template))}),
        .catalog = *std::move(catalog),
        .max_model_len = kMaxModelLen,
        .created = 0};
  }();
  return *model;
}

void CheckTokens(const std::vector<int32_t>& tokens) {
  for (const int32_t token : tokens) CHECK(token >= 0 && token < kVocabSize);
}

void CheckSampling(const aril::wire::SamplingParams& sampling) {
  CHECK(sampling.temperature >= 0 && std::isfinite(sampling.temperature));
  CHECK(sampling.top_p > 0 && sampling.top_p <= 1);
  CHECK(sampling.min_p >= 0 && sampling.min_p <= 1);
  CHECK_GE(sampling.top_k, 0);
  CHECK(sampling.repetition_penalty > 0 && std::isfinite(sampling.repetition_penalty));
  for (const auto& [token, bias] : sampling.logit_bias) {
    CHECK(token >= 0 && token < kVocabSize);
    CHECK(std::isfinite(bias));
  }
  CHECK_LE(std::ssize(sampling.allowed_token_ids), aril::wire::kMaxAllowedTokenIds);
  for (size_t i = 0; i < sampling.allowed_token_ids.size(); ++i) {
    const int32_t token = sampling.allowed_token_ids[i];
    CHECK(token >= 0 && token < kVocabSize);
    CHECK(i == 0 || sampling.allowed_token_ids[i - 1] < token);
  }
  CHECK_LE(std::ssize(sampling.bad_words), aril::wire::kMaxBadWords);
  for (const std::vector<int32_t>& word : sampling.bad_words) {
    CHECK(!word.empty() && std::ssize(word) <= aril::wire::kMaxBadWordTokens);
    CheckTokens(word);
  }
  CHECK(sampling.num_logprobs.has_value() || !sampling.prompt_logprobs);
}

void CheckFormat(const aril::wire::SequenceRequest& sequence) {
  const aril::wire::OutputFormat& format = sequence.format;
  if (format.is_text()) {
    CHECK(format.source.empty());
    return;
  }
  CHECK_LE(format.source.size(), aril::wire::kMaxOutputFormatBytes);
  CHECK(aril::grammar::Compile(format).ok());
  CHECK_EQ(sequence.min_tokens, 0);
  CHECK(sequence.sampling.allowed_token_ids.empty() && sequence.sampling.bad_words.empty());
}

void CheckBudget(const aril::wire::ReasoningBudget& budget) {
  CHECK_GE(budget.max_tokens, 0);
  CHECK(!budget.begin || *budget.begin == 257);
  CHECK_LE(std::ssize(budget.closing), aril::wire::kMaxReasoningClosingTokens);
  CheckTokens(budget.closing);
  CHECK_EQ(budget.closing.back(), 258);
}

void CheckSequence(const aril::wire::SequenceRequest& sequence) {
  CHECK(!sequence.prompt.empty());
  CheckTokens(sequence.prompt);
  CheckTokens(sequence.stop_token_ids);
  CheckTokens(sequence.prediction);
  if (sequence.reasoning_budget) CheckBudget(*sequence.reasoning_budget);
  CHECK_LE(std::ssize(sequence.prediction), sequence.max_tokens);
  CHECK_GE(sequence.max_tokens, 0);
  CHECK_LE(static_cast<int64_t>(sequence.prompt.size()) + sequence.max_tokens, kMaxModelLen);
  CHECK(sequence.min_tokens >= 0 && sequence.min_tokens <= sequence.max_tokens);
  CheckSampling(sequence.sampling);
  CheckFormat(sequence);
}

void CheckRefused(const ApiResult<CompletionRequest>& parsed) {
  const int status = parsed.error().status;
  CHECK(status == 400 || status == 404);
  CHECK(!aril::gateway::ErrorJson(parsed.error()).empty());
}

void CheckParsed(const ApiResult<CompletionRequest>& parsed) {
  if (!parsed.ok()) return CheckRefused(parsed);
  const CompletionRequest& request = parsed.value();
  CHECK(request.num_candidates() >= 1 && request.num_candidates() <= kMaxSequences);
  CHECK(!request.is_pooled());
  for (int64_t i = 0; i < request.num_candidates(); ++i) {
    const auto sequence = aril::gateway::MakeSequence(request, i, aril::SequenceId(i), 1, {});
    CheckSequence(sequence);
    CHECK(sequence.max_tokens > 0 || request.echo);  // what is not echoed asks for a token
  }
}

// Texts to embed or to classify.
void CheckPooled(const ApiResult<CompletionRequest>& parsed) {
  if (!parsed.ok()) return CheckRefused(parsed);
  const CompletionRequest& request = parsed.value();
  CHECK(request.is_pooled());
  const int64_t num_texts = request.num_candidates();
  CHECK(num_texts >= 1 && num_texts <= int64_t{aril::gateway::kMaxTexts});
  for (int64_t i = 0; i < num_texts; ++i) {
    const auto sequence = aril::gateway::MakeSequence(request, i, aril::SequenceId(i), 1, {});
    CheckSequence(sequence);
    CHECK_EQ(sequence.max_tokens, 0);
  }
}

// What its answer repeats is an object that may be gone on with.
void CheckResponse(const ApiResult<CompletionRequest>& parsed) {
  CheckParsed(parsed);
  if (!parsed.ok()) return;
  CHECK_EQ(parsed.value().num_candidates(), 1);
  const auto repeated = aril::Json::Parse(parsed.value().repeated);
  CHECK(repeated.ok() && repeated->AsObject() != nullptr && !repeated->AsObject()->empty());
}

// Has every adapter.
class AnyLoader final : public aril::gateway::AdapterLoader {
 public:
  aril::StatusOr<std::shared_ptr<const aril::Generation>> Load(const std::string& source) override {
    CHECK(!source.empty());
    return std::make_shared<const aril::Generation>(
        aril::Generation::Description{.adapter = aril::AdapterId(0), .digest = source});
  }
  aril::StatusOr<aril::Generation::Description> Verify(const std::string& source) override {
    return aril::Generation::Description{.digest = source};
  }
  aril::StatusOr<std::shared_ptr<const aril::Generation>> Recall(
      const std::string& digest) override {
    return Load(digest);
  }
};

template <typename T>
void CheckAdapterChange(const ApiResult<T>& changed) {
  if (changed.ok()) return;
  const int status = changed.error().status;
  CHECK(status == 400 || status == 404 || status == 409);
  CHECK(!aril::gateway::ErrorJson(changed.error()).empty());
}

void ChangeAdapters(std::string_view body, const aril::gateway::RequestContext& context) {
  AnyLoader loader;
  CheckAdapterChange(aril::gateway::LoadAdapter(body, context, loader));
  for (const aril::CatalogEntryPtr& entry : Model().catalog->List(context.tenant)) {
    CHECK(aril::IsValidName(entry->name));
  }
  CheckAdapterChange(aril::gateway::UnloadAdapter(body, context));
  // The body is name and query, too.
  const std::string text(body);
  CheckAdapterChange(aril::gateway::PutAdapter("a", body, body, context, loader));
  CheckAdapterChange(aril::gateway::PutAdapter(text, "", R"({"source": "x"})", context, loader));
  CheckAdapterChange(aril::gateway::DeleteAdapter("a", body, context));
  CheckAdapterChange(aril::gateway::DeleteAdapter("a", "", context));
  CheckAdapterChange(aril::gateway::DeleteAdapter(text, "", context));
  CHECK_EQ(Model().catalog->num_adapters(), 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const aril::gateway::CompletionLimits limits = {.max_body_bytes = 1 << 16,
                                                  .max_sequences = kMaxSequences};
  const aril::gateway::RequestContext context = {
      .model = Model(), .limits = limits, .tenant = aril::kDefaultTenant};
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  CheckParsed(aril::gateway::ParseCompletionRequest(body, context));
  CheckParsed(aril::gateway::ParseChatRequest(body, context));
  CheckResponse(aril::gateway::ParseResponsesRequest(body, context));
  CheckParsed(aril::gateway::ParseMessagesRequest(body, context));
  CheckPooled(aril::gateway::ParseEmbeddingsRequest(body, context));
  CheckPooled(aril::gateway::ParseClassifyRequest(body, context));
  ChangeAdapters(body, context);
  return 0;
}
