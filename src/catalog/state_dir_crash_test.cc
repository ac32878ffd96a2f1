// kill -9 at every system call of a registration leaves the old state or the new one.

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/test_dir.h"
#include "catalog/state_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;

// Gives the name `a` to the adapter in `source`, and forgets what it stood for before.
Status Register(const std::string& state_dir, const std::string& source) {
  ASSIGN_OR_RETURN(const StateDir state, OpenStateDir(state_dir, "base"));
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, state.store.Copy(source));
  const std::string digest = incoming.digest();
  RETURN_IF_ERROR(state.store.Keep(std::move(incoming)));
  ASSIGN_OR_RETURN(
      const std::vector<std::string> forgotten,
      state.registry->Put({.name = "a", .history = {{.digest = digest, .since_unix = 1}}}));
  for (const std::string& old : forgotten) RETURN_IF_ERROR(state.store.Remove(old));
  return OkStatus();
}

// What `a` stands for after a start, once everything else has been found in order.
std::string Recover(const std::string& state_dir) {
  const auto state = OpenStateDir(state_dir, "base");
  if (!state.ok()) return "not opened: " + Message(state.status());
  const auto adapters = state->registry->List();
  if (!adapters.ok() || adapters->size() != 1) return "not listed";
  std::string digest = adapters->front().history.back().digest;
  EXPECT_THAT(*state->store.List(), testing::ElementsAre(digest));
  EXPECT_EQ(*DigestOfAdapter(state->store.DirOf(digest)), digest);
  EXPECT_EQ(std::distance(fs::directory_iterator(state_dir + "/adapters"), {}), 1);
  return digest;
}

enum class End { kExited, kKilled, kCannotTrace };

// Runs `function` in a process that is killed when it is about to make its system call number
// `last_call`, counted from 0.
template <typename Function>
End RunUntil(int last_call, const Function& function) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
    raise(SIGSTOP);
    _exit(function() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) return End::kCannotTrace;
  // Stops before and after each call.
  for (int stop = 0; stop <= 2 * last_call; ++stop) {
    EXPECT_EQ(ptrace(PTRACE_SYSCALL, child, nullptr, nullptr), 0);
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      return End::kExited;
    }
  }
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return End::kKilled;
}

TEST(StateDirCrash, KilledAtAnySystemCallItHoldsTheOldOrTheNew) {
  const TestDir dir;
  for (const char* version : {"old", "new"}) {
    dir.Write(std::string(version) + "/adapter_config.json", "{}");
    dir.Write(std::string(version) + "/adapter_model.safetensors", version);
  }
  const std::string old_digest = *DigestOfAdapter(dir / "old");
  const std::string new_digest = *DigestOfAdapter(dir / "new");
  const std::string state_dir = dir / "state";
  const std::string before = dir / "before";
  ASSERT_TRUE(Register(before, dir / "old").ok());
  bool seen_old = false;
  bool seen_new_after_kill = false;
  int call = 0;
  for (End end = End::kKilled; end == End::kKilled; ++call) {
    fs::remove_all(state_dir);
    fs::copy(before, state_dir, fs::copy_options::recursive);
    end = RunUntil(call, [&] { return Register(state_dir, dir / "new").ok(); });
    if (end == End::kCannotTrace) GTEST_SKIP() << "processes cannot be traced here";
    const std::string digest = Recover(state_dir);
    if (end == End::kExited) {
      ASSERT_EQ(digest, new_digest);
    } else {
      ASSERT_TRUE(digest == old_digest || digest == new_digest)
          << "call " << call << ": " << digest;
    }
    seen_old |= digest == old_digest;
    seen_new_after_kill |= end == End::kKilled && digest == new_digest;
  }
  EXPECT_TRUE(seen_old && seen_new_after_kill);
  RecordProperty("system_calls", call);
}

}  // namespace
}  // namespace aril
