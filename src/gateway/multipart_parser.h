// multipart/form-data (RFC 7578, RFC 2046 section 5.1) as it arrives: nothing is kept but what may
// be the beginning of a boundary. Strict: no preamble, no epilogue, no header fields that would
// change what a part's bytes are.

#ifndef ARIL_GATEWAY_MULTIPART_PARSER_H_
#define ARIL_GATEWAY_MULTIPART_PARSER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace aril::gateway {

// The `boundary` of a Content-Type of multipart/form-data; nullopt for another type.
// InvalidArgument if there is none, or none that RFC 2046 allows.
StatusOr<std::optional<std::string>> FindMultipartBoundary(std::string_view content_type);

// Takes the parts, one after the other. An error is what the parser returns.
class MultipartSink {
 public:
  virtual ~MultipartSink() = default;
  virtual Status OnPart(const std::string& name, const std::optional<std::string>& filename) = 0;
  virtual Status OnData(std::string_view bytes) = 0;
  virtual Status OnPartEnd() = 0;
};

class MultipartParser {
 public:
  static constexpr size_t kMaxPartHeaderBytes = 4 << 10;

  // `sink` must outlive it.
  MultipartParser(const std::string& boundary, MultipartSink& sink);

  // Errors are final. However the bytes are cut, the sink sees the same.
  Status Append(std::string_view bytes);
  // InvalidArgument if the body is not complete.
  Status Finish() const;

 private:
  enum class State { kDelimiter, kAfterDelimiter, kHeader, kData, kEpilogue };

  // Each takes from `buffer_`, and reports whether there may be more to take; `status_` says what
  // is wrong.
  bool Step();
  bool TakeFirstDelimiter();
  bool TakeAfterDelimiter();
  bool TakeHeader();
  bool TakeData();
  bool TakeEpilogue();
  bool Passes(Status status);
  bool Malformed(const std::string& what);

  const std::string delimiter_;  // CR LF "--" boundary
  MultipartSink& sink_;
  State state_ = State::kDelimiter;
  std::string buffer_;
  Status status_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_MULTIPART_PARSER_H_
