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

  ReasonedText Append(std::string_view text) {
    held_ += text;
    ReasonedText out;
    was_reasoning_ = false;
    do {
      was_reasoning_ |= is_reasoning();
    } while (Step(&out));
    return out;
  }
  // What was held back, at the end.
  virtual ReasonedText Flush() = 0;

  // The last text was reasoning, or has ended it.
  bool was_reasoning() const { return was_reasoning_; }
  // What comes now is the answer: behind reasoning, or because there is none.
  virtual bool is_over() const = 0;
  virtual bool is_behind() const = 0;

 protected:
  // What comes now is reasoning.
  virtual bool is_reasoning() const = 0;
  // Takes what can be understood of held_; false if there is nothing to do before more comes.
  virtual bool Step(ReasonedText* out) = 0;

  std::string held_;  // what is not decided

 private:
  bool was_reasoning_ = false;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_REASONING_READER_H_
