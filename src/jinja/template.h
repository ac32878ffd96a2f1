// Jinja templates, as the chat templates of Hugging Face's models use them.
//
// Renders what Python's jinja2 3.1 does in transformers' setting: ImmutableSandboxedEnvironment
// with trim_blocks and lstrip_blocks, break and continue, {% generation %}, transformers' `tojson`,
// `raise_exception` and `strftime_now`. A template can neither change what it is given, nor see a
// clock or a file, nor run longer or take more memory than RenderLimits. What differs is listed in
// docs/decisions/007-own-jinja-interpreter.md.

#ifndef ARIL_JINJA_TEMPLATE_H_
#define ARIL_JINJA_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "jinja/limits.h"

namespace aril::jinja {

struct RenderOptions {
  int64_t now_unix_seconds = 0;  // for strftime_now, which prints it in UTC
  RenderLimits limits;
};

// Immutable; copies share the syntax tree. All of it is thread-safe.
class Template {
 public:
  // InvalidArgument "line 3: …" if `source` is no template, too long, or not UTF-8; Unimplemented
  // for include, import, extends, block, autoescape and a few filters.
  static StatusOr<Template> Parse(std::string_view source, const ParseLimits& limits = {});

  // What the template prints. The members of `variables` are its variables;
  // of two with one name the later counts. Errors:
  //   InvalidArgument     the template called raise_exception; the message is exactly its argument
  //   FailedPrecondition  "line 3: 'dict object' has no attribute 'x'": the template and these
  //                       variables do not go together
  //   ResourceExhausted   it takes more than the limits
  StatusOr<std::string> Render(const Json::Object& variables, const RenderOptions& options) const;

 private:
  struct Syntax;
  explicit Template(std::shared_ptr<const Syntax> syntax) : syntax_(std::move(syntax)) {}

  std::shared_ptr<const Syntax> syntax_;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_TEMPLATE_H_
