// The `aril` command. Exit codes: 0 fine, 1 failed, 2 wrong usage.

#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/flags.h"

namespace {

// CLI11's own exit codes say which of its checks failed; ours only that one did.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  const int code = app.exit(error);
  const bool is_usage_error =
      code != 0 && dynamic_cast<const CLI::RuntimeError*>(&error) == nullptr;
  return is_usage_error ? aril::kWrongUsage : code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Aril serves many LoRA adapters from one copy of their base model.", "aril");
  app.set_version_flag("--version", "aril " ARIL_VERSION);
  app.require_subcommand(1);
  aril::AddServeCommand(app);
  aril::AddRunBatchCommand(app);
  aril::AddGatewayCommand(app);
  aril::AddSchedulerCommand(app);
  aril::AddRunnerCommand(app);
  aril::AddSynthCommand(app);
  aril::AddAdapterCommand(app);
  aril::AddBenchCommand(app);
  aril::AddSimulateCommand(app);
  aril::AddTopCommand(app);
  app.add_subcommand("version", "Print the version")->callback([] {
    std::cout << "aril " ARIL_VERSION << std::endl;
  });
  aril::ReadVariablesOfTheGivenCommandOnly(app);
  // CLI11 would only say that there is none.
  const std::vector<CLI::App*> commands = app.get_subcommands(nullptr);
  const std::string command = argc > 1 ? argv[1] : "-";
  const auto is_it = [&](const CLI::App* known) { return known->check_name(command); };
  if (command.compare(0, 1, "-") != 0 && std::ranges::none_of(commands, is_it)) {
    std::cerr << "aril: there is no command `" << command << "`; `aril --help` lists them\n";
    return aril::kWrongUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error);
  } catch (const std::exception& error) {
    std::cerr << "aril: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
