#include "jinja/percent_format.h"

#include <cmath>
#include <optional>

#include "base/strings.h"
#include "jinja/arithmetic.h"
#include "jinja/attribute.h"
#include "jinja/format_spec.h"
#include "jinja/print.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

class Formatter {
 public:
  Formatter(Runtime* runtime, std::string_view format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {}

  StatusOr<std::string> Run() {
    while (pos_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', pos_), format_.size());
      RETURN_IF_ERROR(AppendText(runtime_, format_.substr(pos_, percent - pos_), &out_));
      pos_ = percent;
      if (pos_ == format_.size()) break;
      ++pos_;
      RETURN_IF_ERROR(runtime_->budget().ChargeSteps());
      RETURN_IF_ERROR(Convert());
    }
    const bool is_mapping = values_.AsDict() != nullptr || values_.TypeName() == "list";
    if (!is_mapping && num_used_ < NumValues()) {
      return FailedPrecondition("not all arguments converted during string formatting");
    }
    return std::move(out_);
  }

 private:
  const Sequence* Tuple() const {
    const Sequence* sequence = values_.AsSequence();
    const bool is_tuple = sequence != nullptr && sequence->kind != Sequence::Kind::kList;
    return is_tuple ? sequence : nullptr;
  }

  size_t NumValues() const { return Tuple() != nullptr ? Tuple()->items.size() : 1; }

  StatusOr<Value> NextValue() {
    if (num_used_ >= NumValues()) {
      return FailedPrecondition("not enough arguments for format string");
    }
    const size_t i = num_used_++;
    return Tuple() != nullptr ? Tuple()->items[i] : values_;
  }

  // "(name)", if it is there: the value of that key.
  StatusOr<std::optional<Value>> ReadKey() {
    if (pos_ == format_.size() || format_[pos_] != '(') return std::optional<Value>();
    int depth = 0;
    const size_t begin = pos_ + 1;
    do {
      if (pos_ == format_.size()) return FailedPrecondition("incomplete format key");
      depth += format_[pos_] == '(' ? 1 : format_[pos_] == ')' ? -1 : 0;
      ++pos_;
    } while (depth > 0);
    if (values_.AsDict() == nullptr) return FailedPrecondition("format requires a mapping");
    ASSIGN_OR_RETURN(const Value key,
                     runtime_->NewString(std::string(format_.substr(begin, pos_ - 1 - begin))));
    ASSIGN_OR_RETURN(Value value, GetItem(runtime_, values_, key));
    if (value.is_undefined()) return FailedPrecondition(value.AsUndefined()->message);
    return std::optional<Value>(std::move(value));
  }

  void ReadFlags(FormatSpec* spec) {
    bool is_zero = false;
    for (; pos_ < format_.size(); ++pos_) {
      const char c = format_[pos_];
      if (c == '-') {
        spec->align = '<';
      } else if (c == '+' || (c == ' ' && spec->sign == '-')) {
        spec->sign = c;
      } else if (c == '#') {
        spec->is_alternate = true;
      } else if (c == '0') {
        is_zero = true;
      } else if (c != ' ') {
        break;
      }
    }
    if (!is_zero || spec->align != 0) return;
    spec->fill = "0";
    spec->align = '=';
  }

  // A number, or `*` for the next value.
  StatusOr<int64_t> ReadNumber() {
    if (pos_ == format_.size() || format_[pos_] != '*') return ReadWidth(format_, &pos_);
    ++pos_;
    ASSIGN_OR_RETURN(const Value value, NextValue());
    if (value.AsInt() == nullptr) return FailedPrecondition("* wants int");
    return *value.AsInt();
  }

  StatusOr<FormatSpec> ReadSpec() {
    FormatSpec spec;
    ReadFlags(&spec);
    ASSIGN_OR_RETURN(spec.width, ReadNumber());
    if (spec.width < 0) {
      if (spec.width == INT64_MIN) return FailedPrecondition("width too big");
      spec.align = '<';
      spec.fill = " ";
      spec.width = -spec.width;
    }
    if (pos_ < format_.size() && format_[pos_] == '.') {
      ++pos_;
      ASSIGN_OR_RETURN(const int64_t precision, ReadNumber());
      size_t begin = 0;
      ASSIGN_OR_RETURN(spec.precision,
                       ReadPrecision(std::to_string(std::max<int64_t>(precision, 0)), &begin));
    }
    while (pos_ < format_.size() &&
           std::string_view("hlL").find(format_[pos_]) != std::string::npos) {
      ++pos_;
    }
    if (pos_ == format_.size()) return FailedPrecondition("incomplete format");
    spec.type = format_[pos_++];
    return spec;
  }

  Status Convert() {
    ASSIGN_OR_RETURN(std::optional<Value> value, ReadKey());
    ASSIGN_OR_RETURN(FormatSpec spec, ReadSpec());
    if (spec.type == '%') return AppendText(runtime_, "%", &out_);
    if (!value) {
      ASSIGN_OR_RETURN(value, NextValue());
    }
    ASSIGN_OR_RETURN(const std::string text, Format(*value, std::move(spec)));
    out_ += text;
    return OkStatus();
  }

  StatusOr<std::string> Format(const Value& value, FormatSpec spec) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a':
        return FormatPrinted(value, std::move(spec));
      case 'c':
        return FormatChar(value, std::move(spec));
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return FormatWhole(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return FormatReal(value, spec);
      default:
        return FailedPrecondition(StrCat("unsupported format character '", spec.type, "'"));
    }
  }

  StatusOr<std::string> FormatPrinted(const Value& value, FormatSpec spec) {
    std::string text;
    RETURN_IF_ERROR(spec.type == 's' ? AppendStr(runtime_, value, &text)
                                     : AppendRepr(runtime_, value, 0, &text));
    return FormatPlain(text, std::move(spec));
  }

  // Texts are on the right, and never filled with zeros.
  StatusOr<std::string> FormatPlain(std::string_view text, FormatSpec spec) {
    if (spec.align != '<') spec.align = '>';
    spec.fill = " ";
    spec.type = 's';
    return FormatText(runtime_, text, spec);
  }

  StatusOr<std::string> FormatChar(const Value& value, FormatSpec spec) {
    if (const String* string = value.AsString(); string != nullptr && string->length == 1) {
      spec.precision = -1;
      return FormatPlain(string->text, std::move(spec));
    }
    if (value.AsInt() == nullptr) return FailedPrecondition("%c requires int or char");
    if (spec.align != '<') spec.align = '>';
    spec.fill = " ";
    return FormatInteger(runtime_, *value.AsInt(), spec);
  }

  StatusOr<std::string> FormatWhole(const Value& value, const FormatSpec& spec) {
    RETURN_IF_ERROR(CheckDefined(value, value));
    int64_t integer = 0;
    const bool is_decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (const double* real = value.AsFloat(); real != nullptr && is_decimal) {
      ASSIGN_OR_RETURN(integer, Truncate(*real));
    } else if (!value.AsIntegral(&integer)) {
      return FailedPrecondition(
          StrCat("%", spec.type, " format: a real number is required, not ", value.TypeName()));
    }
    return FormatInteger(runtime_, integer, spec);
  }

  StatusOr<std::string> FormatReal(const Value& value, const FormatSpec& spec) {
    RETURN_IF_ERROR(CheckDefined(value, value));
    double real = 0;
    if (!value.AsNumber(&real)) {
      return FailedPrecondition(StrCat("must be real number, not ", value.TypeName()));
    }
    return FormatFloat(runtime_, real, spec);
  }

  Runtime* const runtime_;
  const std::string_view format_;
  const Value& values_;
  size_t pos_ = 0;
  size_t num_used_ = 0;
  std::string out_;
};

}  // namespace

StatusOr<std::string> PercentFormat(Runtime* runtime, std::string_view format,
                                    const Value& values) {
  return Formatter(runtime, format, values).Run();
}

}  // namespace aril::jinja
