// The subcommands of `aril`. Each adds itself, its flags and its callback to the command line.

#ifndef ARIL_APPS_COMMANDS_H_
#define ARIL_APPS_COMMANDS_H_

#include "CLI/CLI.hpp"

namespace aril {

void AddServeCommand(CLI::App& app);
void AddSchedulerCommand(CLI::App& app);
void AddRunnerCommand(CLI::App& app);
void AddRunBatchCommand(CLI::App& app);
void AddGatewayCommand(CLI::App& app);
void AddSynthCommand(CLI::App& app);
void AddAdapterCommand(CLI::App& app);
void AddBenchCommand(CLI::App& app);
void AddSimulateCommand(CLI::App& app);
void AddTopCommand(CLI::App& app);

}  // namespace aril

#endif  // ARIL_APPS_COMMANDS_H_
