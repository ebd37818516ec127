#include "chunker/shard_index.h"

#include <simdjson.h>

#include <map>

#include "chunker/name_set.h"
#include "chunker/text.h"

namespace p2pw {
namespace dom = simdjson::dom;

Status check_shard_index(const Layout& layout, std::string_view path, ByteView index, const std::string& where) {
  auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::bad_input, where + printable(path) + ": " + why);
  };
  dom::parser parser;
  dom::element root;
  simdjson::error_code bad = parser.parse(as_text(index).data(), index.size()).get(root);
  if (bad != simdjson::SUCCESS) {
    return refuse(std::string("not valid UTF-8 JSON: ") + simdjson::error_message(bad));
  }
  dom::object fields, map;
  if (root.get_object().get(fields) != simdjson::SUCCESS) return refuse("not a JSON object");
  bool has_map = false;
  for (dom::key_value_pair field : fields) {
    if (field.key != "weight_map") continue;
    if (std::exchange(has_map, true)) return refuse("the key \"weight_map\" occurs twice");
    if (field.value.get_object().get(map) != simdjson::SUCCESS) return refuse("weight_map is not an object");
  }
  if (!has_map) return refuse("has no weight_map");

  struct Row {
    std::string_view tensor, shard;
  };
  std::vector<Row> rows;
  std::vector<std::string_view> names;
  for (dom::key_value_pair field : map) {
    std::string_view shard;
    if (field.value.get_string().get(shard) != simdjson::SUCCESS) {
      return refuse("tensor \"" + printable(field.key) + "\": the shard's name is not a string");
    }
    rows.push_back({field.key, shard});
    names.push_back(field.key);
  }
  if (auto twice = NameSet(names).repeated()) return refuse("tensor \"" + printable(*twice) + "\" occurs twice");

  std::string folder(path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1));
  std::map<std::string_view, NameSet> shards;
  for (const auto& [tensor, shard] : rows) {
    auto known = shards.find(shard);
    if (known == shards.end()) {
      auto name = "shard \"" + printable(shard) + "\" of tensor \"" + printable(tensor) + "\"";
      if (std::string why = why_bad_path(shard); !why.empty()) {
        return refuse(name + " is outside the checkpoint: its name " + why);
      }
      auto file = layout.table().find(folder + std::string(shard));
      if (!file) return refuse(name + " is missing");
      if (!layout.files()[*file].is_tensor_file()) return refuse(name + " is not a .safetensors file");
      names.clear();
      for (const TensorEntry& entry : layout.files()[*file].tensors) names.push_back(entry.name);
      known = shards.emplace(shard, NameSet(names)).first;
    }
    if (!known->second.contains(tensor)) {
      return refuse("tensor \"" + printable(tensor) + "\" is not in its shard \"" + printable(shard) + "\"");
    }
  }
  return {};
}

}  // namespace p2pw
