#include "grammar/json_format.h"

#include <array>

namespace aril::grammar {
namespace {

struct Format {
  std::string_view name;
  std::string_view expression;
};

// RFC 3339, section 5.6, with years of four digits without a zero in front, and no leap seconds.
// The 29th of February is in years that 4 divides, and of those that 100 divides, in those that 400
// does.
#define DATE                                 \
  "([1-9]\\d{3}-("                           \
  "(0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|" \
  "(0[469]|11)-(0[1-9]|[12]\\d|30)|"         \
  "02-(0[1-9]|1\\d|2[0-8]))|"                \
  "([1-9]\\d(0[48]|[2468][048]|[13579][26])|(1[26]|[2468][048]|[3579][26])00)-02-29)"
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"

// RFC 3339, appendix A, with four digits at most.
#define DURATION_NUMBER "(0|[1-9]\\d{0,3})"
#define SECONDS DURATION_NUMBER "S"
#define MINUTES DURATION_NUMBER "M(" SECONDS ")?"
#define HOURS DURATION_NUMBER "H(" MINUTES ")?"
#define DAYS DURATION_NUMBER "D"
#define MONTHS DURATION_NUMBER "M(" DAYS ")?"
#define YEARS DURATION_NUMBER "Y(" MONTHS ")?"
#define DURATION_TIME "T(" HOURS "|" MINUTES "|" SECONDS ")"
#define DURATION \
  "P((" DAYS "|" MONTHS "|" YEARS ")(" DURATION_TIME ")?|" DURATION_TIME "|" DURATION_NUMBER "W)"

// At most 3 * 63 + 2 of the 253 bytes that a name may have; and a last label that is no number.
#define LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOSTNAME "(" LABEL "\\.){0,2}[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define EMAIL "[a-zA-Z0-9_+-]{1,16}(\\.[a-zA-Z0-9_+-]{1,15}){0,3}@(" LABEL "\\.){1,2}[a-zA-Z]{2,16}"

#define OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 "(" OCTET "\\.){3}" OCTET
// RFC 4291, section 2.2, forms 1 and 2.
#define H "[0-9a-fA-F]{1,4}"
#define IPV6                                                                                    \
  "(" H ":){7}" H "|(" H ":){1,7}:|(" H ":){1,6}:" H "|(" H ":){1,5}(:" H                       \
  "){1,2}|"                                                                                     \
  "(" H ":){1,4}(:" H "){1,3}|(" H ":){1,3}(:" H "){1,4}|(" H ":){1,2}(:" H "){1,5}|" H ":(:" H \
  "){1,6}|:(:" H "){1,7}|::"

// RFC 3986, of the scheme http or https, on a named host.
#define PATH_CHARACTER "([a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})"
#define URI                                                 \
  "https?://" HOSTNAME "(:[1-9]\\d{0,3})?(/" PATH_CHARACTER \
  "*)*"                                                     \
  "(\\?([/?]|" PATH_CHARACTER ")*)?(#([/?]|" PATH_CHARACTER ")*)?"

constexpr std::array<Format, 10> kFormats = {{
    {"date", DATE},
    {"date-time", DATE "T" TIME},
    {"duration", DURATION},
    {"email", EMAIL},
    {"hostname", HOSTNAME},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"time", TIME},
    {"uri", URI},
    {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
}};

}  // namespace

std::string_view FormatExpression(std::string_view format) {
  for (const Format& known : kFormats) {
    if (known.name == format) return known.expression;
  }
  return {};
}

}  // namespace aril::grammar
