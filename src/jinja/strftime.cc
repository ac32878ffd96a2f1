#include "jinja/strftime.h"

#include <array>
#include <ctime>

#include "base/strings.h"

namespace aril::jinja {
namespace {

// The directive at the head of `text`: flags and a width of glibc, then a letter.
std::string_view Directive(std::string_view text) {
  const size_t letter = text.find_first_not_of("_-0^#123456789:EO", 1);
  return letter == std::string_view::npos ? text : text.substr(0, letter + 1);
}

StatusOr<std::string> Print(const std::string& directive, const std::tm& time) {
  if (directive == "%f") return std::string("000000");
  if (directive == "%z" || directive == "%Z" || directive == "%:z") return std::string();
  // The space tells an empty result from one that does not fit.
  std::array<char, 101> buffer;
  const size_t size = std::strftime(buffer.data(), buffer.size(), (directive + " ").c_str(), &time);
  if (size == 0) return FailedPrecondition(StrCat("strftime: ", directive, " prints too much"));
  return std::string(buffer.data(), size - 1);
}

}  // namespace

StatusOr<std::string> Strftime(std::string_view format, int64_t unix_seconds) {
  const std::time_t seconds = unix_seconds;
  std::tm time{};
  if (gmtime_r(&seconds, &time) == nullptr) return FailedPrecondition("strftime: no such time");
  std::string out;
  while (!format.empty()) {
    if (format[0] != '%') {
      const std::string_view plain = format.substr(0, format.find('%'));
      out += plain;
      format.remove_prefix(plain.size());
      continue;
    }
    const std::string_view directive = Directive(format);
    ASSIGN_OR_RETURN(const std::string printed, Print(std::string(directive), time));
    out += printed;
    format.remove_prefix(directive.size());
  }
  return out;
}

}  // namespace aril::jinja
