// What the subcommands' flags have in common.

#ifndef ARIL_APPS_FLAGS_H_
#define ARIL_APPS_FLAGS_H_

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

// The environment variable of a flag of the command `app`: "ARIL_POOL_BYTES" for `aril serve
// --pool-bytes`, "ARIL_BENCH_URL" for `aril bench serve --url`. The command line wins over it.
std::string EnvironmentName(const CLI::App& app, const std::string& flag);

// Makes the variables of a command's flags count only where that command is the one given, for all
// commands beneath `app`, which has them by now. CLI11 reads those of every command: ARIL_ADAPTERS
// of `aril serve`, a folder, would be wrong usage of `aril simulate --adapters`, a number.
void ReadVariablesOfTheGivenCommandOnly(CLI::App& app);

// CLI11's add_option with the flag's environment variable, and the default shown in --help.
template <typename T>
CLI::Option* AddFlag(CLI::App& app, const std::string& flag, T& value, const std::string& help) {
  return app.add_option(flag, value, help)
      ->envname(EnvironmentName(app, flag))
      ->capture_default_str();
}
// A flag whose text `parse` turns into a value, or into what is wrong with it.
template <typename T, typename Parse>
CLI::Option* AddParsedFlag(CLI::App& app, const std::string& flag, T& value, const Parse& parse,
                           const std::string& help) {
  return app
      .add_option_function<std::string>(
          flag,
          [flag, &value, parse](const std::string& text) {
            const auto parsed = parse(text);
            if (!parsed.ok()) throw CLI::ValidationError(flag, Message(parsed.status()));
            value = *parsed;
          },
          help)
      ->envname(EnvironmentName(app, flag));
}
CLI::Option* AddSwitch(CLI::App& app, const std::string& flag, bool& value,
                       const std::string& help);
// A switch with a second flag that turns it off, as vLLM has them: "--enable-x" and
// "--no-enable-x".
CLI::Option* AddOnOffSwitch(CLI::App& app, const std::string& flag, bool& value,
                            const std::string& help);
// Wrong usage unless the text is an integer of at least 1. (CLI::PositiveNumber spells the largest
// double out.)
CLI::Validator AtLeastOne();
// Wrong usage if the text is empty: what a variable of a shell gives that is not set.
CLI::Validator NotEmpty();
// "4GiB" (base/units.h). Wrong usage if the text is none.
CLI::Option* AddSizeFlag(CLI::App& app, const std::string& flag, std::optional<int64_t>& bytes,
                         const std::string& help);
// "30s". `text_of_default` is shown in --help.
CLI::Option* AddDurationFlag(CLI::App& app, const std::string& flag, Duration& duration,
                             const std::string& text_of_default, const std::string& help);
CLI::Option* AddDurationFlag(CLI::App& app, const std::string& flag,
                             std::optional<Duration>& duration, const std::string& help);

// Wrong usage, with the status' message, unless it is OK: for what only several flags together say.
void ThrowUsageUnlessOk(const Status& status);

// What `aril` exits with if its command line is wrong.
inline constexpr int kWrongUsage = 2;

// Prints "aril COMMAND: message" and makes `aril` exit with 1, unless the status is OK. Messages
// say what to do. InvalidArgument whose message begins with a flag is wrong usage.
void ExitUnlessOk(const std::string& command, const Status& status);

}  // namespace aril

#endif  // ARIL_APPS_FLAGS_H_
