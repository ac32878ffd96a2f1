// The arguments of a call that are written one by one, as a JSON object, as they come.

#ifndef ARIL_GATEWAY_ARGUMENT_READER_H_
#define ARIL_GATEWAY_ARGUMENT_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/argument_syntax.h"

namespace aril::gateway {

// What the arguments of tools may be, by the tools' names.
using ToolArgumentTypes = std::map<std::string, grammar::ArgumentTypes>;

// A value that is written as it is, as JSON: a string, unless it is none of the words of `type`,
// and spells another of its types. True, False and None are what Python writes for JSON's, and some
// templates with it.
std::string JsonOfArgument(std::string_view text, const grammar::ArgumentType& type);

// Reads the arguments of one call, behind its `middle`. Not thread-safe; all must outlive it.
class ArgumentReader {
 public:
  ArgumentReader(const grammar::ArgumentSyntax& syntax, const grammar::ArgumentTypes& types)
      : syntax_(&syntax), types_(&types) {}

  // What of the object is known by the text that came first in `held`, UTF-8, which is taken from
  // it. Of a string no more is held back than may be its end; other values come whole.
  std::string Take(std::string* held);
  // The object has ended: what is held belongs to what comes behind it.
  bool is_complete() const { return state_ == State::kEnd; }

 private:
  enum class State : uint8_t { kBetween, kName, kString, kOther, kEnd };

  // Takes what can be understood; false if there is nothing to do before more comes.
  bool Step(std::string* held, std::string* json);
  bool TakeBetween(std::string* held, std::string* json);
  bool TakeName(std::string* held, std::string* json);
  bool TakeOther(std::string* held, std::string* json);
  bool TakeString(std::string* held, std::string* json);
  // The text before `end`, which is taken with it; nothing if that has not come yet.
  std::optional<std::string> TakeUntil(std::string_view end, std::string* held);

  const grammar::ArgumentSyntax* syntax_;
  const grammar::ArgumentTypes* types_;
  State state_ = State::kBetween;
  bool is_first_ = true;
  const grammar::ArgumentType* type_ = nullptr;  // of the value that is read
  size_t num_searched_ = 0;  // bytes of what is held, for the end of a name or value
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_ARGUMENT_READER_H_
