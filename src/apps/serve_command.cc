// The command `aril serve`.

#include <memory>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/policy_flags.h"
#include "apps/serve.h"
#include "apps/serve_flags.h"

namespace aril {

void AddServeCommand(CLI::App& app) {
  CLI::App* serve = app.add_subcommand("serve", "Serve a base model and its adapters over HTTP");
  auto flags = std::make_shared<ServeFlags>();
  AddModelFlags(*serve, *flags);
  AddAdapterChangeFlags(*serve, *flags);
  AddNameFlags(*serve, *flags);
  AddEngineFlags(*serve, *flags);
  AddHttpFlags(*serve, *flags);
  AddPolicyFlags(*serve, flags->options.policies);
  AddDurationFlag(*serve, "--adapter-load-wait", flags->options.adapter_load_wait, "60s",
                  "How long requests wait for an adapter that is being fetched for the first time");
  serve->callback([flags] {
    if (flags->options.runner.model_dir.empty() && !flags->demo) {
      ThrowUsageUnlessOk(InvalidArgument("--model is required (or --demo)"));
    }
    const auto options = ResolveServeOptions(*flags);
    ExitUnlessOk("serve", options.status());
    ExitUnlessOk("serve", Serve(*options, RealClock()));
  });
}

}  // namespace aril
