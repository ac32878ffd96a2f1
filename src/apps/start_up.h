// What starting a process that serves takes, whichever process that is.

#ifndef ARIL_APPS_START_UP_H_
#define ARIL_APPS_START_UP_H_

#include <memory>
#include <string>
#include <vector>

#include "apps/adapter_list.h"
#include "apps/serve.h"
#include "base/clock.h"
#include "base/status.h"
#include "catalog/catalog.h"
#include "runner/local_runner.h"
#include "tokenizer/tokenizer.h"

namespace aril {

// NotFound, naming the flag, if there is no such folder.
Status CheckModelDir(const std::string& dir);

// Those of the flags, in their order.
StatusOr<std::vector<NamedAdapter>> ListAdapters(const ServeOptions& options);

// Generations that stand for nothing, to check names with.
std::vector<std::shared_ptr<const Generation>> Placeholders(size_t count);

// One message about all adapters that cannot be served, and what to do about them.
Status DescribeFailures(const std::vector<AdapterFailure>& failures,
                        const std::vector<NamedAdapter>& adapters);
// Leaves them out, with warnings.
void RemoveFailed(const std::vector<AdapterFailure>& failures, std::vector<NamedAdapter>* adapters);

// Clients may load adapters at run time.
bool MayChangeAdapters(const ServeOptions& options);

// Loads the model and the adapters, and shows the progress. Without a tokenizer, which must be the
// model's, requests with a format are refused. Adapters are checked before the model
// is loaded, so that a second attempt costs little. With options.skip_bad_adapters those that
// cannot be served leave `adapters`.
StatusOr<std::unique_ptr<LocalRunner>> MakeRunner(const ServeOptions& options,
                                                  std::shared_ptr<const Tokenizer> tokenizer,
                                                  const Clock& clock,
                                                  std::vector<NamedAdapter>* adapters);

}  // namespace aril

#endif  // ARIL_APPS_START_UP_H_
