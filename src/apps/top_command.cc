// The flags of `aril top`.

#include <iostream>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/top.h"

namespace aril {

void AddTopCommand(CLI::App& app) {
  struct Flags {
    TopOptions options;
    std::string url = "http://127.0.0.1:8000";
  };
  CLI::App* top = app.add_subcommand(
      "top", "Show what a server is doing: sequences of each adapter, batches, tokens, pages");
  auto flags = std::make_shared<Flags>();
  flags->options.server.timeout = std::chrono::seconds(5);
  AddFlag(*top, "--url", flags->url, "Where the server is");
  AddFlag(*top, "--api-key", flags->options.server.api_key, "Key that the requests carry");
  AddDurationFlag(*top, "--interval", flags->options.interval, "1s", "Time between two looks");
  AddFlag(*top, "--iterations", flags->options.iterations, "End after so many looks [never]")
      ->check(AtLeastOne())
      ->default_str("");
  top->callback([flags] {
    auto url = gateway::ParseHttpUrl(flags->url);
    if (!url.ok()) ThrowUsageUnlessOk(InvalidArgument("--url: " + Message(url.status())));
    flags->options.server.url = *std::move(url);
    if (flags->options.interval <= Duration::zero()) {
      ThrowUsageUnlessOk(InvalidArgument("--interval is 0; give for example 1s"));
    }
    ExitUnlessOk("top", Top(flags->options, std::cout, RealClock()));
  });
}

}  // namespace aril
