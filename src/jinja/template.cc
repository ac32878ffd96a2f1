#include "jinja/template.h"

#include <utility>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/ast.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace aril::jinja {

struct Template::Syntax {
  Block block;
};

StatusOr<Template> Template::Parse(std::string_view source, const ParseLimits& limits) {
  if (source.size() > limits.max_source_bytes) {
    return InvalidArgument(StrCat("a template of ", source.size(), " bytes, more than the ",
                                  limits.max_source_bytes, " allowed"));
  }
  if (!IsValidUtf8(source)) return InvalidArgument("the template is not valid UTF-8");
  ASSIGN_OR_RETURN(Block block, ParseTemplate(source));
  return Template(std::make_shared<const Syntax>(Syntax{std::move(block)}));
}

StatusOr<std::string> Template::Render(const Json::Object& variables,
                                       const RenderOptions& options) const {
  return Interpreter(options.limits, options.now_unix_seconds).Run(syntax_->block, variables);
}

}  // namespace aril::jinja
