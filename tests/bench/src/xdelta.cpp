#include "tests/bench/src/xdelta.h"

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace p2pw::bench {
namespace {

bool write_file(const std::filesystem::path& path, const Region& region) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(region.data()), static_cast<std::streamsize>(region.size()));
  return out.good();
}

std::optional<double> seconds_of(const std::string& command) {
  const auto start = std::chrono::steady_clock::now();
  if (std::system((command + " >/dev/null 2>&1").c_str()) != 0) return std::nullopt;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::optional<Row> measure_xdelta(const Pair& pair) {
  if (!seconds_of("command -v xdelta3")) return std::nullopt;
  const testing::TempDir folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  if (!write_file(folder / "old", pair.before) || !write_file(folder / "new", pair.after)) return std::nullopt;
  const auto encode = seconds_of("xdelta3 -e -1 -f -B 2147483648 -s " + path("old") + " " + path("new") + " " + path("d"));
  const auto decode = seconds_of("xdelta3 -d -f -B 2147483648 -s " + path("old") + " " + path("d") + " " + path("out"));
  if (!encode || !decode) return std::nullopt;
  Row row;
  row.codec = "xdelta3 -1";
  row.data = pair.name;
  row.bytes = std::filesystem::file_size(folder / "d");
  row.bits_per_changed_element = static_cast<double>(row.bytes) * 8 / static_cast<double>(std::max<std::uint64_t>(pair.changed, 1));
  const double gigabytes = static_cast<double>(pair.after.size()) / 1e9;
  row.encode = gigabytes / *encode;
  row.decode = gigabytes / *decode;
  return row;
}

}  // namespace p2pw::bench
