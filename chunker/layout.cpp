#include "chunker/layout.h"

#include <algorithm>

#include "chunker/layout_builder.h"
#include "chunker/text.h"
#include "protocol/limits.h"

namespace p2pw {

LayoutBuilder::LayoutBuilder(FileTable table, ErrorCode code, std::string where)
    : code_(code), where_(std::move(where)) {
  layout_.table_ = std::move(table);
  hash_.add(layout_.file_table());
  skip_side_files();
}

const FileEntry* LayoutBuilder::next() const {
  return next_ < layout_.files().size() ? &layout_.files()[next_] : nullptr;
}

void LayoutBuilder::skip_side_files() {
  while (next() != nullptr && !next()->is_tensor_file()) ++next_;
}

Result<std::vector<TensorEntry>> LayoutBuilder::parse(const FileEntry& file, ByteView header) const {
  if (header.size() != file.header_bytes) {
    return fail(code_, where_ + printable(file.path) + ": the header is not as long as the file table says");
  }
  return parse_safetensors_header(header, file.size, where_ + printable(file.path), code_);
}

Status LayoutBuilder::add_header(ByteView header) {
  P2PW_TRY(std::vector<TensorEntry> tensors, parse(*next(), header));
  return add_parsed(header, std::move(tensors));
}

Status LayoutBuilder::add_parsed(ByteView header, std::vector<TensorEntry> tensors) {
  FileEntry& file = layout_.table_.files_[next_];
  file.tensors = std::move(tensors);
  tensors_ += file.tensors.size();
  if (tensors_ > limits::kMaxTensors) return fail(code_, "the checkpoint has more than 16,000,000 tensors");
  P2PW_CHECK(cut(file));
  hash_.add(header);
  ++next_;
  skip_side_files();
  return {};
}

Status LayoutBuilder::cut(const FileEntry& file) {
  std::vector<Slab>& slabs = layout_.tensor_slabs_;
  auto cut_run = [&](std::uint64_t begin, std::uint64_t end, Dtype dtype) -> Status {
    for (; begin < end; begin += limits::kSlabBytes) {
      if (slabs.size() == limits::kMaxSlabs) return fail(code_, "the checkpoint needs more than 4 million slabs");
      auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(limits::kSlabBytes, end - begin));
      SlabId id = SlabId::tensor(static_cast<std::uint32_t>(slabs.size()));
      slabs.push_back({id, static_cast<std::uint32_t>(next_), begin, length, dtype});
      layout_.total_elements_ += length / element_bytes(dtype);
    }
    return {};
  };
  std::uint64_t begin = file.header_bytes, end = begin;
  Dtype dtype = Dtype::bytes;
  for (const TensorEntry& tensor : file.tensors) {
    if (tensor.begin == tensor.end) continue;
    if (tensor.dtype != dtype) {
      P2PW_CHECK(cut_run(begin, end, dtype));
      begin = tensor.begin;
      dtype = tensor.dtype;
    }
    end = tensor.end;
  }
  return cut_run(begin, end, dtype);
}

Result<Layout> LayoutBuilder::finish() {
  layout_.hash_.data = hash_.finish().data;
  return std::move(layout_);
}

const Slab* Layout::find(SlabId id) const {
  const std::vector<Slab>& slabs = id.is_bytes() ? byte_slabs() : tensor_slabs();
  return id.index() < slabs.size() ? &slabs[id.index()] : nullptr;
}

bool Layout::same_tensor_slabs(const Layout& other) const {
  auto tensor_files = [](const Layout& layout) {
    std::vector<const FileEntry*> out;
    for (const FileEntry& file : layout.files()) {
      if (file.is_tensor_file()) out.push_back(&file);
    }
    return out;
  };
  auto same_file = [](const FileEntry* a, const FileEntry* b) {
    return a->path == b->path && a->size == b->size && a->header_bytes == b->header_bytes;
  };
  // The files are the same, so are their sizes; side files in between shift only the indices.
  auto same_slab = [&](const Slab& a, const Slab& b) {
    return a.offset == b.offset && a.length == b.length && a.dtype == b.dtype &&
           files()[a.file].path == other.files()[b.file].path;
  };
  auto mine = tensor_files(*this), theirs = tensor_files(other);
  return std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), same_file) &&
         std::equal(tensor_slabs_.begin(), tensor_slabs_.end(), other.tensor_slabs_.begin(),
                    other.tensor_slabs_.end(), same_slab);
}

Result<Layout> Layout::from_parts(ByteView file_table, std::vector<Bytes> headers) {
  P2PW_TRY(FileTable table, FileTable::parse(file_table));
  LayoutBuilder builder(std::move(table), ErrorCode::malformed, "");
  for (Bytes& header : headers) {
    if (builder.next() == nullptr) return fail(ErrorCode::malformed, "more headers than tensor files");
    P2PW_CHECK(builder.add_header(header));
    Bytes().swap(header);
  }
  if (const FileEntry* missing = builder.next()) {
    return fail(ErrorCode::malformed, printable(missing->path) + ": its header is missing");
  }
  return builder.finish();
}

Sha256 slab_table_hash(const LayoutHash& layout, std::span<const Digest> byte_slabs,
                       std::span<const Digest> tensor_slabs) {
  Sha256Stream hash;
  hash.add(layout.view());
  hash.add(std::as_bytes(byte_slabs));
  hash.add(std::as_bytes(tensor_slabs));
  return hash.finish();
}

}  // namespace p2pw
