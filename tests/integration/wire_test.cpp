// Nothing of a checkpoint, and no key, on any wire: all packets of a fleet at work, searched for what must not be there.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "daemon/client/fleet_secrets.h"
#include "daemon/client/files.h"
#include "protocol/token.h"
#include "tests/integration/fleet.h"
#include "tests/integration/wire_capture.h"

namespace p2pw::testing {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool telling(const std::string& bytes) { return std::set<char>(bytes.begin(), bytes.end()).size() >= 8; }

// Names from the headers, side files, and a window of weights out of every 512 bytes.
void add_checkpoint(const fs::path& checkpoint, Needles& needles) {
  for (const auto& entry : fs::recursive_directory_iterator(checkpoint)) {
    if (!entry.is_regular_file()) continue;
    const std::string bytes = slurp(entry.path()), name = entry.path().filename().string();
    if (entry.path().extension() != ".safetensors") {
      for (std::size_t at = 0; at + 24 <= bytes.size(); at += 24) needles.add(name, bytes.substr(at, 24));
      continue;
    }
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    const auto json = nlohmann::json::parse(bytes.substr(8, header));
    for (const auto& [tensor, value] : json.items()) needles.add("tensor name " + tensor, tensor);
    for (std::size_t at = 8 + header; at + 16 <= bytes.size(); at += 512) {
      const std::string window = bytes.substr(at, 16);
      if (telling(window)) needles.add("weights of " + name, window);
    }
  }
}

// A secret as it lies in a file: its base64 lines, and the bytes inside.
void add_key_file(const std::string& name, const fs::path& file, Needles& needles) {
  auto text = read_secret_file(file, 4096);
  ASSERT_TRUE(text.ok()) << text.error().message;
  auto key = SigningKey::parse(*text);
  ASSERT_TRUE(key.ok());
  needles.add(name, std::string(reinterpret_cast<const char*>(key->raw().data()), 32));
  needles.add(name + " as text", text->substr(text->find('\n') + 1, 60));
}

class WireTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure()) std::cerr << fleet.logs();
  }
  Fleet fleet;
};

TEST_F(WireTest, NoTensorNoNameNoKey) {
  std::string why;
  WireCapture capture(fleet.net(), why);
  if (!why.empty()) GTEST_SKIP() << why;
  const fs::path series = make_series(fleet.path() / "series", "8MiB", 2, {"--change-config"});
  fleet.start_trainer();
  for (int n : {1, 2}) fleet.start_node("r1", n);
  fleet.start_node("r2", 1);
  ASSERT_EQ(fleet.wait_joined(4), 4u);
  for (int n = 0; n <= 2; ++n) {
    Ran seeded = fleet.seed(series / ("step_000" + std::to_string(n)), {"--wait-active", "100%"});
    ASSERT_EQ(seeded.exit_code, 0) << seeded.err;
  }
  ASSERT_EQ(fleet.p2pw("trainer", {"rotate", "fleet-secret"}).exit_code, 0);
  fleet.start_node("r2", 2);  // joins with the token, and by its neighbours
  ASSERT_EQ(fleet.wait_active(3, 5), 5u);
  const std::uint64_t used = fleet.used_bytes(1);
  fleet.stop_all();
  ASSERT_TRUE(capture.finish()) << "the kernel dropped packets";

  Needles needles;
  for (int n = 0; n <= 2; ++n) add_checkpoint(series / ("step_000" + std::to_string(n)), needles);
  add_key_file("publisher key", fleet.folder("trainer") / "publisher.key", needles);
  add_key_file("online key", fleet.folder("trainer") / "state/channels/policy/online.key", needles);
  for (const std::string& name : fleet.nodes()) {
    add_key_file("node key of " + name, fleet.folder(name) / "state/node.key", needles);
    auto secrets = load_fleet_secrets(StatePaths(fleet.folder(name) / "state"));
    ASSERT_TRUE(secrets.ok());
    for (const FleetSecret& secret : *secrets) {
      needles.add("fleet secret", std::string(reinterpret_cast<const char*>(secret.raw().data()), 32));
      needles.add("fleet secret as text", secret.file().substr(secret.file().size() - 40, 30));
    }
  }
  auto token = JoinToken::parse(fleet.token());
  ASSERT_TRUE(token.ok());
  needles.add("token", fleet.token().substr(20, 40));
  needles.add("enrolment secret", std::string(token->secret.text()));
  ASSERT_GT(needles.size(), 10'000u);

  // The search finds what is there: swarms are clear text, what they carry is sealed.
  Needles present;
  present.add("swarm", "BitTorrent protocol");
  bool swarm = false;
  std::size_t searched = 0;
  for (const std::string& stream : capture.streams()) {
    for (const std::string& found : needles.found_in(stream)) ADD_FAILURE() << found << " is on the wire";
    swarm = swarm || !present.found_in(stream).empty();
    searched += stream.size();
  }
  EXPECT_TRUE(swarm);
  EXPECT_GT(searched, 4 * used) << "two regions over links, two more copies in swarms";
  std::printf("searched %zu bytes of %zu streams for %zu names, weights and keys\n", searched, capture.streams().size(), needles.size());
  RecordProperty("searched_bytes", static_cast<int>(searched));
}

// That a needle in the haystack would be found, also across packets.
TEST(Needles, AreFound) {
  Needles needles;
  needles.add("a", "0123456789abcdef");
  needles.add("b", "01234567zzz");
  EXPECT_EQ(needles.found_in("xx0123456789abcdefxx"), std::vector<std::string>{"a"});
  EXPECT_EQ(needles.found_in("01234567zzz0123456789abcdef"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(needles.found_in("0123456789abcde").empty());
}

}  // namespace
}  // namespace p2pw::testing
