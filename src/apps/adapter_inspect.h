// `aril adapter inspect`: what an adapter is, whether it fits a base model, and what it costs.

#ifndef ARIL_APPS_ADAPTER_INSPECT_H_
#define ARIL_APPS_ADAPTER_INSPECT_H_

#include <optional>
#include <ostream>
#include <string>

#include "base/status.h"

namespace aril {

struct AdapterInspectOptions {
  std::string adapter_dir;
  std::optional<std::string> model_dir;
};

// Prints what is known about the adapter, and returns the error for which it could not be served.
Status InspectAdapter(const AdapterInspectOptions& options, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_ADAPTER_INSPECT_H_
