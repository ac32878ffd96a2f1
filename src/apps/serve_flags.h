// The flags of the commands that serve: `aril serve` has them all, `aril gateway`, `aril runner`
// and `aril run-batch` each their part.

#ifndef ARIL_APPS_SERVE_FLAGS_H_
#define ARIL_APPS_SERVE_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "apps/serve.h"
#include "apps/source_flags.h"
#include "base/status.h"

namespace aril {

struct ServeFlags {
  ServeOptions options;
  bool demo = false;
  int64_t max_model_len = 0;
  std::optional<int64_t> max_body_bytes;
  std::string api_key;
  std::optional<double> tenant_pin_share;
  std::vector<std::string> allowed_origins;
  SourceFlags sources;
};

// The base model and its adapters.
void AddModelFlags(CLI::App& app, ServeFlags& flags);
// What they are called, and the chat template.
void AddNameFlags(CLI::App& app, ServeFlags& flags);
// Where adapters that come at run time come from.
struct AdapterSourceHelp {
  std::string roots, state_dir;
};
void AddAdapterSourceFlags(CLI::App& app, ServeFlags& flags, const AdapterSourceHelp& help);
// The same, and what becomes of them in `aril serve`.
void AddAdapterChangeFlags(CLI::App& app, ServeFlags& flags);
// The longest sequence; AddEngineFlags has it, too.
void AddContextFlag(CLI::App& app, ServeFlags& flags);
void AddEngineFlags(CLI::App& app, ServeFlags& flags);
void AddHttpFlags(CLI::App& app, ServeFlags& flags);

// What the flags say together. InvalidArgument if they do not fit one another.
StatusOr<ServeOptions> ResolveServeOptions(const ServeFlags& flags);

}  // namespace aril

#endif  // ARIL_APPS_SERVE_FLAGS_H_
