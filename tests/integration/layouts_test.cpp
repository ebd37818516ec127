// Checkpoints whose layout changes from one version to the next, on real daemons: exact everywhere, whoever
// missed what.
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/integration/fleet.h"
#include "tests/support/checkpoint.h"

namespace p2pw::testing {
namespace {

using Files = std::map<std::string, std::vector<TestTensor>>;

void write_checkpoint(const std::filesystem::path& folder, const Files& files, const std::string& config) {
  std::string map;
  for (const auto& [name, tensors] : files) {
    write_file(folder / name, safetensors(tensors));
    for (const TestTensor& tensor : tensors)
      map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"" + name + "\"";
  }
  write_file(folder / "model.safetensors.index.json",
             R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}");
  write_file(folder / "config.json", config);
}

class LayoutsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (HasFailure()) std::cerr << "seed " << seed << "\n" << fleet.logs();
  }
  TestTensor tensor(const std::string& name, Dtype dtype = Dtype::bf16, std::uint64_t elements = 200'000) {
    return random_tensor(random, name, dtype, elements);
  }
  // Publishes; the kind that it became.
  std::string publish(const Files& files, const std::string& config = "{}") {
    newest = fleet.path() / ("version_" + std::to_string(++version));
    write_checkpoint(newest, files, config);
    Ran seeded = fleet.seed(newest, {"--anchor-every", "0"});
    EXPECT_EQ(seeded.exit_code, 0) << seeded.err;
    return seeded.json["kind"];
  }
  void expect_exact(std::size_t nodes) {
    let_go("r1-2");
    EXPECT_EQ(fleet.wait_active(version, nodes), nodes);
    for (const std::string& name : fleet.nodes()) {
      if (fleet.pid(name) <= 0) continue;  // it is down
      EXPECT_TRUE(same_tree(newest, fleet.current(name))) << name << " version " << version;
    }
  }
  // Its only slot is patched once nobody serves from it.
  void let_go(const std::string& name) {
    for (int i = 0; i < 600; ++i) {
      Ran status = fleet.p2pw(name, {"status"});
      if (status.json.is_object() && status.json["channels"][0]["version_active"] == version) return;
      fleet.p2pw(name, {"release", "--channel", "policy"});
      poll(nullptr, 0, 50);
    }
  }
  static void change(TestTensor& tensor) {
    for (std::size_t i = 0; i < tensor.data.size(); i += 200) tensor.data[i] ^= std::byte{1};
  }

  const std::uint64_t seed = fresh_seed();
  std::mt19937_64 random{seed};
  Fleet fleet;
  std::uint64_t version = 0;
  std::filesystem::path newest;
};

TEST_F(LayoutsTest, EveryChangeArrivesExactlyAlsoWhereVersionsWereMissed) {
  fleet.start_trainer();
  fleet.start_node("r1", 1);
  fleet.start_node("r1", 2, [](Config& config) { config.channels[0].slots = 1; });
  fleet.start_node("r2", 1);
  ASSERT_EQ(fleet.wait_joined(4), 4u);

  Files files{{"a.safetensors", {tensor("embed"), tensor("norm", Dtype::f32, 500)}},
              {"b.safetensors", {tensor("head"), tensor("tail")}}};
  EXPECT_EQ(publish(files), "anchor");
  change(files["a.safetensors"][0]);
  EXPECT_EQ(publish(files), "delta");
  expect_exact(4);
  fleet.kill("r2-1");

  files["b.safetensors"].push_back(tensor("added"));
  EXPECT_EQ(publish(files), "anchor") << "a tensor more";
  expect_exact(3);
  change(files["b.safetensors"][2]);
  EXPECT_EQ(publish(files, R"({"layers": 3})"), "delta") << "the new layout is a parent like any other";
  expect_exact(3);
  // The same tensors in three files.
  files["c.safetensors"] = {files["b.safetensors"][1], files["b.safetensors"][2]};
  files["b.safetensors"].resize(1);
  EXPECT_EQ(publish(files), "anchor") << "other files";
  expect_exact(3);
  files["a.safetensors"][0] = tensor("embed", Dtype::f32);
  EXPECT_EQ(publish(files), "anchor") << "another dtype";
  expect_exact(3);
  files.erase("b.safetensors");
  EXPECT_EQ(publish(files), "anchor") << "a file less";
  change(files["c.safetensors"][0]);
  EXPECT_EQ(publish(files), "delta");

  fleet.start("r2-1");  // it has version 2, of another layout
  expect_exact(4);
  fleet.start_node("r2", 2);
  expect_exact(5);
  std::swap(files["c.safetensors"][0], files["c.safetensors"][1]);
  change(files["a.safetensors"][0]);
  publish(files);  // another order in a file: the slabs are as long as before, so a delta may do
  expect_exact(5);
}

}  // namespace
}  // namespace p2pw::testing
