#include "apps/flags.h"

#include <cctype>
#include <charconv>
#include <iostream>

#include "base/units.h"

namespace aril {
std::string EnvironmentName(const CLI::App& app, const std::string& flag) {
  // A command of a command (`aril bench serve`) carries the outer one's name, so that its flags are
  // not taken for those of another.
  const CLI::App* outer = app.get_parent();
  const bool is_nested = outer != nullptr && outer->get_parent() != nullptr;
  std::string name = "aril" + (is_nested ? "-" + outer->get_name() : "") + flag.substr(1);
  for (char& c : name) {
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void ReadVariablesOfTheGivenCommandOnly(CLI::App& app) {
  // A command with a callback of this kind reads them when its own part of the line ends; all
  // others at the end of the whole line, whether they are on it or not.
  for (CLI::App* command : app.get_subcommands({})) {
    command->parse_complete_callback([] {});
    ReadVariablesOfTheGivenCommandOnly(*command);
  }
}

CLI::Option* AddSwitch(CLI::App& app, const std::string& flag, bool& value,
                       const std::string& help) {
  return app.add_flag(flag, value, help)->envname(EnvironmentName(app, flag));
}

CLI::Option* AddOnOffSwitch(CLI::App& app, const std::string& flag, bool& value,
                            const std::string& help) {
  return app.add_flag(flag + ",!--no-" + flag.substr(2), value, help)
      ->envname(EnvironmentName(app, flag));
}

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? std::string("is empty; leave the flag out for none") : std::string();
      },
      "");
}

CLI::Validator AtLeastOne() {
  return {[](std::string& text) {
            int64_t number = 0;
            const char* const end = text.data() + text.size();
            const auto [number_end, error] = std::from_chars(text.data(), end, number);
            const bool is_good = error == std::errc() && number_end == end && number >= 1;
            return is_good ? std::string() : "`" + text + "` is not an integer of at least 1";
          },
          ""};
}

CLI::Option* AddSizeFlag(CLI::App& app, const std::string& flag, std::optional<int64_t>& bytes,
                         const std::string& help) {
  return AddParsedFlag(app, flag, bytes, ParseSizeBytes, help)->type_name("SIZE");
}

CLI::Option* AddDurationFlag(CLI::App& app, const std::string& flag, Duration& duration,
                             const std::string& text_of_default, const std::string& help) {
  return AddParsedFlag(app, flag, duration, ParseDuration, help)
      ->type_name("DURATION")
      ->default_str(text_of_default);
}

CLI::Option* AddDurationFlag(CLI::App& app, const std::string& flag,
                             std::optional<Duration>& duration, const std::string& help) {
  return AddParsedFlag(app, flag, duration, ParseDuration, help)->type_name("DURATION");
}

void ThrowUsageUnlessOk(const Status& status) {
  if (!status.ok()) throw CLI::ValidationError(Message(status));
}

void ExitUnlessOk(const std::string& command, const Status& status) {
  if (status.ok()) return;
  const std::string message = Message(status);
  std::cerr << "aril " << command << ": " << message << std::endl;
  const bool is_usage =
      status.code() == StatusCode::kInvalidArgument && message.compare(0, 2, "--") == 0;
  throw CLI::RuntimeError(is_usage ? kWrongUsage : 1);
}

}  // namespace aril
