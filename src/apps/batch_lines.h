// Lines of batch files, as OpenAI's Batch API has them: requests, and what became of them.

#ifndef ARIL_APPS_BATCH_LINES_H_
#define ARIL_APPS_BATCH_LINES_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>

namespace aril {

// {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {…}}
struct BatchRequest {
  int64_t line = 0;       // its number, from 1
  std::string custom_id;  // empty: the line has none
  std::string path;
  std::string body;   // JSON
  std::string error;  // what is wrong with a line that is no request; empty: nothing
};

// Reads requests, blank lines left out. Not thread-safe; the stream must outlive it.
class BatchReader {
 public:
  BatchReader(std::istream& in, size_t max_line_bytes) : in_(in), max_line_bytes_(max_line_bytes) {}

  // The next one, or a line that is none; nullopt at the end.
  std::optional<BatchRequest> Next();

 private:
  // False at the end. What of a line is behind its bound is read past, and `*is_too_long`.
  bool ReadLine(std::string* line, bool* is_too_long);

  std::istream& in_;
  const size_t max_line_bytes_;
  int64_t num_lines_ = 0;
};

// What became of it, with the newline: {"id", "custom_id", "response": {"status_code",
// "request_id", "body"}, "error": null}. `body` must be JSON.
std::string AnswerLine(const BatchRequest& request, int status, std::string_view body);
// The same of a line that is no request: {…, "response": null, "error": {"code", "message"}}.
std::string ErrorLine(const BatchRequest& request);

// The custom_id of a line that AnswerLine has made of an answer with status 200; else nothing.
std::optional<std::string> AnsweredId(std::string_view line);

}  // namespace aril

#endif  // ARIL_APPS_BATCH_LINES_H_
