#include "apps/flags.h"

#include <cstdlib>

#include "apps/commands.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

TEST(Flags, HaveEnvironmentVariables) {
  CLI::App app("", "aril");
  CLI::App* serve = app.add_subcommand("serve");
  CLI::App* bench_serve = app.add_subcommand("bench")->add_subcommand("serve");
  EXPECT_EQ(EnvironmentName(*serve, "--pool-bytes"), "ARIL_POOL_BYTES");
  EXPECT_EQ(EnvironmentName(*bench_serve, "--url"), "ARIL_BENCH_URL");
}

TEST(Flags, ReadVariablesOfTheGivenCommandOnly) {
  CLI::App app("", "aril");
  std::string folder;
  int number = 0, nested = 0;
  AddFlag(*app.add_subcommand("serve"), "--test", folder, "");
  AddFlag(*app.add_subcommand("simulate"), "--test", number, "")->check(CLI::Range(1, 9));
  AddFlag(*app.add_subcommand("bench")->add_subcommand("serve"), "--test", nested, "");
  ReadVariablesOfTheGivenCommandOnly(app);
  setenv("ARIL_TEST", "/some/where", 1);
  setenv("ARIL_BENCH_TEST", "3", 1);
  app.parse("serve");
  EXPECT_EQ(folder, "/some/where");
  EXPECT_EQ(nested, 0);
  app.parse("bench serve");
  EXPECT_EQ(nested, 3);
  EXPECT_THROW(app.parse("simulate"), CLI::ParseError);
  unsetenv("ARIL_TEST");
  unsetenv("ARIL_BENCH_TEST");
}

TEST(Flags, ReadSizesAndDurationsFromEitherPlace) {
  std::optional<int64_t> bytes;
  Duration duration{};
  CLI::App app;
  AddSizeFlag(app, "--test-bytes", bytes, "");
  AddDurationFlag(app, "--test-time", duration, "1s", "");
  setenv("ARIL_TEST_TIME", "20ms", 1);
  app.parse("--test-bytes 2KiB");
  EXPECT_EQ(bytes, 2048);
  EXPECT_EQ(duration, std::chrono::milliseconds(20));
  app.parse("--test-time 3s");
  EXPECT_EQ(duration, std::chrono::seconds(3));
  unsetenv("ARIL_TEST_TIME");
  EXPECT_THROW(app.parse("--test-bytes many"), CLI::ValidationError);
  EXPECT_THROW(app.parse("--test-time 3"), CLI::ValidationError);
}

TEST(Flags, SwitchOnAndOff) {
  bool value = true;
  CLI::App app("", "aril");
  CLI::App* serve = app.add_subcommand("serve");
  AddOnOffSwitch(*serve, "--enable-test", value, "");
  const auto parse = [&](const std::string& line) {
    value = true;
    app.parse(line);
    return value;
  };
  EXPECT_TRUE(parse("serve"));
  EXPECT_TRUE(parse("serve --enable-test"));
  EXPECT_FALSE(parse("serve --no-enable-test"));
  setenv("ARIL_ENABLE_TEST", "false", 1);
  EXPECT_FALSE(parse("serve"));
  EXPECT_TRUE(parse("serve --enable-test"));
  unsetenv("ARIL_ENABLE_TEST");
}

TEST(Flags, KnowAtLeastOne) {
  const CLI::Validator at_least_one = AtLeastOne();
  for (std::string text : {"1", "4096"}) EXPECT_EQ(at_least_one(text), "");
  for (std::string text : {"0", "-1", "1.5", "x", "", "1e3", "99999999999999999999"}) {
    EXPECT_EQ(at_least_one(text), "`" + text + "` is not an integer of at least 1");
  }
}

// Every flag of the subcommands of `app` has a variable of its own name and a line of help.
void CheckFlags(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name() == "--help") continue;
    EXPECT_FALSE(option->get_description().empty()) << option->get_name();
    EXPECT_EQ(option->get_envname(), EnvironmentName(app, option->get_name())) << app.get_name();
  }
}

TEST(Flags, AreCompleteForServeAndBench) {
  CLI::App app;
  AddServeCommand(app);
  AddBenchCommand(app);
  CheckFlags(*app.get_subcommand("serve"));
  CheckFlags(*app.get_subcommand("bench")->get_subcommand("serve"));
}

}  // namespace
}  // namespace aril
