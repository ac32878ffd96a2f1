// Reads one request from a connection's bytes, however they are cut. Free of sockets and of any
// HTTP library, whose leniency (line folding, lists of lengths, line feeds in chunk extensions)
// would have to be found out from what they leave over: docs/decisions/006-own-request-parser.md.

#ifndef ARIL_GATEWAY_HTTP_PARSER_H_
#define ARIL_GATEWAY_HTTP_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/api_error.h"
#include "gateway/body_sink.h"
#include "gateway/http_message.h"

namespace aril::gateway {

struct RequestLimits {
  // Of the request line and the header together; and again of a chunked body's extensions and
  // trailers, which are read and dropped.
  size_t max_header_bytes = 32 << 10;
  size_t max_body_bytes = 16 << 20;
};

class RequestParser {
 public:
  // `planner` (may be empty) is asked once the head is there; it must outlive the parser.
  explicit RequestParser(const RequestLimits& limits, const BodyPlanner& planner = kNoPlanner)
      : limits_(limits), planner_(planner), max_body_bytes_(limits.max_body_bytes) {}

  // Removes from the front of `*input` what belongs to the request; what is left after its end is
  // the next one's. An error is final, and nothing that follows on the connection has a meaning.
  // At most max_header_bytes stay in `*input` while more bytes are needed.
  std::optional<ApiError> Parse(std::string* input);

  bool head_done() const { return state_ > State::kFieldLine; }
  bool done() const { return state_ == State::kDone; }

  // Of a request whose head is done.
  const HttpRequest& request() const { return request_; }
  bool is_http_1_1() const { return is_http_1_1_; }
  bool is_head() const { return is_head_; }
  bool keep_alive() const { return keep_alive_; }
  // The client waits for a 100 before it sends the body (RFC 9110, section 10.1.1).
  bool expects_continue() const { return expects_continue_; }

  // What has been parsed of a body that is the sink's, since the last call.
  std::string TakeBodyBytes() { return std::exchange(sink_bytes_, {}); }
  // For all of that body.
  Duration body_timeout() const { return body_timeout_; }

  // Of a request that is done, or whose sink has failed; of any other, only the sink is of use.
  HttpRequest TakeRequest() { return std::move(request_); }

 private:
  enum class State {
    kRequestLine,
    kFieldLine,
    kBody,  // of a known length
    kChunkLine,
    kChunk,
    kChunkEnd,
    kTrailerLine,
    kDone,
  };

  // Each takes bytes from `*rest` and reports whether to go on: false when more are needed, when
  // the request is done, or with `error_`.
  bool Step(std::string_view* rest);
  bool TakeLine(std::string_view* rest);
  bool TakeBody(std::string_view* rest);
  bool TakeChunkEnd(std::string_view* rest);

  bool OnLine(std::string_view line);
  bool OnRequestLine(std::string_view line);
  bool OnFieldLine(std::string_view line);
  bool OnChunkLine(std::string_view line);
  bool OnTrailerLine(std::string_view line);
  bool OnHeaderEnd();

  // What the header says about the message; each reports whether that is acceptable.
  bool ReadHost();
  void ReadConnection();
  bool ReadExpectation();
  bool PlanBody();
  bool ReadTransferEncoding();
  bool ReadContentLength();

  // Counts bytes that are kept or skipped, but are no body.
  bool Spend(size_t num_bytes);
  bool Fail(ApiError error);
  bool FailHeader();
  bool FailBody();  // it is too large

  static inline const BodyPlanner kNoPlanner;

  const RequestLimits limits_;
  const BodyPlanner& planner_;
  size_t max_body_bytes_;
  Duration body_timeout_ = {};
  size_t body_bytes_ = 0;  // so far
  std::string sink_bytes_;
  State state_ = State::kRequestLine;
  std::optional<ApiError> error_;
  size_t spent_bytes_ = 0;
  size_t scanned_bytes_ = 0;      // of an unfinished line, known to hold no line feed
  uint64_t remaining_bytes_ = 0;  // of the body, or of the chunk
  HttpRequest request_;
  bool is_http_1_1_ = true;
  bool is_head_ = false;
  bool is_chunked_ = false;
  bool keep_alive_ = true;
  bool expects_continue_ = false;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_PARSER_H_
