// Stand-ins for what a gateway talks to: a tokenizer of bytes, a runner that says what a test tells
// it to, a raw client.

#ifndef ARIL_GATEWAY_TEST_SUPPORT_H_
#define ARIL_GATEWAY_TEST_SUPPORT_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/served_model.h"
#include "tokenizer/tokenizer.h"
#include "wire/ports.h"

namespace aril::gateway {

inline constexpr int32_t kBosToken = 256;
inline constexpr int32_t kEosToken = 257;

// A token for each byte, then BOS ("<s>") and EOS ("</s>").
class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override;
  std::string TokenBytes(int32_t id, bool is_first, bool skip_special_tokens) const override;
  int64_t vocab_size() const override { return 258; }
  bool IsSpecial(int32_t id) const override { return id >= kBosToken; }
  std::optional<int32_t> bos_token_id() const override { return kBosToken; }
  std::optional<int32_t> eos_token_id() const override { return kEosToken; }
};

// A token for each byte, then these special ones.
class SpecialTokenizer final : public Tokenizer {
 public:
  explicit SpecialTokenizer(std::vector<std::string> special,
                            std::optional<int32_t> eos = std::nullopt)
      : special_(std::move(special)), eos_(eos) {}

  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override;
  std::string TokenBytes(int32_t id, bool is_first, bool skip_special_tokens) const override;
  int64_t vocab_size() const override { return 256 + std::ssize(special_); }
  bool IsSpecial(int32_t id) const override { return id >= 256; }
  std::optional<int32_t> bos_token_id() const override { return std::nullopt; }
  std::optional<int32_t> eos_token_id() const override { return eos_; }

 private:
  const std::vector<std::string> special_;
  const std::optional<int32_t> eos_;
};

// Calls of tools are written "<call>{"name": "f", "arguments": {…}}</call>".
inline constexpr char kChatTemplate[] =
    "{% if documents %}{{ documents|length }}d:{% endif %}"
    "{% for t in tools or [] %}{{ t.function.name }},{% endfor %}"
    "{% for m in messages %}{% if m.role == 'elf' %}{{ raise_exception('no elves') }}{% endif %}"
    "{{ m.role[0] ~ ':' }}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
    "{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls %}<call>{{ c.function|tojson }}</call>{% endfor %};{% endfor %}"
    "{% if reasoning_effort %}{{ reasoning_effort }};{% endif %}"
    "{% if enable_thinking is false and thinking is false %}off;{% endif %}"
    "{% if add_generation_prompt %}a:{% endif %}{{ mood }}";

// With a tokenizer of bytes.
ModelTextPtr TextOfBytes(ChatDialectOr chat_dialect = NotFound("This model has no chat template."));

// Names "base", "poet" (adapter 0, with a chat template of its own: "poem:") and "org/pirate"
// (adapter 1); a context of 64 tokens.
std::shared_ptr<const ServedModel> MakeServedModel(const Catalog::Options& catalog_options = {});

// Records what is submitted and emits what the test says. Thread-safe.
class FakePort final : public wire::SequencePort {
 public:
  Status Submit(wire::SequenceRequest request) override;
  void Cancel(SequenceId sequence) override;
  Status Readiness() const override { return readiness; }

  Status readiness;  // to be set while no server runs

  void set_sink(wire::EventSink* sink) { sink_ = sink; }
  // From now on each sequence gets these tokens as soon as it is submitted, and ends with kLength.
  void AnswerWith(std::string text);
  // From now on Submit returns this once it has accepted `num_accepted` more sequences.
  void RefuseAfter(int num_accepted, Status status);

  // The first `count` requests, once they are there.
  std::vector<wire::SequenceRequest> WaitForRequests(size_t count);
  // The first `count` cancelled sequences, once they are.
  std::vector<SequenceId> WaitForCancels(size_t count);

  // A step with one token per byte for a sequence; the last one ends it if `finish` is given.
  void Emit(SequenceId sequence, std::string_view bytes,
            std::optional<wire::FinishReason> finish = std::nullopt);
  void EmitEvents(std::vector<wire::TokenEvent> events);
  void EmitStopToken(SequenceId sequence, int32_t token);
  void EmitError(SequenceId sequence, Status error);

 private:
  std::vector<wire::TokenEvent> MakeEvents(SequenceId sequence, std::string_view bytes,
                                           std::optional<wire::FinishReason> finish);
  int32_t NextIndex(SequenceId sequence);

  wire::EventSink* sink_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<wire::SequenceRequest> requests_;
  std::vector<SequenceId> cancelled_;
  std::vector<int32_t> num_emitted_;  // by sequence
  std::optional<std::string> answer_;
  int num_accepted_ = INT32_MAX;
  Status refusal_;
};

// What a client has read up to `end` (which it includes), or all of it once `receive`, which
// returns the number of bytes it wrote, has none left. Keeps what came behind in `*pending`.
std::string TakeUntil(std::string_view end, std::string* pending,
                      const std::function<int(std::span<char>)>& receive);

// A client that can misbehave.
class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0);
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { Close(); }

  // False if the server has closed.
  bool Send(std::string_view bytes);
  // What arrives until `end` has (the bytes up to and including it), or the connection is at its
  // end.
  std::string ReadUntil(std::string_view end);
  std::string ReadAll() { return ReadUntil({}); }
  void Close();

 private:
  int fd_;
  std::string pending_;
};

// "POST path" with a body.
std::string PostText(const std::string& path, const std::string& body,
                     const std::string& headers = "");

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TEST_SUPPORT_H_
