// Sources that must not load an adapter: paths out of the roots in every spelling, URLs, garbage,
// and folders whose files are something else. Beside the root lies a canary that would load.

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/adapter_text_test_support.h"
#include "apps/local_adapters.h"
#include "base/clock.h"
#include "base/hostile_inputs.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "catalog/generation_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");

// Where the client's folders are, "root/good" among them, and what lies beside.
class HostileSourcesTest : public ::testing::Test {
 protected:
  HostileSourcesTest()
      : store_(*GenerationStore::Open(dir_ / "store")),
        root_(MakeAdapter("root/good").parent_path()),
        canary_(MakeAdapter("outside/canary")),
        roots_(std::vector<fs::path>{root_}) {
    auto runner = LocalRunner::Create({.model_dir = kModel, .threads = 1}, RealClock());
    EXPECT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    stored_ = Make({root_}, &store_);
    in_place_ = Make({root_}, nullptr);
  }

  // A classifier, as these have all of the files that an adapter may be read from.
  fs::path MakeAdapter(const std::string& name) const {
    const fs::path path = dir_ / name;
    fs::create_directories(path.parent_path());
    fs::copy(SourcePath("tests/goldens-classifiers/llama-f32-sharded/three-labels-r4"), path,
             fs::copy_options::recursive);
    dir_.Write(name + "/config.json", "{}");
    dir_.Write(name + "/additional_chat_templates/tool_use.jinja", "secret");
    dir_.Write(name + "/chat_template.jinja", "secret");
    dir_.Write(name + "/tokenizer_config.json", "{}");
    return fs::canonical(path);
  }
  std::unique_ptr<LocalAdapters> Make(std::vector<fs::path> roots, const GenerationStore* store) {
    return std::make_unique<LocalAdapters>(
        *runner_, LocalAdapters::Options{.roots = AdapterRoots(std::move(roots)),
                                         .text_reader = text_reader_,
                                         .texts = texts_,
                                         .store = store});
  }

  // What each way to name a source says, which must be an error for all of them.
  std::vector<Status> Errors(const std::string& source) {
    seen_.insert(source);
    return {roots_.Find(source).status(), stored_->Load(source).status(),
            in_place_->Load(source).status(), stored_->Verify(source).status()};
  }
  // The errors are those of a path that leads out, or of one that leads nowhere inside.
  StatusCode ExpectNoFolder(const std::string& source) {
    const std::vector<Status> errors = Errors(source);
    const StatusCode code = errors.front().code();
    for (const Status& error : errors) {
      EXPECT_EQ(error.code(), code) << source;
      EXPECT_EQ(Message(error),
                code == StatusCode::kNotFound ? "there is no folder " + source : Message(Outside()))
          << source;
    }
    return code;
  }
  void ExpectOutside(const std::string& source) {
    EXPECT_EQ(ExpectNoFolder(source), StatusCode::kInvalidArgument) << source;
  }
  // What is said of every path that leads out.
  Status Outside() { return roots_.Find("..").status(); }

  // The folder "root/NAME", a good adapter but for one file.
  fs::path Spoil(const std::string& name, const std::string& file) const {
    fs::path path = MakeAdapter("root/" + name) / file;
    fs::remove(path);
    return path;
  }

  TestDir dir_;
  const GenerationStore store_;
  const fs::path root_;
  const fs::path canary_;
  const AdapterRoots roots_;
  const std::shared_ptr<const AdapterTextReader> text_reader_ = MakeAdapterTextReader();
  const std::shared_ptr<gateway::AdapterTexts> texts_ = std::make_shared<gateway::AdapterTexts>();
  std::unique_ptr<LocalRunner> runner_;
  std::unique_ptr<LocalAdapters> stored_, in_place_;
  std::set<std::string> seen_;
};

TEST_F(HostileSourcesTest, TheCanaryWouldLoad) {
  ASSERT_TRUE(stored_->Load("good").ok());
  const auto beside = Make({canary_.parent_path()}, &store_);
  const auto canary = beside->Load("canary");
  EXPECT_TRUE(canary.ok()) << canary.status();
}

TEST_F(HostileSourcesTest, NothingIsReachedByName) {
  const std::string folder = fs::path(dir_.path()).filename();
  const std::string absolute = canary_.string().substr(1);
  for (const auto& [depth, target] : std::vector<std::pair<int, std::string>>{
           {1, "outside/canary"}, {2, folder + "/outside/canary"}, {32, absolute}}) {
    for (const std::string& way : HostileTraversals(depth, target)) {
      const StatusCode found = ExpectNoFolder(way);
      const std::string nothing = way.substr(0, way.size() - target.size()) + target + "0";
      EXPECT_EQ(ExpectNoFolder(nothing), found) << "tells what there is: " << way;
      ExpectNoFolder("good/nothing/" + way);
    }
  }
  for (const std::string& url : HostileUrls()) {
    ExpectNoFolder(url);
  }
  for (const char* scheme : {"file:", "file://", "file://localhost", "FILE:", "//", "///"}) {
    ExpectNoFolder(scheme + canary_.string());
  }
  for (const std::string& text : HostileStrings()) {
    if (!text.empty()) ExpectNoFolder(text);  // "" is the root itself
  }
  EXPECT_TRUE(fs::is_empty(dir_ / "store"));
  EXPECT_GE(seen_.size(), 1000u);
}

TEST_F(HostileSourcesTest, WhatIsOutsideIsNotTold) {
  fs::create_directory_symlink("..", root_ / "up");
  fs::create_directory_symlink(canary_, root_ / "link");
  fs::create_directory_symlink("link", root_ / "chain");
  fs::create_directory_symlink(dir_ / "outside", root_ / "outside");
  fs::create_directory_symlink("../outside/nothing", root_ / "dangling");
  fs::create_directory_symlink("/proc/self/cwd", root_ / "proc");
  fs::create_directory_symlink("loop", root_ / "loop");
  fs::create_directory_symlink("ring2", root_ / "ring1");
  fs::create_directory_symlink("ring1", root_ / "ring2");
  for (const char* way : {"..", "up", "up/.", "outside/..", "link/../..", "chain/../../outside/..",
                          "good/../..", "nothing/../..", "nothing/../up", "good/nothing/../../up",
                          "nothing/nothing/../../outside/.."}) {
    for (const char* target : {"", "/", "/outside", "/outside/canary", "/outside/canary/x",
                               "/outside/canary/adapter_config.json", "/outside/nothing",
                               "/nothing", "/nothing/../outside/canary", "/store"}) {
      ExpectOutside(StrCat(way, target));
    }
  }
  for (const char* source : {"/",
                             "//",
                             "/etc",
                             "/etc/passwd",
                             "/etc/passwd/x",
                             "/nothing",
                             "/dev/zero",
                             "/dev/stdin",
                             "/proc/self/root",
                             "/proc/self/environ",
                             "/proc/self/fd/0",
                             "link",
                             "chain",
                             "dangling",
                             "dangling/x",
                             "outside",
                             "outside/canary",
                             "outside/nothing",
                             "proc",
                             "proc/x",
                             "loop",
                             "loop/..",
                             "ring1",
                             "ring2/good",
                             "nothing/../link",
                             "nothing/../dangling",
                             "nothing/../chain/nothing"}) {
    ExpectOutside(source);
  }
  for (const std::string& path : {canary_.string(), canary_.string() + "0", root_.string() + "0",
                                  root_.string() + "/../outside/canary", dir_.path()}) {
    for (const char* slashes : {"", "/", "//", "///"}) ExpectOutside(slashes + path);
  }
  ExpectOutside(std::string("good\0/../../outside/canary", 26));
  ExpectOutside(std::string("good\0", 5));
  EXPECT_TRUE(fs::is_empty(dir_ / "store"));
  EXPECT_GE(seen_.size(), 100u);
}

TEST_F(HostileSourcesTest, OnlyFoldersAreAdapters) {
  ASSERT_EQ(mknod((root_ / "fifo").c_str(), S_IFIFO | 0600, 0), 0);
  ASSERT_EQ(mknod((root_ / "socket").c_str(), S_IFSOCK | 0600, 0), 0);
  for (const char* name : {"fifo", "socket", "good/adapter_config.json", "good/nothing"}) {
    for (const char* end : {"", "/", "/.", "/x"}) {
      EXPECT_EQ(ExpectNoFolder(StrCat(name, end)), StatusCode::kNotFound) << name << end;
    }
  }
  EXPECT_TRUE(fs::is_empty(dir_ / "store"));
}

TEST_F(HostileSourcesTest, AnAdaptersFilesAreItsOwn) {
  const std::string secret = dir_.Write("outside/secret", "secret");
  for (const std::string& file : AdapterFileNames()) {
    const std::string in_canary = canary_ / file;
    int i = 0;
    for (const std::string& target :
         {in_canary, in_canary + "0", secret, std::string("/dev/zero"), std::string("/dev/stdin"),
          std::string("/proc/self/environ"), std::string("/proc/self/mem"), std::string("/etc"),
          std::string("/nothing")}) {
      const std::string name = StrCat("to", i++, fs::path(file).filename().string());
      fs::create_symlink(target, Spoil(name, file));
      for (const std::string& way : {name, "good/../" + name}) {
        const std::vector<Status> errors = Errors(way);
        for (size_t e = 1; e < errors.size(); ++e) {
          EXPECT_EQ(errors[e].code(), StatusCode::kInvalidArgument) << file << " -> " << target;
          EXPECT_THAT(Message(errors[e]), HasSubstr("must be a file beneath"))
              << file << " -> " << target;
        }
      }
    }
  }
  const fs::path folder = MakeAdapter("root/linked-folder") / "additional_chat_templates";
  fs::remove_all(folder);
  fs::create_directory_symlink(canary_ / "additional_chat_templates", folder);
  EXPECT_THAT(Message(Errors("linked-folder")[1]), HasSubstr("must be a file beneath"));
  EXPECT_TRUE(fs::is_empty(dir_ / "store"));
}

// Served where it lies, it may have more files than are copied into a store.
TEST_F(HostileSourcesTest, TheTokensOfItsTemplateAreItsOwn) {
  const std::string secret = dir_.Write("outside/map.json", R"({"bos_token": "secret"})");
  const fs::path link = Spoil("tokens", "special_tokens_map.json");
  fs::create_symlink(secret, link);
  dir_.Write("root/tokens/chat_template.jinja", "{{ bos_token }}");
  const Status loaded = in_place_->Load("tokens").status();
  EXPECT_FALSE(loaded.ok());
  EXPECT_THAT(Message(loaded), Not(HasSubstr("secret"))) << "nothing is read";
}

TEST_F(HostileSourcesTest, AnAdaptersFilesAreFiles) {
  for (const std::string& file : AdapterFileNames()) {
    for (const char* kind : {"fifo", "socket", "folder", "loop"}) {
      const std::string name = StrCat(kind, "-", fs::path(file).filename().string());
      const fs::path path = Spoil(name, file);
      if (kind == std::string("fifo")) {
        ASSERT_EQ(mknod(path.c_str(), S_IFIFO | 0600, 0), 0);
      } else if (kind == std::string("socket")) {
        ASSERT_EQ(mknod(path.c_str(), S_IFSOCK | 0600, 0), 0);
      } else if (kind == std::string("folder")) {
        fs::create_directory(path);
      } else {
        fs::create_symlink(path.filename(), path);
      }
      const std::vector<Status> errors = Errors(name);
      EXPECT_TRUE(errors[0].ok()) << "the folder is one";
      EXPECT_EQ(errors[1].code(), StatusCode::kInvalidArgument) << name << errors[1];
      EXPECT_EQ(errors[2].code(), StatusCode::kInvalidArgument) << name << errors[2];
      EXPECT_EQ(errors[3].code(), StatusCode::kInvalidArgument) << name << errors[3];
    }
  }
  EXPECT_TRUE(fs::is_empty(dir_ / "store"));
}

TEST_F(HostileSourcesTest, LinksBetweenFoldersOfTheRootsAreFollowed) {
  // As the cache of Hugging Face's hub has them: snapshots of links to blobs.
  const fs::path config = Spoil("snapshots/linked", "adapter_config.json");
  fs::create_symlink("../../good/adapter_config.json", config);
  const auto loaded = stored_->Load("snapshots/linked");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
}

}  // namespace
}  // namespace aril
