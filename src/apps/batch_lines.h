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
  // What JSON may have (base/json.h).
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;

  explicit BatchReader(std::istream& in, size_t max_line_bytes = kMaxLineBytes)
      : in_(in), max_line_bytes_(max_line_bytes) {}

  // The next one, or a line that is none; nullopt at the end, or where reading fails (bad()).
  std::optional<BatchRequest> Next();

 private:
  struct Line {
    std::string text;
    bool is_too_long = false;  // and read past, text aside
  };
  std::optional<Line> ReadLine();

  std::istream& in_;
  const size_t max_line_bytes_;
  int64_t num_lines_ = 0;
};

// What became of it, with the newline: {"id", "custom_id", "response": {"status_code",
// "request_id", "body"}, "error": null}. `id`: of the output's own. `body` must be JSON.
std::string AnswerLine(const BatchRequest& request, std::string_view id, int status,
                       std::string_view body);
// The same of a line that is no request: {…, "response": null, "error": {"code", "message"}}.
std::string ErrorLine(const BatchRequest& request, std::string_view id);

// Of a line that one of these has made.
struct BatchOutcome {
  std::string custom_id;
  bool is_answered = false;  // with status 200
};
// nullopt: it is none. As fast for a long answer as for a short one.
std::optional<BatchOutcome> ReadOutcome(std::string_view line);

// What the usage in an answer's body says of tokens that were generated; 0 if nothing.
int64_t NumGeneratedTokens(std::string_view body);

}  // namespace aril

#endif  // ARIL_APPS_BATCH_LINES_H_
