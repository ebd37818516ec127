#include "tests/support/checkpoint.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace p2pw::testing {

namespace fs = std::filesystem;

TestTensor random_tensor(std::mt19937_64& random, std::string name, Dtype dtype, std::uint64_t elements) {
  while (elements * bits_of(dtype) % 8 != 0) ++elements;
  TestTensor t{std::move(name), dtype, {elements}, Bytes(elements * bits_of(dtype) / 8)};
  for (std::byte& b : t.data) b = static_cast<std::byte>(random());
  return t;
}

std::string raw_safetensors(const std::string& json, const std::string& data) {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(json.size() >> (8 * i));
  return out + json + data;
}

std::string safetensors(const std::vector<TestTensor>& tensors, bool padded) {
  std::string json = "{", data;
  for (const TestTensor& t : tensors) {
    json += (json.size() > 1 ? ",\"" : "\"") + t.name + "\":{\"dtype\":\"" + std::string(name_of(t.dtype)) +
            "\",\"shape\":[";
    for (std::size_t i = 0; i < t.shape.size(); ++i) json += (i ? "," : "") + std::to_string(t.shape[i]);
    json += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data += as_text(t.data);
    json += std::to_string(data.size()) + "]}";
  }
  json += "}";
  while (padded && json.size() % 8 != 0) json += ' ';
  return raw_safetensors(json, data);
}

void write_file(const fs::path& path, std::string_view contents) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  if (!file.flush()) {
    std::perror(path.c_str());
    std::abort();
  }
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::map<std::string, std::string> tree(const fs::path& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) out[entry.path().lexically_relative(directory).string()] = read_text(entry.path());
  }
  return out;
}

void write_small_checkpoint(const fs::path& directory, std::mt19937_64& random) {
  std::vector<TestTensor> first{random_tensor(random, "embed", Dtype::bf16, 3000),
                                random_tensor(random, "norm", Dtype::f32, 17)};
  std::vector<TestTensor> second{random_tensor(random, "head", Dtype::bf16, 2001),
                                 random_tensor(random, "scale", Dtype::f8_e4m3, 333)};
  write_file(directory / "model-00001-of-00002.safetensors", safetensors(first));
  write_file(directory / "model-00002-of-00002.safetensors", safetensors(second, false));
  write_file(directory / "model.safetensors.index.json",
             R"({"metadata":{"total_size":12},"weight_map":{"embed":"model-00001-of-00002.safetensors",)"
             R"("norm":"model-00001-of-00002.safetensors","head":"model-00002-of-00002.safetensors",)"
             R"("scale":"model-00002-of-00002.safetensors"}})");
  write_file(directory / "config.json", R"({"hidden_size": 64})");
  write_file(directory / "tokenizer/vocab.txt", "a\nb\nc\n");
  write_file(directory / "empty.txt", "");
}

void change_weights(const fs::path& directory, std::mt19937_64& random, double share) {
  for (auto& [name, contents] : tree(directory)) {
    if (!name.ends_with(".safetensors")) continue;
    std::uint64_t header = 8;
    for (std::size_t i = 0; i < 8; ++i) {
      header += static_cast<std::uint64_t>(static_cast<unsigned char>(contents[i])) << (8 * i);
    }
    std::string changed = contents;
    for (std::size_t i = header; i < changed.size(); ++i) {
      if (std::uniform_real_distribution<>(0, 1)(random) < share) changed[i] = static_cast<char>(random());
    }
    write_file(directory / name, changed);
  }
}

std::uint64_t fresh_seed() { return std::random_device{}(); }

}  // namespace p2pw::testing
