// What tells the parts of a model's text apart: reasoning, the answer, calls of tools.

#ifndef ARIL_GATEWAY_REASONING_READER_H_
#define ARIL_GATEWAY_REASONING_READER_H_

#include <string>
#include <string_view>

namespace aril::gateway {

struct ReasonedText {
  std::string reasoning;
  std::string answer;
  std::string calls = {};  // where they are told from an answer by what comes before them
};

// Of one text, which may be cut anywhere. Not thread-safe.
class ReasoningReader {
 public:
  virtual ~ReasoningReader() = default;

  virtual ReasonedText Append(std::string_view text) = 0;
  // What was held back, at the end.
  virtual ReasonedText Flush() = 0;

  // The last text was reasoning, or has ended it.
  virtual bool was_reasoning() const = 0;
  // What comes now is the answer: behind reasoning, or because there is none.
  virtual bool is_over() const = 0;
  virtual bool is_behind() const = 0;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REASONING_READER_H_
