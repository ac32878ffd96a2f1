// `aril bench` on the command line.

#include <memory>

#include "apps/bench_flags.h"
#include "apps/commands.h"
#include "apps/flags.h"

namespace aril {

void AddBenchCommand(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure");
  bench->require_subcommand(1);
  CLI::App* serve = bench->add_subcommand("serve", "Measure a server under load, over HTTP");
  auto flags = std::make_shared<BenchFlags>();
  AddBenchFlags(*serve, *flags);
  serve->callback([flags] {
    auto options = ResolveBenchFlags(*flags);
    ThrowUsageUnlessOk(options.status());
    ExitUnlessOk("bench serve", LoadBenchTrace(*flags, &*options));
    ThrowUsageUnlessOk(CheckBenchSweep(*options));
    ExitUnlessOk("bench serve", BenchServe(*options, RealClock()));
  });
}

}  // namespace aril
