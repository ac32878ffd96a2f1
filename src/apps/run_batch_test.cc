#include "apps/run_batch.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/batch_lines.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

std::string RequestLine(const std::string& id) {
  return StrCat(R"({"custom_id":")", id,
                R"(","method":"POST","url":"/v1/completions","body":{"prompt":")", id, "\"}}\n");
}

class RunBatchTest : public ::testing::Test {
 protected:
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  std::vector<std::string> OutputLines() {
    std::ifstream in(options_.output);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    std::ranges::sort(lines);
    return lines;
  }
  StatusOr<BatchCounts> Run(const AskFunction& ask) {
    std::ostringstream progress;
    return RunBatch(options_, ask, clock_, progress);
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
  ~RunBatchTest() override {
    for (std::thread& thread : threads_) thread.join();
  }

  const TestDir dir_;
  BatchOptions options_ = {.input = dir_.path() + "/in.jsonl",
                           .output = dir_.path() + "/out.jsonl",
                           .max_in_flight = 3,
                           .retry_after = Duration::zero()};
  RealClock clock_;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::vector<std::thread> threads_;
};

TEST_F(RunBatchTest, SaysWhatBecameOfEachLine) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += RequestLine(StrCat(i));
  Write(options_.input, text + "nonsense\n" + RequestLine("7") + RequestLine("last"));
  const auto counts = Run(Answering());
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_answered, 21);
  EXPECT_EQ(counts->num_failed, 2);
  EXPECT_EQ(counts->num_tokens, 42);
  const auto lines = OutputLines();
  ASSERT_THAT(lines, SizeIs(23));
  std::set<std::string> ids;
  for (const std::string& line : lines) {
    if (const auto id = AnsweredId(line)) {
      ids.insert(*id);
      EXPECT_THAT(line, HasSubstr(StrCat(R"("of":{"prompt":")", *id, "\"}")));
    } else {
      EXPECT_TRUE(line.find("line 21: ") != std::string::npos ||
                  line.find("line 22: `custom_id` is that of a line before") != std::string::npos);
    }
  }
  EXPECT_THAT(ids, SizeIs(21));
}

TEST_F(RunBatchTest, AsksNoMoreAtATimeThanItMay) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += RequestLine(StrCat(i));
  Write(options_.input, text);
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

TEST_F(RunBatchTest, AsksAgainWhatThereWasNoRoomFor) {
  Write(options_.input, RequestLine("a") + RequestLine("b"));
  int num_asked = 0;
  const auto counts = Run([&](const gateway::HttpRequest&, auto responder) {
    responder->Respond({.status = ++num_asked % 2 == 1 ? 503 : 200, .body = "{}"});
  });
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_answered, 2);
  EXPECT_EQ(num_asked, 4);
  std::filesystem::remove(options_.output);
  num_asked = 0;
  const auto never = Run([&](const gateway::HttpRequest&, auto responder) {
    ++num_asked;
    responder->Respond({.status = 429, .body = "{}"});
  });
  ASSERT_TRUE(never.ok()) << never.status();
  EXPECT_EQ(never->num_failed, 2);
  EXPECT_EQ(num_asked, 16) << "in the end it is told";
}

TEST_F(RunBatchTest, GoesOnWithWhatIsThere) {
  Write(options_.input, RequestLine("a") + RequestLine("b") + RequestLine("c"));
  const std::string first = AnswerLine({.line = 1, .custom_id = "a"}, 200, "{}");
  const std::string failed = AnswerLine({.line = 2, .custom_id = "b"}, 500, "{}");
  const std::string torn = AnswerLine({.line = 3, .custom_id = "c"}, 200, "{}");
  Write(options_.output, first + failed + torn.substr(0, torn.size() - 1));
  EXPECT_THAT(Message(Run(Answering()).status()), HasSubstr("is there already: give --resume"));
  options_.resumes = true;
  const auto counts = Run(Answering());
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->num_skipped, 1);
  EXPECT_EQ(counts->num_answered, 2);
  EXPECT_THAT(asked_, UnorderedElementsAre(R"({"prompt":"b"})", R"({"prompt":"c"})"));
  EXPECT_THAT(OutputLines(), SizeIs(4));
  EXPECT_EQ(Run(Answering())->num_skipped, 3);
}

TEST_F(RunBatchTest, RefusesFilesThatAreNone) {
  EXPECT_THAT(Message(Run(Answering()).status()), HasSubstr("--input-file: "));
  Write(options_.input, "");
  EXPECT_EQ(Run(Answering())->num_answered, 0);
  options_.output = dir_.path() + "/none/out.jsonl";
  EXPECT_THAT(Message(Run(Answering()).status()), HasSubstr("--output-file: "));
  options_.input = dir_.path();
  EXPECT_THAT(Message(Run(Answering()).status()), HasSubstr("cannot be read"));
}

// What has been asked is waited for.
TEST_F(RunBatchTest, EndsWhereTheOutputIsFull) {
  options_.output = "/dev/full";
  std::string text;
  for (int i = 0; i < 30; ++i) text += RequestLine(StrCat(i));
  Write(options_.input, text);
  const auto counts = Run(Answering());
  EXPECT_EQ(counts.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(counts.status()), HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace aril
