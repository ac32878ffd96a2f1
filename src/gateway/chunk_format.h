// What the formats of /v1/completions and /v1/chat/completions have in common: streams of chunks,
// events of data alone, that end with "[DONE]".

#ifndef ARIL_GATEWAY_CHUNK_FORMAT_H_
#define ARIL_GATEWAY_CHUNK_FORMAT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/answer_format.h"

namespace aril::gateway {

// `null_usage`: the stream ends with a usage chunk, and the others say so.
class ChunkFormat : public AnswerFormat {
 public:
  // What a choice's part of a stream begins with, if anything.
  virtual std::optional<std::string> FirstChunk(int64_t index, bool null_usage) const = 0;
  virtual std::string Chunk(const ChoiceView& choice, bool null_usage) const = 0;
  virtual std::string UsageChunk(const Usage& usage) const = 0;

  std::unique_ptr<AnswerStream> Stream(bool with_usage) const final;
};

namespace internal {

// An answer's text up to and including `"choices":[`, and from there on.
std::string BeginAnswer(const AnswerHead& head, std::string_view object);
std::string EndAnswer(const Usage& usage);
std::string EndChunk(bool null_usage);

}  // namespace internal
}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CHUNK_FORMAT_H_
