// Whatever a chat template says: it is refused with a message, or it renders valid UTF-8 or an
// error, within its limits.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"
#include "jinja/template.h"

namespace {

// Small, so that the time of a run shows what the budget misses.
constexpr aril::jinja::RenderOptions kOptions = {
    .now_unix_seconds = 1752138303,
    .limits = {.max_steps = 20'000, .max_bytes = 1 << 20, .max_depth = 200}};

aril::Json::Object Variables() {
  const auto json = aril::Json::Parse(R"({
      "messages": [{"role": "system", "content": "Be kind."},
                   {"role": "user", "content": " Grüße 😀 "},
                   {"role": "assistant", "content": null, "tool_calls": [{"function": {
                       "name": "f", "arguments": {"x": [1, 2.5, true, null]}}}]}],
      "tools": [{"type": "function", "function": {"name": "f"}}],
      "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true})");
  CHECK(json.ok());
  return *json->AsObject();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const aril::Json::Object variables = Variables();
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = aril::jinja::Template::Parse(source);
  if (!parsed.ok()) {
    CHECK(!parsed.status().message().empty());
    return 0;
  }
  const auto rendered = parsed->Render(variables, kOptions);
  if (rendered.ok()) CHECK(aril::IsValidUtf8(*rendered));
  return 0;
}
