// Json::Parse on any bytes; what it accepts must survive Dump and a second Parse unchanged.

#include <string_view>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed =
      aril::Json::Parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!parsed.ok()) return 0;
  const std::string text = parsed->Dump();
  const auto again = aril::Json::Parse(text);
  CHECK(again.ok());
  CHECK_EQ(again->Dump(), text);
  return 0;
}
