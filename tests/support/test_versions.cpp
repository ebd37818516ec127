#include "tests/support/test_versions.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "protocol/hash.h"
#include "protocol/limits.h"

namespace p2pw::testing {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "test support: %s\n", result.error().message.c_str());
    std::abort();
  }
  return std::move(result).value();
}

Bytes to_bytes(std::string_view text) {
  ByteView view = as_bytes(text);
  return Bytes(view.begin(), view.end());
}

Bytes tensor_file(std::mt19937_64& random, std::size_t tensors, std::size_t elements) {
  std::string json = "{";
  std::size_t offset = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    bool half = i % 2 == 0;
    std::size_t bytes = elements * (half ? 2 : 4);
    json += (i == 0 ? "" : ",") + ("\"t" + std::to_string(i) + "\":{\"dtype\":\"" + (half ? "BF16" : "F32") +
                                   "\",\"shape\":[" + std::to_string(elements) + "],\"data_offsets\":[" +
                                   std::to_string(offset) + "," + std::to_string(offset + bytes) + "]}");
    offset += bytes;
  }
  json += "}";
  Bytes file(8);
  for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<std::byte>(json.size() >> (8 * i));
  for (char c : json) file.push_back(static_cast<std::byte>(c));
  for (std::size_t i = 0; i < offset; ++i) file.push_back(static_cast<std::byte>(random()));
  return file;
}

std::size_t header_bytes(const Bytes& file) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::size_t>(file[i]) << (8 * i);
  return 8 + length;
}

std::shared_ptr<const Layout> layout_of(const Files& files) {
  std::vector<FileEntry> entries;
  std::vector<Bytes> headers;
  for (const auto& [path, bytes] : files) {
    FileEntry& entry = entries.emplace_back();
    entry.path = path;
    entry.size = bytes.size();
    if (!path.ends_with(".safetensors")) continue;
    entry.header_bytes = header_bytes(bytes);
    headers.emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(entry.header_bytes));
  }
  FileTable table = must(FileTable::make(std::move(entries), ErrorCode::bad_input));
  return std::make_shared<Layout>(must(Layout::from_parts(table.encoded(), std::move(headers))));
}

Bytes slab_bytes(const Layout& layout, const Files& files, const Slab& slab) {
  if (slab.id == SlabId::bytes(0)) return layout.file_table();
  const Bytes& file = files.at(layout.files()[slab.file].path);
  auto begin = file.begin() + static_cast<std::ptrdiff_t>(slab.offset);
  return Bytes(begin, begin + slab.length);
}

}  // namespace

std::shared_ptr<BundleFile> TestRun::Bundle::file(const std::filesystem::path& directory) const {
  return must(BundleFile::open(directory / id.hex(), record, meta->chunk_roots));
}

ByteView TestRun::Bundle::chunk(std::uint32_t index) const {
  return ByteView(bytes).subspan(std::size_t(index) * record.chunk_bytes, record.chunk_used(ChunkIndex(index)));
}

TestSeries::TestSeries(std::uint64_t seed, SeriesShape shape)
    : random_(seed), shape_(shape), secret_(FleetSecret::generate()) {}

const TestVersion& TestSeries::keep(Version version, Files files) {
  TestVersion& made = versions_[version];
  made.version = version;
  made.files = std::move(files);
  made.table.bytes.layout = layout_of(made.files);
  const Layout& layout = *made.table.bytes.layout;
  for (const Slab& slab : layout.byte_slabs()) {
    made.byte_slabs.push_back(slab_bytes(layout, made.files, slab));
    made.table.bytes.digests.push_back(codec::digest_of(made.byte_slabs.back()));
  }
  for (const Slab& slab : layout.tensor_slabs()) {
    made.tensor_slabs.push_back(slab_bytes(layout, made.files, slab));
    made.table.tensors.push_back(codec::digest_of(made.tensor_slabs.back()));
  }
  newest_ = std::max(newest_, version);
  return made;
}

const TestVersion& TestSeries::first() {
  Files files;
  for (std::size_t i = 0; i < shape_.files; ++i) {
    std::string path = (i % 2 == 1 ? "sub/model-" : "model-") + std::to_string(i) + ".safetensors";
    files[path] = tensor_file(random_, shape_.slabs_per_file, shape_.elements);
  }
  files["config.json"] = to_bytes("{\"step\": 1}");
  files["empty.txt"] = {};
  files["sub/tokenizer.json"] = to_bytes("[1, 2, 3]");
  return keep(Version(1), std::move(files));
}

Files TestSeries::change(const TestVersion& parent, bool side) {
  Files files = parent.files;
  for (const Slab& slab : parent.table.bytes.layout->tensor_slabs()) {
    if (std::uniform_real_distribution<>(0, 1)(random_) >= shape_.slabs_changed) continue;
    Bytes& file = files.at(parent.table.bytes.layout->files()[slab.file].path);
    for (std::size_t i = 0; i < 1 + slab.length / 50; ++i) {
      file[slab.offset + random_() % slab.length] = static_cast<std::byte>(random_());
    }
  }
  if (side) {
    Bytes& config = files.at("config.json");
    Bytes more = to_bytes(" // and " + std::to_string(random_() % 100000));
    config.insert(config.end(), more.begin(), more.end());
    if (files.erase("added.txt") == 0) files["added.txt"] = to_bytes("came later");
  }
  return files;
}

const TestVersion& TestSeries::step(Version parent, bool side) { 
  return keep(newest_.next(), change(at(parent), side));
}

const TestVersion& TestSeries::step_again(Version parent, Version version) {
  return keep(version, change(at(parent), false));
}

const TestVersion& TestSeries::reshape(Version parent) {
  Files files = at(parent).files;
  shape_.slabs_per_file += 1;
  for (auto& [path, bytes] : files) {
    if (path.ends_with(".safetensors")) bytes = tensor_file(random_, shape_.slabs_per_file, shape_.elements);
  }
  return keep(newest_.next(), std::move(files));
}

TestSeries::Frames TestSeries::frames(const TestVersion* parent, const TestVersion& now) {
  Frames frames;
  const Layout& layout = *now.table.bytes.layout;
  for (const Slab& slab : layout.byte_slabs()) {
    const Bytes& bytes = now.byte_slabs[slab.id.index()];
    const Slab* old = parent == nullptr ? nullptr : layout.counterpart(slab, *parent->table.bytes.layout);
    ByteFrame frame;
    codec::Encoded encoded;
    if (parent == nullptr) {
      encoded = encoder_.encode_anchor(bytes, Dtype::bytes, frame.frame);
    } else {
      encoded = encoder_.encode_delta(old == nullptr ? ByteView() : ByteView(parent->byte_slabs[old->id.index()]), bytes,
                                      Dtype::bytes, frame.frame);
    }
    frame.digest = encoded.digest;
    if (encoded.changed || old == nullptr) frames.bytes.emplace(slab.id.index(), std::move(frame));
  }
  for (const Slab& slab : layout.tensor_slabs()) {
    const Bytes& bytes = now.tensor_slabs[slab.id.index()];
    ByteFrame frame;
    codec::Encoded encoded =
        parent == nullptr ? encoder_.encode_anchor(bytes, slab.dtype, frame.frame)
                          : encoder_.encode_delta(parent->tensor_slabs[slab.id.index()], bytes, slab.dtype, frame.frame);
    frame.digest = encoded.digest;
    if (encoded.changed) frames.tensors.emplace(slab.id.index(), std::move(frame));
  }
  return frames;
}

TestRun TestSeries::anchor(Version version, std::size_t frames_per_bundle) {
  return run(Kind::anchor, nullptr, at(version), frames_per_bundle);
}

TestRun TestSeries::delta(Version parent, Version version, std::size_t frames_per_bundle) {
  return run(Kind::delta, &at(parent), at(version), frames_per_bundle);
}

TestRun TestSeries::run(Kind kind, const TestVersion* parent, const TestVersion& now, std::size_t frames_per_bundle) {
  TestRun run;
  run.id = random_blob<RunId>();
  run.open.version = now.version;
  run.open.kind = kind;
  run.open.parent = parent == nullptr ? Version() : parent->version;
  run.open.salt = random_blob<Salt>();
  run.open.layout_hash = now.table.bytes.layout->hash();
  run.open.chunk_bytes = limits::kMinChunkBytes;
  run.open.tensor_slabs = static_cast<std::uint32_t>(now.table.tensors.size());
  if (parent != nullptr) run.open.parent_table = parent->table.hash();
  RunContext context{*Channel::parse("policy"), now.version, run.open.parent, kind, run.open.salt};
  run.sealer = std::make_shared<FrameSealer>(FrameKey::derive(secret_, context), context);

  Frames plain = frames(parent, now);
  std::vector<std::pair<SlabId, ByteFrame>> all;
  for (auto& [index, frame] : plain.bytes) all.emplace_back(SlabId::bytes(index), std::move(frame));
  for (auto& [index, frame] : plain.tensors) all.emplace_back(SlabId::tensor(index), std::move(frame));
  for (std::size_t begin = 0; begin < all.size(); begin += frames_per_bundle) {
    std::size_t end = std::min(begin + frames_per_bundle, all.size());
    run.bundles.push_back(bundle(run, all, begin, end, static_cast<std::uint32_t>(run.bundles.size())));
  }
  run.seal.run = run.id;
  run.seal.version = now.version;
  run.seal.bundles = static_cast<std::uint32_t>(run.bundles.size());
  run.seal.table_hash = now.table.hash();
  run.seal.byte_slabs = static_cast<std::uint32_t>(now.table.bytes.digests.size());
  run.seal.tensor_slabs = run.open.tensor_slabs;
  run.seal_hash = random_blob<SealHash>();
  return run;
}

TestRun::Bundle TestSeries::bundle(const TestRun& run, const std::vector<std::pair<SlabId, ByteFrame>>& frames,
                                   std::size_t begin, std::size_t end, std::uint32_t index) {
  TestRun::Bundle bundle;
  BundleMeta meta;
  for (std::size_t i = begin; i < end; ++i) {
    FrameEntry entry{frames[i].first, bundle.bytes.size(), 0, frames[i].second.digest};
    run.sealer->seal(BundleIndex(index), FrameIndex(static_cast<std::uint32_t>(i - begin)), entry.slab,
                     frames[i].second.frame, bundle.bytes);
    entry.length = static_cast<std::uint32_t>(bundle.bytes.size() - entry.offset);
    meta.frames.push_back(entry);
  }
  bundle.id = random_blob<BundleId>();
  bundle.record.run = run.id;
  bundle.record.version = run.open.version;
  bundle.record.index = BundleIndex(index);
  bundle.record.used_bytes = bundle.bytes.size();
  bundle.record.chunk_bytes = run.open.chunk_bytes;
  for (std::uint32_t i = 0; i < bundle.record.chunk_count(); ++i) {
    meta.chunk_roots.push_back(chunk_root(bundle.chunk(i), bundle.record.chunk_bytes));
  }
  bundle.meta = std::make_shared<BundleMeta>(std::move(meta));
  return bundle;
}

}  // namespace p2pw::testing
