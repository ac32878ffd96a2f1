// Adapters in folders of this machine, as generations that this process's runner has.

#ifndef ARIL_APPS_LOCAL_ADAPTERS_H_
#define ARIL_APPS_LOCAL_ADAPTERS_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "gateway/adapters_api.h"
#include "gateway/served_model.h"
#include "runner/local_runner.h"

namespace aril {

// The folder that `source` names beneath one of `roots` (canonical paths): an absolute path, or one
// relative to a root. InvalidArgument if it leads out of all of them, by ".." or by a symbolic
// link, whether there is something or not; NotFound if it is beneath one and there is no such
// folder.
StatusOr<std::string> FindBeneath(const std::vector<std::filesystem::path>& roots,
                                  const std::string& source);

// Thread-safe. The runner must outlive it, and its generations.
class LocalAdapters final : public gateway::AdapterLoader {
 public:
  struct Options {
    std::vector<std::filesystem::path> roots;  // canonical
    Json::Object special_tokens;               // of the base model, for chat templates
    std::shared_ptr<gateway::AdapterChatTemplates> templates;
  };
  LocalAdapters(LocalRunner& runner, Options options)
      : runner_(runner), options_(std::move(options)) {}

  // `source`: a folder beneath one of the roots.
  StatusOr<std::shared_ptr<const Generation>> Load(const std::string& source) override;

  // A generation of an adapter that the runner has had from the start; to be made once.
  std::shared_ptr<const Generation> Adopt(AdapterId adapter, const std::string& dir);

 private:
  std::shared_ptr<const Generation> MakeGeneration(const LoadedAdapter& loaded,
                                                   const std::string& dir);

  LocalRunner& runner_;
  const Options options_;
};

}  // namespace aril

#endif  // ARIL_APPS_LOCAL_ADAPTERS_H_
