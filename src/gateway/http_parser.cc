#include "gateway/http_parser.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/http_syntax.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

// Clients send some ten or twenty. In memory a field takes far more than the four bytes that the
// shortest take on the wire.
constexpr size_t kMaxFields = 128;

// The digits of a 64-bit size. What a chunk's line has beyond them is extensions or zeros.
constexpr size_t kPlainChunkLineBytes = 16;

std::vector<std::string_view> ValuesOf(const HttpHeaders& headers, std::string_view name) {
  std::vector<std::string_view> values;
  for (const auto& [field, value] : headers) {
    if (EqualsIgnoreCase(field, name)) values.push_back(value);
  }
  return values;
}

// The elements of all fields of that name, which together are one list (RFC 9110, section 5.3).
std::vector<std::string_view> ElementsOf(const HttpHeaders& headers, std::string_view name) {
  std::vector<std::string_view> elements;
  for (const std::string_view value : ValuesOf(headers, name)) {
    for (const std::string_view element : SplitList(value)) elements.push_back(element);
  }
  return elements;
}

bool Contains(const std::vector<std::string_view>& elements, std::string_view wanted) {
  return std::any_of(elements.begin(), elements.end(), [wanted](std::string_view element) {
    return EqualsIgnoreCase(element, wanted);
  });
}

}  // namespace

std::optional<ApiError> RequestParser::Parse(std::string* input) {
  std::string_view rest = *input;
  while (Step(&rest)) {
  }
  input->erase(0, input->size() - rest.size());
  return error_;
}

bool RequestParser::Step(std::string_view* rest) {
  switch (state_) {
    case State::kDone:
      return false;
    case State::kBody:
    case State::kChunk:
      return TakeBody(rest);
    case State::kChunkEnd:
      return TakeChunkEnd(rest);
    default:
      return TakeLine(rest);
  }
}

bool RequestParser::TakeLine(std::string_view* rest) {
  // What cannot become a request (a TLS handshake, as a rule) is refused before its line ends.
  const bool can_begin = rest->empty() || IsTokenByte(rest->front()) || rest->front() == '\r';
  if (state_ == State::kRequestLine && !can_begin) {
    return Fail(MalformedRequest("its first line does not begin with a method"));
  }
  const size_t room_bytes = limits_.max_header_bytes - spent_bytes_;
  const size_t end = rest->substr(0, room_bytes).find('\n', scanned_bytes_);
  if (end == std::string_view::npos) {
    scanned_bytes_ = rest->size();
    return rest->size() >= room_bytes && FailHeader();
  }
  scanned_bytes_ = 0;
  // Some take a bare LF for the end of a line, others do not (RFC 9112, section 2.2).
  if (end == 0 || (*rest)[end - 1] != '\r') {
    return Fail(MalformedRequest("a line ends with LF instead of CR LF"));
  }
  const std::string_view line = rest->substr(0, end - 1);
  rest->remove_prefix(end + 1);
  return OnLine(line);
}

bool RequestParser::TakeBody(std::string_view* rest) {
  const auto num_bytes = static_cast<size_t>(std::min<uint64_t>(rest->size(), remaining_bytes_));
  std::string& body = request_.sink != nullptr ? sink_bytes_ : request_.body;
  body.append(*rest, 0, num_bytes);
  body_bytes_ += num_bytes;
  rest->remove_prefix(num_bytes);
  remaining_bytes_ -= num_bytes;
  if (remaining_bytes_ > 0) return false;
  state_ = state_ == State::kChunk ? State::kChunkEnd : State::kDone;
  return true;
}

bool RequestParser::TakeChunkEnd(std::string_view* rest) {
  static constexpr std::string_view kEnd = "\r\n";
  if (rest->substr(0, kEnd.size()) != kEnd.substr(0, rest->size())) {
    return Fail(MalformedRequest("a chunk of its body is longer than its size"));
  }
  if (rest->size() < kEnd.size()) return false;
  rest->remove_prefix(kEnd.size());
  state_ = State::kChunkLine;
  return true;
}

bool RequestParser::OnLine(std::string_view line) {
  switch (state_) {
    case State::kRequestLine:
      return OnRequestLine(line);
    case State::kFieldLine:
      return OnFieldLine(line);
    case State::kChunkLine:
      return OnChunkLine(line);
    default:
      return OnTrailerLine(line);
  }
}

bool RequestParser::OnRequestLine(std::string_view line) {
  if (!Spend(line.size() + 2)) return false;
  if (line.empty()) return true;  // what some send after a body (RFC 9112, section 2.2)
  const auto parsed = ParseRequestLine(line);
  if (!parsed.ok()) return Fail(parsed.error());
  is_head_ = parsed.value().method == "HEAD";
  is_http_1_1_ = parsed.value().minor_version == 1;
  request_.method = is_head_ ? "GET" : std::string(parsed.value().method);
  request_.path = std::string(parsed.value().path);
  request_.query = std::string(parsed.value().query);
  state_ = State::kFieldLine;
  return true;
}

bool RequestParser::OnFieldLine(std::string_view line) {
  if (!Spend(line.size() + 2)) return false;
  if (line.empty()) return OnHeaderEnd();
  const auto parsed = ParseFieldLine(line);
  if (!parsed.ok()) return Fail(parsed.error());
  if (request_.headers.size() == kMaxFields) {
    return Fail(TransportError(
        431, StrCat("The request's header has more than the ", kMaxFields, " fields allowed.")));
  }
  request_.headers.emplace_back(parsed.value().first, parsed.value().second);
  return true;
}

bool RequestParser::OnHeaderEnd() {
  spent_bytes_ = 0;
  ReadConnection();
  if (!ReadHost() || !PlanBody() || !ReadTransferEncoding() || !ReadContentLength() ||
      !ReadExpectation()) {
    return false;
  }
  state_ = is_chunked_ ? State::kChunkLine : State::kBody;
  return true;
}

// RFC 9112, section 3.2.
bool RequestParser::ReadHost() {
  const auto values = ValuesOf(request_.headers, "Host");
  if (values.empty() && is_http_1_1_) return Fail(MalformedRequest("it has no Host"));
  if (values.size() > 1) return Fail(MalformedRequest("it has more than one Host"));
  if (!values.empty() && !IsHost(values[0])) {
    return Fail(MalformedRequest("its Host is not `name` or `name:port`"));
  }
  return true;
}

bool RequestParser::PlanBody() {
  if (!planner_) return true;
  BodyPlan plan = planner_(request_);
  if (plan.refusal.has_value()) return Fail(*std::move(plan.refusal));
  if (plan.max_bytes > 0) max_body_bytes_ = plan.max_bytes;
  if (plan.sink == nullptr) return true;
  request_.sink = std::move(plan.sink);
  body_timeout_ = plan.timeout;
  return true;
}

// RFC 9112, section 9.3.
void RequestParser::ReadConnection() {
  const auto options = ElementsOf(request_.headers, "Connection");
  keep_alive_ = !Contains(options, "close") && (is_http_1_1_ || Contains(options, "keep-alive"));
}

// RFC 9112, sections 6.1 and 6.3.
bool RequestParser::ReadTransferEncoding() {
  if (ValuesOf(request_.headers, "Transfer-Encoding").empty()) return true;
  if (!is_http_1_1_) {
    return Fail(MalformedRequest("HTTP/1.0 has no Transfer-Encoding"));
  }
  const auto codings = ElementsOf(request_.headers, "Transfer-Encoding");
  const auto is_chunked = [](std::string_view coding) {
    return EqualsIgnoreCase(coding, "chunked");
  };
  if (codings.empty() || !is_chunked(codings.back())) {
    return Fail(MalformedRequest("its last Transfer-Encoding is not `chunked`"));
  }
  if (std::count_if(codings.begin(), codings.end(), is_chunked) > 1) {
    return Fail(MalformedRequest("it is `chunked` more than once"));
  }
  if (codings.size() > 1) {
    return Fail(
        TransportError(501, "No Transfer-Encoding but `chunked` is supported; use chunked."));
  }
  is_chunked_ = true;
  return true;
}

// RFC 9110, section 8.6, which allows a list of equal lengths; RFC 9112, section 6.3.
bool RequestParser::ReadContentLength() {
  const auto values = ValuesOf(request_.headers, "Content-Length");
  if (values.empty()) return true;
  if (is_chunked_) {
    return Fail(MalformedRequest("it has both Transfer-Encoding and Content-Length"));
  }
  if (values.size() > 1) return Fail(MalformedRequest("it has more than one Content-Length"));
  const auto length = ParseDecimal(values[0]);
  if (!length) return Fail(MalformedRequest("its Content-Length is not a number"));
  if (*length > max_body_bytes_) return FailBody();
  remaining_bytes_ = *length;
  return true;
}

bool RequestParser::ReadExpectation() {
  // To be ignored in HTTP/1.0 (RFC 9110, section 10.1.1).
  if (!is_http_1_1_) return true;
  for (const std::string_view expectation : ElementsOf(request_.headers, "Expect")) {
    if (!EqualsIgnoreCase(expectation, "100-continue")) {
      return Fail(TransportError(417, "The only expectation that is met is `100-continue`."));
    }
    expects_continue_ = is_chunked_ || remaining_bytes_ > 0;
  }
  return true;
}

bool RequestParser::OnChunkLine(std::string_view line) {
  const auto parsed = ParseChunkLine(line);
  if (!parsed.ok()) return Fail(parsed.error());
  if (!Spend(line.size() - std::min(line.size(), kPlainChunkLineBytes))) return false;
  remaining_bytes_ = parsed.value();
  if (remaining_bytes_ > max_body_bytes_ - body_bytes_) return FailBody();
  state_ = remaining_bytes_ > 0 ? State::kChunk : State::kTrailerLine;
  return true;
}

bool RequestParser::OnTrailerLine(std::string_view line) {
  if (!Spend(line.size() + 2)) return false;
  if (line.empty()) {
    state_ = State::kDone;
    return false;
  }
  const auto parsed = ParseFieldLine(line);
  return parsed.ok() || Fail(parsed.error());
}

bool RequestParser::Spend(size_t num_bytes) {
  spent_bytes_ += num_bytes;
  return spent_bytes_ <= limits_.max_header_bytes || FailHeader();
}

bool RequestParser::Fail(ApiError error) {
  error_ = std::move(error);
  return false;
}

bool RequestParser::FailHeader() {
  return Fail(TransportError(431, StrCat("The request's header is larger than the ",
                                         limits_.max_header_bytes, " bytes allowed.")));
}

bool RequestParser::FailBody() {
  return Fail(TransportError(
      413, StrCat("The request's body is larger than the ", max_body_bytes_, " bytes allowed.")));
}

}  // namespace aril::gateway
