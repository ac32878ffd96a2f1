// The flags of `aril adapter`.

#include <iostream>
#include <memory>

#include "apps/adapter_inspect.h"
#include "apps/commands.h"
#include "apps/flags.h"

namespace aril {

void AddAdapterCommand(CLI::App& app) {
  CLI::App* adapter = app.add_subcommand("adapter", "Look at adapters");
  adapter->require_subcommand(1);
  CLI::App* inspect = adapter->add_subcommand(
      "inspect", "Print what an adapter is, whether it fits a base model, and why not");
  auto options = std::make_shared<AdapterInspectOptions>();
  inspect->add_option("dir", options->adapter_dir, "Folder of the adapter (PEFT layout)")
      ->required();
  inspect->add_option("--model", options->model_dir, "Folder of the base model");
  inspect->callback(
      [options] { ExitUnlessOk("adapter inspect", InspectAdapter(*options, std::cout)); });
}

}  // namespace aril
