#include "apps/run_batch.h"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/batch_lines.h"
#include "apps/progress.h"
#include "base/strings.h"
#include "gateway/api_error.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using gateway::HttpResponder;
using gateway::HttpResponse;

// How often a request is asked that there is no room for, although no other is in work.
constexpr int kMaxTries = 8;

struct Asked {
  BatchRequest request;
  int num_tries = 0;       // while no other was in work
  int64_t num_ended = -1;  // when there was no room for it: others by then
};

// The answer to one request: exactly one, whatever becomes of it.
class WholeAnswer final : public HttpResponder {
 public:
  explicit WholeAnswer(std::function<void(const HttpResponse&)> take) : take_(std::move(take)) {}
  ~WholeAnswer() override {
    if (take_) Fail("the request was dropped; the log says why");
  }

  void Respond(HttpResponse response) override { std::exchange(take_, nullptr)(response); }
  // Nobody asks for one.
  void StartStream(HttpResponse, std::string) override { Fail("the answer is a stream"); }
  void Write(std::string_view) override {}
  void Finish() override {}
  void OnDisconnect(std::function<void()>) override {}

 private:
  void Fail(const std::string& why) {
    std::exchange(take_, nullptr)(gateway::ErrorResponse(gateway::FromStatus(Internal(why))));
  }

  std::function<void(const HttpResponse&)> take_;
};

uint64_t CountLines(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  uint64_t count = 0;
  char last = '\n';
  for (std::istreambuf_iterator<char> c(in), end; c != end; ++c) {
    last = *c;
    count += last == '\n' ? 1 : 0;
  }
  return count + (last == '\n' ? 0 : 1);  // the last one may have no end
}

// What the output has answers to. A line that was not written to its end is cut off.
StatusOr<std::set<std::string>> ReadAnswered(const std::string& path) {
  const auto error = [&](const std::string& what) {
    return InvalidArgument(StrCat("--output-file: ", path, " ", what));
  };
  std::ifstream in(path, std::ios::binary);
  if (!in) return error("cannot be read");
  std::set<std::string> answered;
  uintmax_t num_whole_bytes = 0;
  bool has_part = false;
  for (std::string line; std::getline(in, line);) {
    has_part = in.eof();
    if (has_part) break;
    auto outcome = ReadOutcome(line);
    if (!outcome) return error("is no output of this command, and is left as it is");
    num_whole_bytes += line.size() + 1;
    if (outcome->is_answered) answered.insert(std::move(outcome->custom_id));
  }
  if (in.bad()) return error("cannot be read to its end");
  std::error_code failed;
  if (has_part) fs::resize_file(path, num_whole_bytes, failed);
  if (failed) return error(StrCat("cannot be cut to whole lines: ", failed.message()));
  return answered;
}

class Batch {
 public:
  Batch(BatchFiles files, const BatchPace& pace, const AskFunction& ask, const Clock& clock,
        std::ostream& out)
      : files_(std::move(files)), pace_(pace), ask_(ask), id_prefix_(RandomPrefix()) {
    if (files_.num_lines == 0) return;
    progress_.emplace(Progress::Options{.label = "answering",
                                        .total = files_.num_lines,
                                        .unit = "requests",
                                        .is_terminal = isatty(STDERR_FILENO) != 0},
                      out, clock);
  }

  StatusOr<BatchCounts> Run() {
    BatchReader reader(files_.input);
    while (!is_read_ || HasMore()) {
      if (auto asked = WaitForRoom()) {
        Ask(std::make_shared<Asked>(*std::move(asked)));
      } else if (!is_read_) {
        ReadNext(reader);
      }
    }
    if (progress_) progress_->Finish();
    RETURN_IF_ERROR(status_);
    return counts_;
  }

 private:
  // Of this run: an output may have lines of several.
  static std::string RandomPrefix() {
    std::random_device random;
    return StrCat("batch_req_", random(), "_");
  }
  std::string IdOf(const BatchRequest& request) const { return StrCat(id_prefix_, request.line); }

  bool HasMore() {
    const std::lock_guard lock(mutex_);
    return num_in_flight_ > 0 || !to_ask_.empty();
  }

  // Waits until another one may be asked, or, once all have been read, until something happens.
  // Returns one, if any has been read: those that there was no room for go before what is unread.
  std::optional<Asked> WaitForRoom() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return num_in_flight_ < pace_.max_in_flight &&
             (!is_read_ || num_in_flight_ == 0 || !to_ask_.empty());
    });
    if (to_ask_.empty()) return std::nullopt;
    changed_.wait(lock,
                  [&] { return num_in_flight_ == 0 || num_ended_ > to_ask_.front().num_ended; });
    Asked again = std::move(to_ask_.front());
    to_ask_.pop_front();
    // Nobody is there who could make room.
    if (num_ended_ == again.num_ended) changed_.wait_for(lock, pace_.pause, [] { return false; });
    return again;
  }

  void ReadNext(BatchReader& reader) {
    auto request = reader.Next();
    const std::lock_guard lock(mutex_);
    if (files_.input.bad() && status_.ok()) {
      status_ = Unavailable(StrCat("cannot read ", files_.input_path, " to its end"));
    }
    is_read_ = !request || !status_.ok();
    if (is_read_ || !IsToBeAsked(&*request)) return;
    to_ask_.push_back({.request = *std::move(request)});
  }

  // Else it is told what becomes of it, or the output says it. With the lock.
  bool IsToBeAsked(BatchRequest* request) {
    if (request->error.empty() && !seen_.insert(request->custom_id).second) {
      request->error = StrCat("`custom_id` \"", request->custom_id, "\" is that of a line before");
      request->custom_id.clear();  // whose answer it stands for
    }
    if (!request->error.empty()) {
      ++counts_.num_failed;
      Write(ErrorLine(*request, IdOf(*request)));
    } else if (files_.answered.contains(request->custom_id)) {
      ++counts_.num_skipped;
      if (progress_) progress_->Add(1);
    } else {
      return true;
    }
    return false;
  }

  void Ask(const std::shared_ptr<Asked>& asked) {
    {
      const std::lock_guard lock(mutex_);
      ++num_in_flight_;
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
    const std::string line =
        AnswerLine(asked.request, IdOf(asked.request), response.status, response.body);
    const int64_t num_tokens = NumGeneratedTokens(response.body);
    const std::lock_guard lock(mutex_);
    --num_in_flight_;
    asked.num_tries += num_in_flight_ == 0 ? 1 : 0;
    const bool has_no_room = response.status == 429 || response.status == 503;
    if (has_no_room && asked.num_tries < kMaxTries && status_.ok()) {
      asked.num_ended = num_ended_;
      to_ask_.push_back(std::move(asked));
    } else {
      ++num_ended_;
      ++(response.status == 200 ? counts_.num_answered : counts_.num_failed);
      counts_.num_tokens += num_tokens;
      Write(line);
    }
    // Beneath the lock: who waits for the last one may end this.
    changed_.notify_all();
  }

  // With the lock.
  void Write(const std::string& line) {
    files_.output << line << std::flush;
    if (progress_) progress_->Add(1);
    if (files_.output.good() || !status_.ok()) return;
    status_ = Unavailable(StrCat("cannot write to ", files_.output_path,
                                 " any more: what it has is whole but for its last line, and "
                                 "--resume goes on with it"));
    to_ask_.clear();
  }

  BatchFiles files_;
  const BatchPace pace_;
  const AskFunction& ask_;
  const std::string id_prefix_;
  std::optional<Progress> progress_;
  std::set<std::string> seen_;  // in the input
  bool is_read_ = false;        // all of it, or nobody can be told any more
  std::mutex mutex_;            // of what is below, and of the output and the progress
  std::condition_variable changed_;
  // Those that there was no room for, and the last one that was read.
  std::deque<Asked> to_ask_;
  int64_t num_in_flight_ = 0;
  int64_t num_ended_ = 0;
  BatchCounts counts_;
  Status status_;
};

}  // namespace

StatusOr<BatchFiles> BatchFiles::Open(const std::string& input, const std::string& output,
                                      bool resumes) {
  BatchFiles files = {.input_path = input, .output_path = output};
  std::error_code ignored;
  // A folder can be opened, and not be read.
  if (!fs::is_directory(input, ignored)) files.input.open(input, std::ios::binary);
  if (!files.input.is_open()) {
    return InvalidArgument(StrCat("--input-file: ", input, " cannot be read"));
  }
  if (fs::equivalent(input, output, ignored)) {
    return InvalidArgument(StrCat("--output-file: ", output, " is the input"));
  }
  if (fs::is_regular_file(output, ignored)) {
    if (!resumes) {
      return InvalidArgument(StrCat("--output-file: ", output,
                                    " is there already: give --resume to go on with it, or "
                                    "another name"));
    }
    ASSIGN_OR_RETURN(files.answered, ReadAnswered(output));
  }
  files.output.open(output, std::ios::binary | std::ios::app);
  if (!files.output.is_open()) {
    return InvalidArgument(StrCat("--output-file: ", output, " cannot be written"));
  }
  if (fs::is_regular_file(input, ignored)) files.num_lines = CountLines(input);
  return files;
}

StatusOr<BatchCounts> RunBatch(BatchFiles files, const BatchPace& pace, const AskFunction& ask,
                               const Clock& clock, std::ostream& out) {
  return Batch(std::move(files), pace, ask, clock, out).Run();
}

}  // namespace aril
