// What ends completions before their length does: stop strings and stop tokens.

#include <future>
#include <string>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

using CompletionStopTest = GatewayTest;

TEST_F(CompletionStopTest, CutsAtStopStringsAndCancels) {
  Start();
  auto answer = CompleteLater(R"("stop":["END","z"],"max_tokens":30)");
  const auto requests = port_.WaitForRequests(1);
  port_.Emit(requests[0].sequence, "some EN");
  port_.Emit(requests[0].sequence, "END and more");
  EXPECT_THAT(port_.WaitForCancels(1), ElementsAre(requests[0].sequence));
  const Json json = answer.get();
  EXPECT_EQ(Text(json, {"choices", "0", "text"}), R"("some EN")");
  EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), R"("stop")");
  EXPECT_EQ(Text(json, {"usage", "completion_tokens"}), "10");
}

// Nothing that begins before, not even what ends after.
TEST_F(CompletionStopTest, NoStopStringBeginsBeforeMinTokens) {
  Start();
  auto answer = CompleteLater(R"("stop":["ab"],"min_tokens":3,"max_tokens":30)");
  port_.Emit(port_.WaitForRequests(1)[0].sequence, "ababcab");
  const Json json = answer.get();
  EXPECT_EQ(Text(json, {"choices", "0", "text"}), R"("ababc")");
  EXPECT_EQ(Text(json, {"usage", "completion_tokens"}), "7");
}

TEST_F(CompletionStopTest, HoldsBackWhatMayBecomeAStopString) {
  Start();
  RawClient client(server_->port());
  ASSERT_TRUE(client.Send(
      PostText("/v1/completions", Body(R"("stream":true,"stop":"ab","max_tokens":20)"))));
  const SequenceId sequence = port_.WaitForRequests(1)[0].sequence;
  port_.Emit(sequence, "xa");
  port_.Emit(sequence, "c");
  EXPECT_THAT(client.ReadUntil(R"("text":"x")"), Not(HasSubstr(R"("text":"a)")));
  EXPECT_THAT(client.ReadUntil(R"("text":"ac")"), EndsWith(R"("text":"ac")"));
  port_.Emit(sequence, "a", wire::FinishReason::kLength);
  EXPECT_THAT(client.ReadUntil("[DONE]"),
              HasSubstr(R"("text":"a","logprobs":null,"finish_reason":"length")"));
}

TEST_F(CompletionStopTest, LeavesStopTokensOutOfTheText) {
  Start();
  auto answer = CompleteLater(R"("stop_token_ids":[33])");
  const auto requests = port_.WaitForRequests(1);
  EXPECT_THAT(requests[0].stop_token_ids, ElementsAre(33, kEosToken));
  port_.Emit(requests[0].sequence, "so");
  port_.EmitStopToken(requests[0].sequence, 33);
  const Json json = answer.get();
  EXPECT_EQ(Text(json, {"choices"}),
            R"([{"index":0,"text":"so","logprobs":null,"finish_reason":"stop"}])");
  EXPECT_EQ(Text(json, {"usage", "completion_tokens"}), "3");
}

TEST_F(CompletionStopTest, ShowsWhatEndsATextIfAsked) {
  Start();
  constexpr const char* kShown = R"("include_stop_str_in_output":true,)";
  auto answer = CompleteLater(StrCat(kShown, R"("stop":["END"],"max_tokens":30)"));
  auto requests = port_.WaitForRequests(1);
  port_.Emit(requests[0].sequence, "some EN");
  port_.Emit(requests[0].sequence, "END and more");
  Json json = answer.get();
  EXPECT_EQ(Text(json, {"choices", "0", "text"}), R"("some ENEND")");
  EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), R"("stop")");
  answer = CompleteLater(StrCat(kShown, R"("stop_token_ids":[33],"skip_special_tokens":false)"));
  requests = port_.WaitForRequests(2);
  port_.Emit(requests[1].sequence, "so");
  port_.EmitStopToken(requests[1].sequence, 33);
  EXPECT_EQ(Text(answer.get(), {"choices", "0", "text"}), R"("so!")");
  answer = CompleteLater(StrCat(kShown, R"("stop":[])"));
  requests = port_.WaitForRequests(3);
  port_.Emit(requests[2].sequence, "so");
  port_.EmitStopToken(requests[2].sequence, kEosToken);
  EXPECT_EQ(Text(answer.get(), {"choices", "0", "text"}), R"("so")") << "a special token";

  // In a stream what may become it is held back, and comes as a whole.
  auto stream = std::async(std::launch::async, [&] {
    return Stream(StrCat(kShown, R"("stop":"END","max_tokens":30)"));
  });
  port_.Emit(port_.WaitForRequests(4)[3].sequence, "a ENDx");
  std::string texts;
  for (const std::string& event : stream.get()) {
    const auto chunk = Json::Parse(event);
    if (chunk.ok()) texts += Text(*chunk, {"choices", "0", "text"});
  }
  EXPECT_EQ(texts, R"("a"" ""END")");
}

}  // namespace
}  // namespace aril::gateway
