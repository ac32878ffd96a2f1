#include "gateway/multipart_parser.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

constexpr std::string_view kEndOfLine = "\r\n";
constexpr size_t kMaxBoundaryBytes = 70;  // RFC 2046, section 5.1.1

bool IsBoundaryByte(char c) {
  const bool is_alphanumeric =
      (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  return is_alphanumeric || std::string_view("'()+_,-./:=?").find(c) != std::string_view::npos;
}

// What stands before the first `separator`, which is taken from `*text` as well.
std::string_view TakeUntil(char separator, std::string_view* text) {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string_view head = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return head;
}

// The next `name=value` or `name="value"` of a field's parameters (RFC 9110, section 5.6.6).
// Nothing is unescaped: values with a backslash are none.
struct Parameter {
  std::string_view name;
  std::string_view value;
};
std::optional<Parameter> TakeParameter(std::string_view* text) {
  Parameter parameter = {.name = TrimBlanks(TakeUntil('=', text)), .value = {}};
  if (parameter.name.empty() || text->empty()) return std::nullopt;
  if (text->front() != '"') {
    parameter.value = TrimBlanks(TakeUntil(';', text));
    return parameter;
  }
  text->remove_prefix(1);
  const size_t end = text->find('"');
  if (end == std::string_view::npos) return std::nullopt;
  parameter.value = TakeUntil('"', text);
  if (parameter.value.find('\\') != std::string_view::npos) return std::nullopt;
  if (!TrimBlanks(TakeUntil(';', text)).empty()) return std::nullopt;
  return parameter;
}

struct PartHeader {
  std::optional<std::string> name;
  std::optional<std::string> filename;
};

// False for what is not `form-data; name="…"`, with a `filename` or without.
bool ReadDisposition(std::string_view value, PartHeader* header) {
  if (header->name.has_value()) return false;
  if (!EqualsIgnoreCase(TrimBlanks(TakeUntil(';', &value)), "form-data")) return false;
  while (!TrimBlanks(value).empty()) {
    const auto parameter = TakeParameter(&value);
    if (!parameter.has_value()) return false;
    const bool is_name = EqualsIgnoreCase(parameter->name, "name");
    if (!is_name && !EqualsIgnoreCase(parameter->name, "filename")) return false;
    std::optional<std::string>& target = is_name ? header->name : header->filename;
    if (target.has_value()) return false;
    target = std::string(parameter->value);
  }
  return header->name.has_value();
}

// nullopt if a field is not acceptable.
std::optional<PartHeader> ReadHeader(std::string_view lines) {
  PartHeader header;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find(kEndOfLine), lines.size());
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + kEndOfLine.size(), lines.size()));
    const bool has_colon = line.find(':') != std::string_view::npos;
    const std::string_view name = TakeUntil(':', &line);
    if (!has_colon) return std::nullopt;
    if (EqualsIgnoreCase(name, "Content-Disposition")) {
      if (!ReadDisposition(TrimBlanks(line), &header)) return std::nullopt;
    } else if (EqualsIgnoreCase(name, "Content-Transfer-Encoding")) {
      const std::string_view coding = TrimBlanks(line);
      if (!EqualsIgnoreCase(coding, "binary") && !EqualsIgnoreCase(coding, "8bit")) {
        return std::nullopt;
      }
    } else if (!EqualsIgnoreCase(name, "Content-Type") &&
               !EqualsIgnoreCase(name, "Content-Length")) {
      return std::nullopt;
    }
  }
  if (!header.name.has_value()) return std::nullopt;
  return header;
}

}  // namespace

StatusOr<std::optional<std::string>> FindMultipartBoundary(std::string_view content_type) {
  if (!EqualsIgnoreCase(TrimBlanks(TakeUntil(';', &content_type)), "multipart/form-data")) {
    return std::optional<std::string>();
  }
  std::optional<std::string> boundary;
  while (!TrimBlanks(content_type).empty()) {
    const auto parameter = TakeParameter(&content_type);
    const bool is_boundary = parameter.has_value() && EqualsIgnoreCase(parameter->name, "boundary");
    if (!parameter.has_value() || (is_boundary && boundary.has_value())) {
      boundary.reset();
      break;
    }
    if (is_boundary) boundary = std::string(parameter->value);
  }
  if (!boundary.has_value() || boundary->empty() || boundary->size() > kMaxBoundaryBytes ||
      !std::ranges::all_of(*boundary, IsBoundaryByte)) {
    return InvalidArgument(
        "the Content-Type multipart/form-data must have a boundary of 1 to 70 letters, digits and "
        "'()+_,-./:=?");
  }
  return boundary;
}

MultipartParser::MultipartParser(const std::string& boundary, MultipartSink& sink)
    : delimiter_(StrCat(kEndOfLine, "--", boundary)), sink_(sink), buffer_(kEndOfLine) {}

Status MultipartParser::Append(std::string_view bytes) {
  if (!status_.ok()) return status_;
  buffer_ += bytes;
  while (Step()) {
  }
  return status_;
}

Status MultipartParser::Finish() const {
  if (!status_.ok() || state_ == State::kEpilogue) return status_;
  return InvalidArgument("the multipart body ends before its last boundary");
}

bool MultipartParser::Step() {
  switch (state_) {
    case State::kDelimiter:
      return TakeFirstDelimiter();
    case State::kAfterDelimiter:
      return TakeAfterDelimiter();
    case State::kHeader:
      return TakeHeader();
    case State::kData:
      return TakeData();
    case State::kEpilogue:
      break;
  }
  return TakeEpilogue();
}

bool MultipartParser::TakeFirstDelimiter() {
  const size_t size = std::min(buffer_.size(), delimiter_.size());
  if (buffer_.compare(0, size, delimiter_, 0, size) != 0) {
    return Malformed("it does not begin with its boundary");
  }
  if (size < delimiter_.size()) return false;
  buffer_.erase(0, size);
  state_ = State::kAfterDelimiter;
  return true;
}

bool MultipartParser::TakeAfterDelimiter() {
  if (buffer_.size() < 2) return false;
  const bool is_last = buffer_.starts_with("--");
  if (!is_last && !buffer_.starts_with(kEndOfLine)) {
    return Malformed("a boundary is followed by something else than the end of its line");
  }
  // The header's last line end may be its first: a header without fields has no name, anyway.
  buffer_.erase(0, 2);
  state_ = is_last ? State::kEpilogue : State::kHeader;
  return true;
}

bool MultipartParser::TakeHeader() {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t end = buffer_.substr(0, kMaxPartHeaderBytes).find(kEnd);
  if (end == std::string::npos) {
    return buffer_.size() >= kMaxPartHeaderBytes &&
           Malformed(StrCat("the header of a part is larger than ", kMaxPartHeaderBytes, " bytes"));
  }
  const auto header = ReadHeader(std::string_view(buffer_).substr(0, end));
  if (!header.has_value()) {
    return Malformed(
        "the header of a part must be Content-Disposition: form-data; name=\"…\", with a filename "
        "or without, and at most a Content-Type");
  }
  buffer_.erase(0, end + kEnd.size());
  // Data may be empty, and its end the line end that the boundary begins with.
  state_ = State::kData;
  return Passes(sink_.OnPart(*header->name, header->filename));
}

bool MultipartParser::TakeData() {
  const size_t found = buffer_.find(delimiter_);
  const bool is_end = found != std::string::npos;
  const size_t kept = std::min(buffer_.size(), delimiter_.size() - 1);
  const size_t size = is_end ? found : buffer_.size() - kept;
  if (size > 0 && !Passes(sink_.OnData(std::string_view(buffer_).substr(0, size)))) return false;
  buffer_.erase(0, is_end ? size + delimiter_.size() : size);
  if (!is_end) return false;
  state_ = State::kAfterDelimiter;
  return Passes(sink_.OnPartEnd());
}

bool MultipartParser::TakeEpilogue() {
  const size_t size = std::min(buffer_.size(), kEndOfLine.size());
  const bool is_end = buffer_.size() <= kEndOfLine.size() && buffer_ == kEndOfLine.substr(0, size);
  return !is_end && Malformed("something follows its last boundary");
}

// True if there is nothing wrong.
bool MultipartParser::Passes(Status status) {
  status_ = std::move(status);
  return status_.ok();
}

bool MultipartParser::Malformed(const std::string& what) {
  return Passes(InvalidArgument("the multipart body is malformed: " + what));
}

}  // namespace aril::gateway
