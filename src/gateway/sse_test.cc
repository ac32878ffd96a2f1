#include "gateway/sse.h"

#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

TEST(Sse, FramesOneLineOfData) { EXPECT_EQ(SseEvent("{\"a\":1}"), "data: {\"a\":1}\n\n"); }

TEST(Sse, FramesTypes) { EXPECT_EQ(SseEvent("a.b", "{}"), "event: a.b\ndata: {}\n\n"); }

TEST(Sse, ReadsEventsHoweverTheyAreCut) {
  const std::string stream = std::string(kSseHeartbeat) + SseEvent("one") +
                             "event: x\r\ndata:two\r\n\r\n: more\n\ndata: a\ndata: b\n\n" +
                             std::string(kSseDone) + "data: unfinished";
  for (size_t piece_bytes = 1; piece_bytes <= stream.size(); ++piece_bytes) {
    SseReader reader;
    std::string events;
    for (size_t i = 0; i < stream.size(); i += piece_bytes) {
      reader.Append(std::string_view(stream).substr(i, piece_bytes));
      while (const auto event = reader.Next()) events += "[" + *event + "]";
    }
    EXPECT_EQ(events, "[one][two][a\nb][[DONE]]") << piece_bytes;
  }
}

}  // namespace
}  // namespace aril::gateway
