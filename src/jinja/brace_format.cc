#include "jinja/brace_format.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"
#include "jinja/attribute.h"
#include "jinja/format_spec.h"
#include "jinja/literals.h"
#include "jinja/print.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

// "{name!conversion:spec}".
struct Field {
  std::string_view name;
  char conversion = 0;
  std::string_view spec;
};

class Formatter {
 public:
  Formatter(Runtime* runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  // A spec may have fields of its own, and those no more.
  Status Format(std::string_view format, int levels_left, std::string* out) {
    for (size_t pos = 0; pos < format.size();) {
      const size_t brace = std::min(format.find_first_of("{}", pos), format.size());
      RETURN_IF_ERROR(AppendText(runtime_, format.substr(pos, brace - pos), out));
      pos = brace;
      if (pos == format.size()) break;
      if (format.substr(pos + 1, 1) == format.substr(pos, 1)) {
        RETURN_IF_ERROR(AppendText(runtime_, format.substr(pos, 1), out));
        pos += 2;
        continue;
      }
      if (format[pos] == '}') {
        return FailedPrecondition("Single '}' encountered in format string");
      }
      if (levels_left == 0) return FailedPrecondition("Max string recursion exceeded");
      RETURN_IF_ERROR(runtime_->budget().ChargeSteps());
      ASSIGN_OR_RETURN(const Field field, ReadField(format, &pos));
      RETURN_IF_ERROR(FormatField(field, levels_left, out));
    }
    return OkStatus();
  }

 private:
  // From the "{" at `*pos` to behind its "}".
  static StatusOr<Field> ReadField(std::string_view format, size_t* pos) {
    const size_t begin = *pos + 1;
    int depth = 1;
    size_t end = begin;
    for (; end < format.size(); ++end) {
      depth += format[end] == '{' ? 1 : format[end] == '}' ? -1 : 0;
      if (depth == 0) break;
    }
    if (depth > 0) {
      return FailedPrecondition(end == begin ? "Single '{' encountered in format string"
                                             : "expected '}' before end of string");
    }
    *pos = end + 1;
    Field field;
    const std::string_view text = format.substr(begin, end - begin);
    size_t name_end = 0;
    for (bool in_brackets = false; name_end < text.size(); ++name_end) {
      const char c = text[name_end];
      if (!in_brackets && (c == '!' || c == ':')) break;
      in_brackets = in_brackets ? c != ']' : c == '[';
    }
    field.name = text.substr(0, name_end);
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2)
        return FailedPrecondition("end of string while looking for conversion specifier");
      field.conversion = rest[1];
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') {
        return FailedPrecondition("expected ':' after conversion specifier");
      }
    }
    if (!rest.empty()) field.spec = rest.substr(1);
    return field;
  }

  Status FormatField(const Field& field, int levels_left, std::string* out) {
    ASSIGN_OR_RETURN(Value value, Find(field.name));
    if (field.conversion == 's') {
      ASSIGN_OR_RETURN(value, ToStr(runtime_, value));
    } else if (field.conversion == 'r' || field.conversion == 'a') {
      ASSIGN_OR_RETURN(value, ToRepr(runtime_, value));
    } else if (field.conversion != 0) {
      return FailedPrecondition(
          StrCat("Unknown conversion specifier ", std::string(1, field.conversion)));
    }
    std::string spec;
    RETURN_IF_ERROR(Format(field.spec, levels_left - 1, &spec));
    ASSIGN_OR_RETURN(const std::string text, FormatValue(runtime_, value, spec));
    *out += text;
    return OkStatus();
  }

  // "0.name[key]": an argument, then attributes and items.
  StatusOr<Value> Find(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    ASSIGN_OR_RETURN(Value value, FindArgument(name.substr(0, first_end)));
    for (size_t pos = first_end; pos < name.size();) {
      const bool is_item = name[pos] == '[';
      if (!is_item && name[pos] != '.') {
        return FailedPrecondition("Only '.' or '[' may follow ']' in format field specifier");
      }
      const size_t begin = pos + 1;
      const size_t end =
          is_item ? name.find(']', begin) : std::min(name.find_first_of(".[", begin), name.size());
      if (end == std::string_view::npos) return FailedPrecondition("Missing ']' in format string");
      const std::string_view part = name.substr(begin, end - begin);
      if (part.empty()) return FailedPrecondition("Empty attribute in format string");
      ASSIGN_OR_RETURN(value,
                       is_item ? GetNamedItem(value, part) : GetAttribute(runtime_, value, part));
      pos = is_item ? end + 1 : end;
    }
    return value;
  }

  StatusOr<Value> GetNamedItem(const Value& value, std::string_view key) {
    const bool is_index = key.find_first_not_of("0123456789") == std::string_view::npos;
    if (const auto index = ParseInteger(key, 10); is_index && index) {
      return GetItem(runtime_, value, Value(*index));
    }
    ASSIGN_OR_RETURN(const Value name, runtime_->NewString(std::string(key)));
    return GetItem(runtime_, value, name);
  }

  StatusOr<Value> FindArgument(std::string_view name) {
    const bool is_index = name.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_index) {
      for (const auto& [keyword, value] : arguments_.keyword) {
        if (keyword == name) return value;
      }
      return FailedPrecondition(StrCat("format() has no argument ", QuoteAsPython(name)));
    }
    const bool is_automatic = name.empty();
    if (is_automatic_.value_or(is_automatic) != is_automatic) {
      return FailedPrecondition(
          "cannot switch between manual field specification and automatic field numbering");
    }
    is_automatic_ = is_automatic;
    const int64_t index =
        is_automatic ? num_automatic_++ : ParseInteger(name, 10).value_or(INT64_MAX);
    if (static_cast<size_t>(index) >= arguments_.positional.size()) {
      return FailedPrecondition(
          StrCat("Replacement index ", index, " out of range for positional args tuple"));
    }
    return arguments_.positional[static_cast<size_t>(index)];
  }

  Runtime* const runtime_;
  const Arguments& arguments_;
  std::optional<bool> is_automatic_;
  int64_t num_automatic_ = 0;
};

}  // namespace

StatusOr<std::string> BraceFormat(Runtime* runtime, std::string_view format,
                                  const Arguments& arguments) {
  std::string out;
  RETURN_IF_ERROR(Formatter(runtime, arguments).Format(format, /*levels_left=*/2, &out));
  return out;
}

}  // namespace aril::jinja
