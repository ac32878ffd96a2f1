// How deep syntax trees are, and how deep their parser recurses.

#ifndef ARIL_JINJA_SYNTAX_DEPTH_H_
#define ARIL_JINJA_SYNTAX_DEPTH_H_

#include <algorithm>
#include <vector>

#include "base/strings.h"
#include "jinja/ast.h"
#include "jinja/limits.h"
#include "jinja/token.h"

namespace aril::jinja {

inline int DepthOf(const ExprPtr& expr) { return expr == nullptr ? 0 : expr->depth; }

template <typename... Rest>
int DepthOf(const ExprPtr& first, const Rest&... rest) {
  return std::max(DepthOf(first), DepthOf(rest...));
}

inline int DepthOf(const std::vector<ExprPtr>& exprs) {
  int depth = 0;
  for (const ExprPtr& expr : exprs) depth = std::max(depth, DepthOf(expr));
  return depth;
}

inline int DepthOf(const ArgumentList& arguments) {
  int depth = std::max(DepthOf(arguments.positional),
                       DepthOf(arguments.more_positional, arguments.more_keyword));
  for (const auto& [name, value] : arguments.keyword) depth = std::max(depth, DepthOf(value));
  return depth;
}

inline Status TooDeep(int line, int limit) {
  return SyntaxError(line, StrCat("the template nests deeper than ", limit, " levels"));
}

// One level of the parser's recursion, for as long as it lives.
class SyntaxNesting {
 public:
  explicit SyntaxNesting(int* depth) : depth_(depth) { ++*depth_; }
  SyntaxNesting(const SyntaxNesting&) = delete;
  SyntaxNesting& operator=(const SyntaxNesting&) = delete;
  ~SyntaxNesting() { --*depth_; }

  Status Check(int line) const {
    return *depth_ > kMaxSyntaxNesting ? TooDeep(line, kMaxSyntaxNesting) : OkStatus();
  }

 private:
  int* const depth_;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_SYNTAX_DEPTH_H_
