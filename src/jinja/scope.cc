#include "jinja/scope.h"

namespace aril::jinja {

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
    const auto found = scope->variables_.find(name);
    if (found != scope->variables_.end()) return &found->second;
  }
  return nullptr;
}

void Scope::Capture() {
  for (Scope* scope = this; scope != nullptr && !scope->is_captured_; scope = scope->parent_) {
    scope->is_captured_ = true;
  }
}

}  // namespace aril::jinja
