#include "chunker/shard_index.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "chunker/name_set.h"
#include "chunker/text.h"

namespace p2pw {
namespace {

using Json = nlohmann::json;

// Collects weight_map, skips everything else.
class IndexSax : public nlohmann::json_sax<Json> {
 public:
  struct Entry {
    std::string tensor;
    std::size_t shard = 0;  // in shards
  };
  std::vector<Entry> entries;
  std::vector<std::string> shards;  // each once
  bool has_map = false;
  std::string reason;

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_unsigned(number_unsigned_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }

  bool string(string_t& value) override {
    if (!in_map()) return other();
    entries.push_back({std::move(tensor_), number_of(value)});
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      map_next_ = name == "weight_map";
      if (map_next_ && std::exchange(has_map, true)) return stop("the key \"weight_map\" occurs twice");
    } else if (in_map()) {
      tensor_ = std::move(name);
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (in_map()) return other();
    if (map_next_) map_depth_ = depth_ + 1;
    map_next_ = false;
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (in_map()) map_depth_ = 0;
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (!other()) return false;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (reason.empty()) reason = "not valid UTF-8 JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  bool in_map() const { return map_depth_ != 0 && depth_ == map_depth_; }
  bool other() {
    if (map_next_) return stop("weight_map is not an object");
    if (in_map()) return stop("tensor \"" + printable(tensor_) + "\": the shard's name is not a string");
    if (depth_ == 0) return stop("not a JSON object");
    return true;
  }
  // The same shard comes many times in a row.
  std::size_t number_of(const std::string& shard) {
    if (last_ < shards.size() && shards[last_] == shard) return last_;
    auto [known, fresh] = numbers_.try_emplace(shard, shards.size());
    if (fresh) shards.push_back(shard);
    return last_ = known->second;
  }
  bool stop(std::string why) {
    reason = std::move(why);
    return false;
  }

  std::size_t depth_ = 0, map_depth_ = 0;
  bool map_next_ = false;
  std::string tensor_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::size_t last_ = 0;
};

}  // namespace

Status check_shard_index(const Layout& layout, std::string_view path, ByteView index, const std::string& where) {
  auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::bad_input, where + printable(path) + ": " + why);
  };
  std::string_view text = as_text(index);
  // The JSON library takes a NUL for the end of its input.
  if (text.find('\0') != std::string_view::npos) return refuse("holds a NUL byte");
  IndexSax sax;
  try {
    if (!Json::sax_parse(text.begin(), text.end(), &sax)) return refuse(sax.reason);
  } catch (const std::exception& e) {
    return refuse(std::string("cannot be read: ") + e.what());
  }
  if (!sax.has_map) return refuse("has no weight_map");

  std::vector<std::string_view> names;
  names.reserve(sax.entries.size());
  for (const IndexSax::Entry& entry : sax.entries) names.push_back(entry.tensor);
  if (auto twice = NameSet(names).repeated()) return refuse("tensor \"" + printable(*twice) + "\" occurs twice");

  std::string folder(path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1));
  std::vector<std::optional<NameSet>> shards(sax.shards.size());
  for (const IndexSax::Entry& entry : sax.entries) {
    const std::string& shard = sax.shards[entry.shard];
    if (!shards[entry.shard]) {
      auto name = "shard \"" + printable(shard) + "\" of tensor \"" + printable(entry.tensor) + "\"";
      if (std::string why = why_bad_path(shard); !why.empty()) {
        return refuse(name + " is outside the checkpoint: its name " + why);
      }
      auto file = layout.table().find(folder + shard);
      if (!file) return refuse(name + " is missing");
      if (!layout.files()[*file].is_tensor_file()) return refuse(name + " is not a .safetensors file");
      names.clear();
      for (const TensorEntry& tensor : layout.files()[*file].tensors) names.push_back(tensor.name);
      shards[entry.shard].emplace(names);
    }
    if (!shards[entry.shard]->contains(entry.tensor)) {
      return refuse("tensor \"" + printable(entry.tensor) + "\" is not in its shard \"" + printable(shard) + "\"");
    }
  }
  return {};
}

}  // namespace p2pw
