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

// Gives the name `a` to an adapter, and forgets what it stood for before.
Status Put(const StateDir& state, GenerationStore::Incoming incoming) {
  const std::string digest = incoming.digest();
  RETURN_IF_ERROR(state.store.Keep(std::move(incoming)));
  ASSIGN_OR_RETURN(
      const std::vector<std::string> forgotten,
      state.registry->Put({.name = "a", .history = {{.digest = digest, .since_unix = 1}}}));
  for (const std::string& old : forgotten) RETURN_IF_ERROR(state.store.Remove(old));
  return OkStatus();
}

// To the adapter in a folder.
Status Register(const std::string& state_dir, const std::string& source) {
  ASSIGN_OR_RETURN(const StateDir state, OpenStateDir(state_dir, "base"));
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, state.store.Copy(source));
  return Put(state, std::move(incoming));
}

// To the same, as a client sends it or a source has it.
Status Receive(const std::string& state_dir, const std::string& source) {
  ASSIGN_OR_RETURN(const StateDir state, OpenStateDir(state_dir, "base"));
  ASSIGN_OR_RETURN(GenerationStore::Incoming incoming, state.store.Begin());
  for (const auto& file : fs::directory_iterator(source)) {
    fs::copy_file(file, fs::path(incoming.dir()) / file.path().filename());
  }
  RETURN_IF_ERROR(GenerationStore::Seal(&incoming));
  return Put(state, std::move(incoming));
}

Status Remove(const std::string& state_dir) {
  ASSIGN_OR_RETURN(const StateDir state, OpenStateDir(state_dir, "base"));
  ASSIGN_OR_RETURN(const std::vector<std::string> forgotten, state.registry->Remove("", "a"));
  for (const std::string& old : forgotten) RETURN_IF_ERROR(state.store.Remove(old));
  return OkStatus();
}

// What `a` stands for after a start, "" if there is no such name, once everything else has been
// found in order: what no name stands for is gone.
std::string Recover(const std::string& state_dir) {
  const auto state = OpenStateDir(state_dir, "base");
  if (!state.ok()) return "not opened: " + Message(state.status());
  const auto adapters = state->registry->List();
  if (!adapters.ok() || adapters->size() > 1) return "not listed";
  if (adapters->empty()) {
    EXPECT_TRUE(fs::is_empty(state_dir + "/adapters"));
    return "";
  }
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

class StateDirCrash : public testing::Test {
 protected:
  StateDirCrash() {
    for (const char* version : {"old", "new"}) {
      dir_.Write(std::string(version) + "/adapter_config.json", "{}");
      dir_.Write(std::string(version) + "/adapter_model.safetensors", version);
    }
  }
  std::string DigestOf(const std::string& version) { return *DigestOfAdapter(dir_ / version); }

  // Makes a change from the same beginning again and again, killed one system call later each time;
  // `after`: what `a` stands for when it was not killed.
  template <typename Change>
  void KillAtEveryCall(const Change& change, const std::string& after) {
    const std::string before = DigestOf("old");
    ASSERT_TRUE(Register(dir_ / "before", dir_ / "old").ok());
    bool seen_old = false;
    bool seen_new_after_kill = false;
    int call = 0;
    for (End end = End::kKilled; end == End::kKilled; ++call) {
      fs::remove_all(state_dir_);
      fs::copy(dir_ / "before", state_dir_, fs::copy_options::recursive);
      end = RunUntil(call, [&] { return change().ok(); });
      if (end == End::kCannotTrace) GTEST_SKIP() << "processes cannot be traced here";
      const std::string now = Recover(state_dir_);
      const bool may_be_old = end == End::kKilled;
      ASSERT_TRUE(now == after || (may_be_old && now == before)) << "call " << call << ": " << now;
      seen_old |= now == before;
      seen_new_after_kill |= end == End::kKilled && now == after;
    }
    EXPECT_TRUE(seen_old && seen_new_after_kill);
    RecordProperty("system_calls", call);
  }

  const TestDir dir_;
  const std::string state_dir_ = dir_ / "state";
};

TEST_F(StateDirCrash, AFolderIsRegisteredOrNot) {
  KillAtEveryCall([&] { return Register(state_dir_, dir_ / "new"); }, DigestOf("new"));
}

TEST_F(StateDirCrash, WhatIsSentOrFetchedIsRegisteredOrNot) {
  KillAtEveryCall([&] { return Receive(state_dir_, dir_ / "new"); }, DigestOf("new"));
}

TEST_F(StateDirCrash, ANameIsRemovedOrNot) {
  KillAtEveryCall([&] { return Remove(state_dir_); }, "");
}

}  // namespace
}  // namespace aril
