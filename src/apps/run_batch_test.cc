#include "apps/run_batch.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/batch_lines.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::string RequestLine(const std::string& id) {
  return StrCat(R"({"custom_id":")", id,
                R"(","method":"POST","url":"/v1/completions","body":{"prompt":")", id, "\"}}\n");
}

class RunBatchTest : public ::testing::Test {
 public:
  ~RunBatchTest() override {
    for (std::thread& thread : threads_) thread.join();
  }

 protected:
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::vector<std::string> OutputLines() {
    std::ifstream in(output_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
  }
  StatusOr<BatchCounts> Run(const AskFunction& ask, bool resumes = false) {
    ASSIGN_OR_RETURN(BatchFiles files, BatchFiles::Open(input_, output_, resumes));
    std::ostringstream progress;
    return RunBatch(std::move(files), {.max_in_flight = 3, .pause = Duration::zero()}, ask, clock_,
                    progress);
  }
  // Each on a thread of its own, with what they ask for.
  AskFunction Answering(int status = 200) {
    return [this, status](gateway::HttpRequest request,
                          std::shared_ptr<gateway::HttpResponder> responder) {
      const std::lock_guard lock(mutex_);
      asked_.push_back(request.body);
      threads_.emplace_back([=, body = request.body] {
        responder->Respond(
            {.status = status,
             .body = StrCat(R"({"usage":{"completion_tokens":2},"of":)", body, "}")});
      });
    };
  }
  const TestDir dir_;
  std::string input_ = dir_ / "in.jsonl";
  std::string output_ = dir_ / "out.jsonl";
  RealClock clock_;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  bool is_busy_ = false;
  std::vector<std::thread> threads_;
};

TEST_F(RunBatchTest, SaysWhatBecameOfEachLine) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += RequestLine(StrCat(i));
  Write(input_, text + "nonsense\n" + RequestLine("7") + RequestLine("last"));
  const auto counts = Run(Answering());
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_answered, 21);
  EXPECT_EQ(counts->num_failed, 2);
  EXPECT_EQ(counts->num_tokens, 42);
  const auto lines = OutputLines();
  ASSERT_THAT(lines, SizeIs(23));
  std::set<std::string> ids;
  for (const std::string& line : lines) {
    const auto outcome = ReadOutcome(line);
    ASSERT_TRUE(outcome.has_value()) << line;
    if (outcome->is_answered) {
      ids.insert(outcome->custom_id);
      EXPECT_THAT(line, HasSubstr(StrCat(R"("of":{"prompt":")", outcome->custom_id, "\"}")));
    } else {
      EXPECT_EQ(outcome->custom_id, "");
      EXPECT_THAT(line, AnyOf(HasSubstr("line 21: "),
                              HasSubstr(R"(line 22: `custom_id` \"7\" is that of a line before)")));
    }
  }
  EXPECT_THAT(ids, SizeIs(21));
}

TEST_F(RunBatchTest, AsksNoMoreAtATimeThanItMay) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += RequestLine(StrCat(i));
  Write(input_, text);
  std::vector<std::shared_ptr<gateway::HttpResponder>> waiting;
  size_t most = 0;
  const auto counts = Run([&](const gateway::HttpRequest&, auto responder) {
    waiting.push_back(std::move(responder));
    most = std::max(most, waiting.size());
    if (waiting.size() < 3 && asked_.size() < 27) {
      asked_.emplace_back();
      return;
    }
    for (const auto& one : waiting) one->Respond({.body = "{}"});
    waiting.clear();
  });
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_answered, 30);
  EXPECT_EQ(most, 3u);
}

// As many tries as it takes while others are in work, which make room.
TEST_F(RunBatchTest, AsksAgainWhatThereIsNoRoomFor) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += RequestLine(StrCat(i));
  Write(input_, text);
  int num_refused = 0;
  const auto counts = Run([&](const gateway::HttpRequest&, auto responder) {
    const std::lock_guard lock(mutex_);
    // Room for one, which takes its time.
    if (is_busy_) {
      ++num_refused;
      return responder->Respond({.status = num_refused % 2 == 0 ? 503 : 429, .body = "{}"});
    }
    is_busy_ = true;
    threads_.emplace_back([this, responder = std::move(responder)] {
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      {
        const std::lock_guard again(mutex_);
        is_busy_ = false;
      }
      responder->Respond({.body = "{}"});
    });
  });
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_answered, 40);
}

TEST_F(RunBatchTest, TellsInTheEndThatThereIsNoRoom) {
  Write(input_, RequestLine("a") + RequestLine("b"));
  int num_asked = 0;
  const auto never = Run([&](const gateway::HttpRequest&, auto responder) {
    ++num_asked;
    responder->Respond({.status = 429, .body = "{}"});
  });
  ASSERT_TRUE(never.ok()) << never.status();
  EXPECT_EQ(never->num_failed, 2);
  EXPECT_EQ(num_asked, 16);
}

TEST_F(RunBatchTest, TellsOfRequestsThatAreDropped) {
  Write(input_, RequestLine("a"));
  EXPECT_EQ(Run([](const gateway::HttpRequest&, const auto&) {})->num_failed, 1);
  EXPECT_THAT(OutputLines().at(0), HasSubstr(R"("status_code":500)"));
}

TEST_F(RunBatchTest, GoesOnWithWhatIsThere) {
  Write(input_, RequestLine("a") + RequestLine("b") + RequestLine("c"));
  const std::string first = AnswerLine({.line = 1, .custom_id = "a"}, "1", 200, "{}");
  const std::string failed = AnswerLine({.line = 2, .custom_id = "b"}, "2", 500, "{}");
  const std::string torn = AnswerLine({.line = 3, .custom_id = "c"}, "3", 200, "{}");
  Write(output_, first + failed + torn.substr(0, torn.size() - 1));
  EXPECT_THAT(Message(Run(Answering()).status()), HasSubstr("is there already: give --resume"));
  const auto counts = Run(Answering(), /*resumes=*/true);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_skipped, 1);
  EXPECT_EQ(counts->num_answered, 2);
  EXPECT_THAT(asked_, UnorderedElementsAre(R"({"prompt":"b"})", R"({"prompt":"c"})"));
  EXPECT_THAT(OutputLines(), SizeIs(4));
  EXPECT_EQ(Run(Answering(), /*resumes=*/true)->num_skipped, 3);
}

TEST_F(RunBatchTest, RefusesFilesThatAreNone) {
  EXPECT_THAT(Message(Run(Answering()).status()), HasSubstr("--input-file: "));
  Write(input_, "");
  EXPECT_EQ(Run(Answering())->num_answered, 0);
  const std::string notes = "buy milk\nand";
  Write(output_, notes);
  EXPECT_THAT(Message(Run(Answering(), /*resumes=*/true).status()),
              HasSubstr("is no output of this command"));
  EXPECT_EQ(std::filesystem::file_size(output_), notes.size());
  output_ = input_;
  EXPECT_THAT(Message(Run(Answering(), /*resumes=*/true).status()), HasSubstr("is the input"));
  output_ = dir_ / "none/out.jsonl";
  EXPECT_THAT(Message(Run(Answering()).status()), HasSubstr("--output-file: "));
  input_ = dir_.path();
  EXPECT_THAT(Message(Run(Answering()).status()), HasSubstr("cannot be read"));
}

TEST_F(RunBatchTest, ReadsPipes) {
  ASSERT_EQ(mkfifo(input_.c_str(), 0600), 0);
  std::thread writer([&] { Write(input_, RequestLine("a") + RequestLine("b")); });
  const auto counts = Run(Answering());
  writer.join();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_answered, 2);
}

// What has been asked is waited for.
TEST_F(RunBatchTest, EndsWhereTheOutputIsFull) {
  output_ = "/dev/full";
  std::string text;
  for (int i = 0; i < 30; ++i) text += RequestLine(StrCat(i));
  Write(input_, text);
  const auto counts = Run(Answering());
  EXPECT_EQ(counts.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(counts.status()), HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace aril
