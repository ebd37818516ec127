// What users meet when something is wrong: each message names what to do next, and the exit code says of what kind it is.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "daemon/client/api.h"
#include "daemon/client/files.h"
#include "daemon/client/next_step.h"
#include "tests/cli/fake_daemon.h"
#include "tests/cli/run_p2pw.h"

namespace p2pw {
namespace {

using testing::Ran;
using testing::read_all;
using testing::run_p2pw;
using testing::TempDir;
using Words = std::vector<std::string>;

struct Wrong {
  Words words;     // @ at the front of one: a path in the test's folder
  int exit_code;
  const char* next;  // of what the message tells to do
};

// A trainer's folder without a daemon, and some files that are not what they should be.
class Errors : public ::testing::Test {
 protected:
  void SetUp() override {
    Ran ran = run_p2pw({"init", "-c", "policy", "-r", "us", "--address", "127.0.0.9", "--config", dir_ / "p2pw.toml", "--state",
                        dir_ / "state"});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    ASSERT_TRUE(write_small_file(dir_ / "text", "no delta\n", 0644).ok());
    ASSERT_TRUE(write_small_file(dir_ / "typo.toml", "[node]\nregoin = \"eu\"\n", 0644).ok());
    ASSERT_TRUE(write_small_file(dir_ / "empty/nothing", "", 0644).ok());
  }

  void expect(const Wrong& wrong) {
    Words words = wrong.words;
    std::string typed;
    for (std::string& word : words) {
      if (word.starts_with('@')) word = dir_ / word.substr(1);
      typed += word + " ";
    }
    Ran ran = run_p2pw(words);
    EXPECT_EQ(ran.exit_code, wrong.exit_code) << typed << "\n" << ran.err;
    EXPECT_NE(ran.err.find(wrong.next), std::string::npos) << typed << "\n" << ran.err;
  }

  TempDir dir_;
};

TEST_F(Errors, NameWhatToDoNext) {
  const Words here = {"--config", "@p2pw.toml"};
  auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const Wrong& wrong : {
           Wrong{with({"status"}, here), 3, "start it (systemctl start p2pwd"},
           Wrong{{"status", "--config", "@none.toml"}, 3, "`p2pw init` sets up a trainer"},
           Wrong{{"wait", "-v", "1", "--config", "@none.toml"}, 3, "`p2pw init` sets up a trainer"},
           Wrong{{"config", "--config", "@typo.toml"}, 2, "known here: bootstrap, name, region, role"},
           Wrong{{"init", "-c", "Bad Name", "-r", "us"}, 2, "use 1 to 64 characters"},
           Wrong{{"init", "-r", "us"}, 2, "`p2pw init --help` shows how"},
           Wrong{with({"init", "-c", "p", "-r", "us", "--address", "127.0.0.9"}, here), 2, "--force"},
           Wrong{{"init", "-c", "p", "-r", "us", "--config", "/proc/none/p2pw.toml", "--state", "@s"}, 5, "check the path"},
           Wrong{{"init", "-c", "p", "-r", "us", "--config", "@text/p2pw.toml", "--state", "@s"}, 1, "is a file; check it"},
           Wrong{{"join", "garbage", "-r", "us", "--config", "@n.toml", "--state", "@n"}, 2, "`p2pw token` on the trainer makes one"},
           Wrong{{"keygen", "-o", "@text"}, 2, "choose another name with -o"},
           Wrong{with({"seed", "@none"}, here), 5, "check the path"},
           Wrong{with({"seed", "@empty"}, here), 2, "is this a checkpoint?"},
           Wrong{with({"seed", "@empty", "--channel", "other"}, here), 5, "`p2pw channel list` shows which are"},
           Wrong{with({"seed", "@empty", "--key", "@text"}, here), 4, "type chmod 600"},
           Wrong{with({"seed", "@empty", "--key", "@none"}, here), 5, "check the path"},
           Wrong{with({"seed", "--watch", "@none"}, here), 5, "checkpoints are written into"},
           Wrong{with({"wait", "-v", "1", "--active", "200%"}, here), 2, "like 95%"},
           Wrong{with({"rollback"}, here), 2, "give --local"},
           Wrong{with({"channel", "add"}, here), 2, "p2pw channel add NAME"},
           Wrong{with({"channel", "add", "Bad Name"}, here), 2, "use 1 to 64 characters"},
           Wrong{with({"channel", "list", "x"}, here), 2, "leave \"x\" away"},
           Wrong{with({"channel", "drop", "x"}, here), 2, "`p2pw channel --help` shows how"},
           Wrong{{"channel", "list", "--config", "@none.toml"}, 5, "`p2pw init` sets up a trainer"},
           Wrong{with({"dashboard"}, here), 5, "systemctl restart p2pwd"},
           Wrong{with({"rotate", "everything"}, here), 2, "`p2pw rotate --help` shows how"},
           Wrong{{"diff", "@none", "@empty", "-o", "@d"}, 5, "check the path"},
           Wrong{{"apply", "@empty", "@none", "-o", "@out"}, 5, "check the path"},
           Wrong{{"apply", "@empty", "@text", "-o", "@out"}, 4, "p2pw diff OLD NEW -o FILE makes one"},
           Wrong{{"inspect", "@text"}, 4, "p2pw diff OLD NEW -o FILE makes one"},
           Wrong{{"verify", "@text"}, 2, "name the checkpoint's directory"},
           Wrong{{"completion", "ksh"}, 2, "`p2pw completion --help` shows how"},
       }) {
    expect(wrong);
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ / "d")) << "what failed leaves nothing";
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
}

TEST_F(Errors, WithoutThePublisherKeyATrainerIsNamed) {
  std::filesystem::remove(dir_ / "publisher.key");
  expect({{"seed", "@empty", "--config", "@p2pw.toml"}, 5, "seed on the trainer, or give the key with --key"});
}

TEST_F(Errors, WithoutPermissionTheGroupIsNamed) {
  if (geteuid() == 0) {
    // Root may do all; what the system says to others ends like this.
    EXPECT_TRUE(with_next_step(fail(ErrorCode::io, "cannot read /etc/p2pw/p2pw.toml: Permission denied")).ends_with("join group p2pw to use the daemon"));
    return;
  }
  chmod((dir_ / "p2pw.toml").c_str(), 0);
  expect({{"status", "--config", "@p2pw.toml"}, 1, "group p2pw"});
}

TEST(NextStep, AFullDiskIsToldWhatToDo) {
  EXPECT_EQ(with_next_step(fail(ErrorCode::no_space, "cannot write x: No space left on device")),
            "cannot write x: No space left on device; make room there, or name a place on another disk");
}

TEST_F(Errors, TheDaemonsToo) {
  auto p2pwd = [&](const Words& words) {
    std::string line = std::string(P2PW_BIN_DIR) + "/p2pwd";
    for (const std::string& word : words) line += " '" + word + "'";
    int status = std::system((line + " >'" + std::string(dir_ / "out") + "' 2>&1 </dev/null").c_str());
    return std::pair(WEXITSTATUS(status), read_all(dir_ / "out"));
  };
  auto [usage, how] = p2pwd({"--frob"});
  EXPECT_EQ(usage, 2);
  EXPECT_NE(how.find("`p2pwd --help` shows how"), std::string::npos) << how;
  auto [missing, what] = p2pwd({"--config", dir_ / "none.toml"});
  EXPECT_EQ(missing, 5);
  EXPECT_NE(what.find("`p2pw join` a node"), std::string::npos) << what;
  auto [typo, where] = p2pwd({"--config", dir_ / "typo.toml"});
  EXPECT_EQ(typo, 2);
  EXPECT_NE(where.find("typo.toml:2: node.regoin: is no key that p2pwd knows"), std::string::npos) << where;
}

TEST(NextStep, StandsOnceAndOnlyBehindTheSystemsTexts) {
  EXPECT_EQ(with_next_step(fail(ErrorCode::unreachable, "no p2pwd answers at x (Permission denied): join the group p2pw")),
            "no p2pwd answers at x (Permission denied): join the group p2pw");
  EXPECT_EQ(with_next_step(fail(ErrorCode::io, "cannot listen for links on 10.0.0.1:4710: Address already in use")),
            "cannot listen for links on 10.0.0.1:4710: Address already in use; another program has that port: ss -ltnp names it; "
            "or set another port");
}

}  // namespace
}  // namespace p2pw
