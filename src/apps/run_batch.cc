#include "apps/run_batch.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "apps/batch_lines.h"
#include "apps/progress.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

using gateway::HttpRequest;
using gateway::HttpResponder;
using gateway::HttpResponse;

// How often a request is asked that a server, or one tenant's share of it, is too busy for.
constexpr int kMaxTries = 8;

struct Asked {
  BatchRequest request;
  int num_tries = 0;
};

// The answer to one request, whole.
class WholeAnswer final : public HttpResponder {
 public:
  explicit WholeAnswer(std::function<void(HttpResponse)> take) : take_(std::move(take)) {}

  void Respond(HttpResponse response) override { take_(std::move(response)); }
  // Nobody asks for a stream; if one came, it would be shown as it is.
  void StartStream(HttpResponse head, std::string) override { stream_ = std::move(head); }
  void Write(std::string_view bytes) override { stream_.body += bytes; }
  void Finish() override {
    stream_.body = JsonQuote(stream_.body);
    take_(std::move(stream_));
  }
  void OnDisconnect(std::function<void()>) override {}

 private:
  const std::function<void(HttpResponse)> take_;
  HttpResponse stream_;
};

// What an answer's usage says of its own tokens; 0 if nothing.
int64_t NumTokensOf(const std::string& body) {
  const auto json = Json::Parse(body);
  const Json* usage = json.ok() ? json->Find("usage") : nullptr;
  if (usage == nullptr) return 0;
  for (const char* name : {"completion_tokens", "output_tokens"}) {
    const Json* tokens = usage->Find(name);
    if (tokens != nullptr && tokens->AsInt() != nullptr) return *tokens->AsInt();
  }
  return 0;
}

uint64_t CountLines(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  // The last one may have no end.
  uint64_t count = 0;
  char last = '\n';
  for (std::istreambuf_iterator<char> c(in), end; c != end; ++c) {
    last = *c;
    count += last == '\n' ? 1 : 0;
  }
  return count + (last == '\n' ? 0 : 1);
}

// What the output has answers to. A line that was not written to its end is cut off.
StatusOr<std::set<std::string>> ReadAnswered(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::set<std::string> answered;
  uintmax_t num_whole_bytes = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    num_whole_bytes += line.size() + 1;
    if (auto id = AnsweredId(line)) answered.insert(*std::move(id));
  }
  std::error_code error;
  std::filesystem::resize_file(path, num_whole_bytes, error);
  if (!error) return answered;
  return InvalidArgument(StrCat("--output-file: ", path, ": ", error.message()));
}

class Batch {
 public:
  Batch(const BatchOptions& options, const AskFunction& ask, std::set<std::string> answered,
        std::ofstream output, Progress& progress)
      : options_(options),
        ask_(ask),
        answered_(std::move(answered)),
        output_(std::move(output)),
        progress_(progress) {}

  StatusOr<BatchCounts> Run(std::istream& in) {
    BatchReader reader(in, options_.max_line_bytes);
    for (bool is_over = false; true;) {
      if (auto again = WaitForRoom(&is_over)) {
        Ask(std::make_shared<Asked>(*std::move(again)));
      } else if (is_over) {
        break;
      } else if (auto request = reader.Next()) {
        if (IsToBeAsked(&*request)) {
          Ask(std::make_shared<Asked>(Asked{.request = *std::move(request)}));
        }
      } else {
        is_over = true;
      }
    }
    RETURN_IF_ERROR(status_);
    return counts_;
  }

 private:
  // Waits until another one may be asked, and, once all lines have been read, for the answers.
  // Returns one that is to be asked again, if there is one. `*is_over` if nobody can be told.
  std::optional<Asked> WaitForRoom(bool* is_over) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_in_flight_ < options_.max_in_flight; });
    if (!status_.ok()) {
      *is_over = true;
      retries_.clear();
    }
    if (*is_over) changed_.wait(lock, [&] { return num_in_flight_ == 0 || !retries_.empty(); });
    if (retries_.empty()) return std::nullopt;
    Asked again = std::move(retries_.front());
    retries_.pop_front();
    const int64_t num_others = num_in_flight_;
    changed_.wait_for(lock, options_.retry_after, [&] { return num_in_flight_ < num_others; });
    return again;
  }

  // Else it is told what becomes of it, or the output says it.
  bool IsToBeAsked(BatchRequest* request) {
    const std::lock_guard lock(mutex_);
    if (request->error.empty() && !seen_.insert(request->custom_id).second) {
      request->error = "`custom_id` is that of a line before";
    }
    if (!request->error.empty()) {
      ++counts_.num_failed;
      Write(ErrorLine(*request));
    } else if (answered_.contains(request->custom_id)) {
      ++counts_.num_skipped;
      progress_.Add(1);
    } else {
      return true;
    }
    return false;
  }

  void Ask(const std::shared_ptr<Asked>& asked) {
    {
      const std::lock_guard lock(mutex_);
      ++num_in_flight_;
      ++asked->num_tries;
    }
    ask_({.method = "POST",
          .path = asked->request.path,
          .query = "",
          .headers = {{"Content-Type", "application/json"}},
          .body = asked->request.body},
         std::make_shared<WholeAnswer>(
             [this, asked](const HttpResponse& response) { OnAnswer(*asked, response); }));
  }

  void OnAnswer(Asked& asked, const HttpResponse& response) {
    const int64_t num_tokens = NumTokensOf(response.body);
    const std::lock_guard lock(mutex_);
    --num_in_flight_;
    const bool is_busy = response.status == 429 || response.status == 503;
    if (is_busy && asked.num_tries < kMaxTries) {
      retries_.push_back(std::move(asked));
    } else {
      ++(response.status == 200 ? counts_.num_answered : counts_.num_failed);
      counts_.num_tokens += num_tokens;
      Write(AnswerLine(asked.request, response.status, response.body));
    }
    // Beneath the lock: who waits for the last one may end this.
    changed_.notify_all();
  }

  // With the lock.
  void Write(const std::string& line) {
    output_ << line << std::flush;
    progress_.Add(1);
    if (output_.good() || !status_.ok()) return;
    status_ = Unavailable(StrCat("cannot write to ", options_.output,
                                 " any more: what it has is whole but for its last line, and "
                                 "--resume goes on with it"));
  }

  const BatchOptions& options_;
  const AskFunction& ask_;
  const std::set<std::string> answered_;  // by the output's answers
  std::set<std::string> seen_;            // in the input
  std::mutex mutex_;
  std::condition_variable changed_;
  std::ofstream output_;
  Progress& progress_;
  std::deque<Asked> retries_;
  int64_t num_in_flight_ = 0;
  BatchCounts counts_;
  Status status_;
};

}  // namespace

StatusOr<BatchCounts> RunBatch(const BatchOptions& options, const AskFunction& ask,
                               const Clock& clock, std::ostream& out) {
  std::ifstream input(options.input, std::ios::binary);
  // A folder can be opened, and not be read.
  if (!input || std::filesystem::is_directory(options.input)) {
    return InvalidArgument(StrCat("--input-file: ", options.input, " cannot be read"));
  }
  std::set<std::string> answered;
  if (std::filesystem::is_regular_file(options.output)) {
    if (!options.resumes) {
      return InvalidArgument(StrCat("--output-file: ", options.output,
                                    " is there already: give --resume to go on with it, or another "
                                    "name"));
    }
    ASSIGN_OR_RETURN(answered, ReadAnswered(options.output));
  }
  std::ofstream output(options.output, std::ios::binary | std::ios::app);
  if (!output)
    return InvalidArgument(StrCat("--output-file: ", options.output, " cannot be written"));
  Progress progress({.label = "answering",
                     .total = CountLines(options.input),
                     .unit = "requests",
                     .is_terminal = isatty(STDERR_FILENO) != 0},
                    out, clock);
  Batch batch(options, ask, std::move(answered), std::move(output), progress);
  auto counts = batch.Run(input);
  progress.Finish();
  return counts;
}

}  // namespace aril
