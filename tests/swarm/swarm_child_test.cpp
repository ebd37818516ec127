// The daemon's end of the swarm's process: processes that die, hang and lie.
#include "daemon/swarm/swarm_child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/swarm/swarm_world.h"

namespace p2pw::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kChunk = 64u << 10;

std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  std::ifstream in("/proc/self/task/" + std::to_string(getpid()) + "/children");
  for (pid_t pid; in >> pid;) pids.push_back(pid);
  return pids;
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::size_t descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

class SwarmChildTest : public ::testing::Test {
 protected:
  ControlLoop loop_;
};

TEST_F(SwarmChildTest, ItListensConfinedAndCounts) {
  TestNode node(loop_, 1, {}, Where::child);
  const SwarmConfinement confinement = node.swarm().confinement();
  EXPECT_TRUE(confinement.own_process);
  EXPECT_TRUE(confinement.landlock > 0 || confinement.seccomp);
  EXPECT_GT(node.swarm().listen_port(), 0);
  const TestBundle bundle = make_bundle(3 * kChunk, kChunk, 1);
  node.add(bundle);
  EXPECT_TRUE(loop_.run_until([&] { return node.swarm().counters().torrents == 1; }));
}

TEST_F(SwarmChildTest, TheProcessHasNothingOfOurs) {
  setenv("P2PW_TEST_SECRET", "hunter2", 1);
  std::ofstream kept(TempDir().path() / "kept");
  TestNode node(loop_, 1, {}, Where::child);
  const TestBundle bundle = make_bundle(3 * kChunk, kChunk, 1);
  node.add(bundle);
  ASSERT_TRUE(loop_.run_until([&] { return node.swarm().counters().torrents == 1; }));
  ASSERT_EQ(children().size(), 1u);
  const std::string proc = "/proc/" + std::to_string(children()[0]);
  const std::string status = slurp(proc + "/status");
  EXPECT_NE(status.find("NoNewPrivs:\t1"), std::string::npos);
  if (node.swarm().confinement().seccomp) {
    EXPECT_NE(status.find("Seccomp:\t2"), std::string::npos);
  }
  if (geteuid() != 0) GTEST_SKIP() << "only root may look further into it, which is as it should be";
  EXPECT_EQ(slurp(proc + "/environ").find("hunter2"), std::string::npos);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(proc + "/fd")) {
    const std::string to = fs::read_symlink(entry.path());
    const bool standard = std::stoi(entry.path().filename().string()) <= 2;
    if (to.starts_with("/") && !standard) files.push_back(fs::path(to).filename());
  }
  EXPECT_EQ(files, std::vector<std::string>{bundle.id.hex()});
}

TEST_F(SwarmChildTest, ItGoesWithItsOwner) {
  pid_t pid = 0;
  {
    TestNode node(loop_, 1, {}, Where::child);
    ASSERT_EQ(children().size(), 1u);
    pid = children()[0];
  }
  EXPECT_TRUE(children().empty());
  EXPECT_NE(::kill(pid, 0), 0);
}

// As of a daemon that is killed: nobody is there to end it.
TEST_F(SwarmChildTest, ItGoesWhenItsOwnerIsKilled) {
  int tell[2];
  ASSERT_EQ(pipe(tell), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    TestNode node(loop_, 1, {}, Where::child);
    const pid_t pid = children().at(0);
    (void)!write(tell[1], &pid, sizeof pid);
    pause();
  }
  pid_t pid = 0;
  ASSERT_EQ(read(tell[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  ASSERT_EQ(::kill(pid, 0), 0);
  ::kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  EXPECT_TRUE(loop_.run_until([&] {
    const std::string status = slurp("/proc/" + std::to_string(pid) + "/status");
    return status.empty() || status.find("State:\tZ") != std::string::npos;
  }));
  close(tell[0]);
  close(tell[1]);
}

TEST_F(SwarmChildTest, AnotherOneTakesItsPlaceAndFinishesTheWork) {
  const TestBundle bundle = make_bundle(40 * kChunk - 5, kChunk, 1), second = make_bundle(7 * kChunk, kChunk, 2);
  auto slow = [](SwarmOptions& o) { o.upload_limit = 4'000'000; };
  TestNode a(loop_, 1, slow, Where::here), b(loop_, 2, {}, Where::child);
  introduce({&a, &b});
  a.add(bundle, all_chunks(bundle));
  a.add(second, {0, 1, 2});
  b.add(bundle);
  b.add(second);
  const std::uint16_t port = b.swarm().listen_port();
  ASSERT_TRUE(loop_.run_until([&] { return b.arrived[bundle.id].size() >= 5; }));
  EXPECT_FALSE(b.complete(bundle));
  for (pid_t pid : children()) ::kill(pid, SIGKILL);
  ASSERT_TRUE(loop_.run_until([&] { return !b.ended.empty(); }));
  EXPECT_NE(b.ended[0].find("signal 9"), std::string::npos) << b.ended[0];
  // While there is none, and after.
  a.put_and_offer(second, 3);
  b.put_and_offer(second, 6);
  EXPECT_TRUE(loop_.run_until([&] { return b.complete(bundle); }));
  EXPECT_EQ(b.used_bytes(bundle), bundle.bytes);
  for (std::uint32_t chunk : {4u, 5u}) a.put_and_offer(second, chunk);
  EXPECT_TRUE(loop_.run_until([&] { return b.complete(second) && a.complete(second); }));
  EXPECT_EQ(b.swarm().listen_port(), port);
  EXPECT_EQ(b.swarm().confinement().ended, 1u);
  EXPECT_TRUE(b.failures.empty());
}

TEST_F(SwarmChildTest, ABundleOfManyChunksIsToldInSeveralMessages) {
  const TestBundle bundle = make_bundle(5000 * (16u << 10) - 1, 16u << 10, 3);
  TestNode a(loop_, 1, {}, Where::child), b(loop_, 2, {}, Where::child);
  introduce({&a, &b});
  a.add(bundle, all_chunks(bundle));
  b.add(bundle, {0, 4999, 2500});
  EXPECT_TRUE(loop_.run_until([&] { return b.complete(bundle); }));
  EXPECT_EQ(b.arrived[bundle.id].size(), 4997u);
  EXPECT_EQ(b.used_bytes(bundle), bundle.bytes);
}

TEST_F(SwarmChildTest, RemovedBundlesLeaveNothingBehind) {
  TestNode node(loop_, 1, {}, Where::child);
  for (std::uint32_t i = 1; i <= 50; ++i) {
    const TestBundle bundle = make_bundle(3 * kChunk, kChunk, i);
    node.add(bundle);
    node.put_and_offer(bundle, 1);
    node.swarm().remove(bundle.id);
  }
  EXPECT_TRUE(loop_.run_until([&] { return node.swarm().counters().torrents == 0; }));
  EXPECT_TRUE(node.ended.empty());
}

TEST_F(SwarmChildTest, AProgramThatIsNoSwarmIsAnError) {
  TestNode node(loop_, 1);
  SwarmChildOptions options;
  options.program = "/bin/false";
  auto swarm = open_child_swarm(loop_.io(), options, node);
  ASSERT_FALSE(swarm.ok());
  EXPECT_NE(swarm.error().message.find("exit code 1"), std::string::npos) << swarm.error().message;
  options.program = "/nowhere/p2pwd";
  EXPECT_EQ(open_child_swarm(loop_.io(), options, node).error().code, ErrorCode::io);
  EXPECT_TRUE(children().empty());
}

// What a process says that somebody else rules: the daemon ends it, says why, and takes another.
class HostileChildTest : public SwarmChildTest {
 protected:
  void open(const std::string& how) {
    SwarmChildOptions options;
    options.swarm.port = 4711;  // it does not listen
    options.program = P2PW_BIN_DIR "/hostile_child";
    options.arguments = {how};
    options.first_wait = std::chrono::milliseconds(1);
    options.silence = std::chrono::seconds(1);
    auto opened = open_child_swarm(loop_.io(), options, node_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    swarm_ = std::move(*opened);
    file_ = node_.file(bundle_);
    swarm_->add(bundle_.id, bundle_.record, bundle_.roots, file_, kEveryGroup);
  }
  // Twice: it is as bad the second time.
  void expect_ended(const std::string& why) {
    ASSERT_TRUE(loop_.run_until([&] { return node_.ended.size() >= 2; }));
    for (const std::string& ended : node_.ended) EXPECT_NE(ended.find(why), std::string::npos) << ended;
    EXPECT_LE(children().size(), 1u);
  }
  TestNode node_{loop_, 1};
  TestBundle bundle_ = make_bundle(5 * kChunk, kChunk, 1);
  std::shared_ptr<BundleFile> file_;
  std::unique_ptr<Swarm> swarm_;
};

TEST_F(HostileChildTest, WhatCannotBeMeantEndsIt) {
  const std::map<std::string, std::string> cases{
      {"garbage", "no message"},       {"empty", "hung up"},          {"oversized", "hung up"},
      {"unknown-bundle", "number"},    {"no-bundle", "number 0"},     {"out-of-range", "chunk 2147483648"},
      {"hands-on-nothing", "chunk 1 handed on, which is not here"}, {"hands-on-unknown", "chunk 4711"},
      {"twice", "chunk 1 twice"},      {"starts-again", "out of turn"}, {"no-address", "without an address"},
      {"long-text", "text of 5000"},   {"flood", "more than can have happened"},
      {"hangs-up", "hung up"},         {"dies", "signal 6"},          {"silent", "said nothing"}};
  for (const auto& [how, why] : cases) {
    SCOPED_TRACE(how);
    node_.ended.clear();
    open(how);
    expect_ended(why);
    swarm_.reset();
    EXPECT_TRUE(children().empty());
  }
  for (std::uint32_t chunk = 0; chunk < file_->chunk_count(); ++chunk) EXPECT_FALSE(file_->has(ChunkIndex(chunk)));
}

TEST_F(HostileChildTest, AnotherPortThanAskedIsNotBelieved) {
  SwarmChildOptions options;
  options.swarm.port = 4711;
  options.program = P2PW_BIN_DIR "/hostile_child";
  options.arguments = {"other-port"};
  auto swarm = open_child_swarm(loop_.io(), options, node_);
  ASSERT_FALSE(swarm.ok());
  EXPECT_NE(swarm.error().message.find("4712"), std::string::npos);
}

TEST_F(HostileChildTest, TextFromItIsOneLineOfPlainCharacters) {
  open("control-characters");
  ASSERT_TRUE(loop_.run_until([&] { return !node_.reasons.empty(); }));
  EXPECT_EQ(node_.reasons[0], "?[2J??forged line");
}

TEST_F(HostileChildTest, DescriptorsFromItAreNotTaken) {
  const std::size_t before = descriptors();
  open("descriptors");
  ASSERT_TRUE(loop_.run_until([&] { return file_->has(ChunkIndex(0)); }));
  swarm_.reset();
  file_.reset();
  EXPECT_LT(descriptors(), before + 10);  // of 6400; the event loop and the bundle's file are new, too
}

// A lie about a chunk is believed until its bytes are used (rebuild, relay): then the daemon says so, and it is over.
TEST_F(HostileChildTest, ALieEndsItWhenItIsFoundOut) {
  open("lies");
  ASSERT_TRUE(loop_.run_until([&] { return file_->has(ChunkIndex(2)); }));
  EXPECT_FALSE(file_->has(ChunkIndex(1)));
  EXPECT_FALSE(file_->checked_chunk(ChunkIndex(2)).ok());
  swarm_->distrust("it lied");
  ASSERT_TRUE(loop_.run_until([&] { return !node_.ended.empty(); }));
  EXPECT_NE(node_.ended[0].find("it lied"), std::string::npos);
}

}  // namespace
}  // namespace p2pw::testing
