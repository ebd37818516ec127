// The index of a sharded checkpoint (model.safetensors.index.json): which tensor lies in which shard. It is a side file
// and travels byte for byte; here it is only checked against the shards. Its total_size is not trusted and not read.
#pragma once

#include "chunker/layout.h"

namespace p2pw {

inline bool is_shard_index_name(std::string_view path) { return path.ends_with(".safetensors.index.json"); }

// `index` is the contents of the file `path` of the layout (a path inside the checkpoint). Every shard that it names
// must be a tensor file of the checkpoint, in the index's own folder or below, and hold the tensor. Tensors that it does
// not name are allowed. Errors: bad_input, starting with `where` + path.
Status check_shard_index(const Layout& layout, std::string_view path, ByteView index, const std::string& where);

}  // namespace p2pw
