#include "chunker/sparse_export.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "chunker/delta_slabs.h"
#include "chunker/parallel.h"
#include "chunker/slab_buffer.h"
#include "chunker/text.h"

namespace p2pw {
namespace {

constexpr std::size_t kIndexBytes = 8;

// Elements that change together, since they share a byte.
unsigned elements_in_unit(Dtype dtype) { return dtype == Dtype::f4 ? 2 : 1; }

// The part of a tensor that lies in one slab, and where its changes go in the file.
struct Piece {
  std::uint32_t tensor = 0;     // in tensors_
  std::uint64_t slab_begin = 0; // bytes
  std::uint64_t bytes = 0;
  std::uint64_t first_unit = 0;  // of the tensor
  std::uint64_t changed = 0;     // units
  std::uint64_t before = 0;      // changed units of the tensor in earlier pieces
};

struct ChangedTensor {
  const TensorEntry* entry = nullptr;
  std::uint64_t changed = 0;  // units
  std::uint64_t indices = 0, values = 0;  // offsets in the file
  bool has_changed = false;
  Sha256 before, after;
};

// What stands in each slab before and after.
class SparseSource {
 public:
  virtual ~SparseSource() = default;
  virtual const Layout& layout() const = 0;
  virtual const SlabReader& before() const = 0;
  virtual bool may_differ(const Slab& slab) const = 0;
  // `now` holds the bytes from before.
  virtual Status after(const Slab& slab, codec::SlabDecoder& decoder, Bytes& frame, std::span<std::byte> now) const = 0;
  virtual nlohmann::ordered_json labels() const = 0;
};

class DeltaSource : public SparseSource {
 public:
  DeltaSource(std::span<const DeltaFile> deltas, const SlabReader& parent) : deltas_(deltas), parent_(parent) {}

  Status open() {
    P2PW_TRY(layout_, DeltaByteSlabs(deltas_.front(), &parent_).layout());
    P2PW_TRY(SlabDigests digests, digest_checkpoint({parent_.directory(), &parent_.layout()}, {}));
    if (digests.table_hash(parent_.layout().hash()) != deltas_.front().info().parent_table) {
      return fail(ErrorCode::wrong_parent, "not the parent");  // explain_failure() says which file
    }
    for (std::size_t i = 1; i < deltas_.size(); ++i) {
      if (deltas_[i].info().parent_table == deltas_[i - 1].info().table) continue;
      return fail(ErrorCode::wrong_parent, deltas_[i].path().string() + ": does not continue " + deltas_[i - 1].path().string() +
                                               ": give the deltas in their order, without a gap");
    }
    return {};
  }

  const Layout& layout() const override { return *layout_; }
  const SlabReader& before() const override { return parent_; }
  bool may_differ(const Slab& slab) const override {
    for (const DeltaFile& delta : deltas_) {
      if (delta.find(slab.id) != nullptr) return true;
    }
    return false;
  }
  Status after(const Slab& slab, codec::SlabDecoder& decoder, Bytes& frame, std::span<std::byte> now) const override {
    for (const DeltaFile& delta : deltas_) {
      const DeltaFile::Entry* entry = delta.find(slab.id);
      if (entry == nullptr) continue;
      P2PW_CHECK(delta.read(*entry, frame));
      P2PW_TRY(codec::Decoded decoded, decoder.decode_in_place(frame, slab.dtype, now));
      if (decoded.digest != entry->digest) return damaged_delta(delta, "a frame decodes to other bytes than it should");
    }
    return {};
  }
  nlohmann::ordered_json labels() const override {
    return {{"parent_table_hash", deltas_.front().info().parent_table.hex()}, {"table_hash", deltas_.back().info().table.hex()}};
  }

 private:
  std::span<const DeltaFile> deltas_;
  const SlabReader& parent_;
  std::optional<Layout> layout_;
};

class CheckpointSource : public SparseSource {
 public:
  CheckpointSource(const SparseEnds& ends, const SlabReader& before, const SlabReader& after)
      : ends_(ends), before_(before), after_(after) {}
  const Layout& layout() const override { return after_.layout(); }
  const SlabReader& before() const override { return before_; }
  bool may_differ(const Slab&) const override { return true; }
  Status after(const Slab& slab, codec::SlabDecoder&, Bytes&, std::span<std::byte> now) const override {
    return after_.read(slab, now);
  }
  nlohmann::ordered_json labels() const override {
    nlohmann::ordered_json labels = {{"parent_table_hash", ends_.table_before.hex()}, {"table_hash", ends_.table_after.hex()}};
    if (ends_.version_before != 0) labels["parent_version"] = std::to_string(ends_.version_before);
    if (ends_.version_after != 0) labels["version"] = std::to_string(ends_.version_after);
    return labels;
  }

 private:
  const SparseEnds& ends_;
  const SlabReader& before_;
  const SlabReader& after_;
};

class SparseExport {
 public:
  SparseExport(const SparseSource& source, const std::function<bool()>& stop)
      : source_(source), layout_(source.layout()), stop_(stop), workers_(default_threads()) {}

  Result<SparseSummary> run(const std::filesystem::path& target) {
    P2PW_CHECK(list_pieces());
    P2PW_CHECK(each_slab([](Piece& piece, const Units& units) -> Status {
      piece.changed = units.count;
      return {};
    }));
    P2PW_CHECK(add_digests());
    std::string header = lay_out();
    P2PW_TRY(TemporaryPath temporary, TemporaryPath::beside(target));
    P2PW_TRY(File file, File::create(temporary.path()));
    P2PW_CHECK(file.write(0, as_bytes(header)));
    P2PW_CHECK(file.reserve(summary_.bytes));
    P2PW_CHECK(each_slab([&](const Piece& piece, const Units& units) { return write(file, piece, units); }));
    P2PW_CHECK(check_header(file, target));
    P2PW_CHECK(file.sync());
    P2PW_CHECK(temporary.rename_to(target));
    return summary_;
  }

 private:
  struct Worker {
    codec::SlabDecoder decoder;
    SlabBuffer old, now;
    Bytes frame, indices, values;
  };
  // The changed units of one piece.
  struct Units {
    std::uint64_t count = 0;
    const Bytes& indices;
    const Bytes& values;
  };
  using PieceWork = std::function<Status(Piece&, const Units&)>;

  // Walks tensors and slabs together; only slabs with a frame have pieces.
  Status list_pieces() {
    pieces_.resize(layout_.tensor_slabs().size());
    for (const FileEntry& file : layout_.files()) {
      for (const TensorEntry& tensor : file.tensors) tensors_.push_back({&tensor, 0, 0, 0, false, {}, {}});
    }
    std::uint32_t tensor = 0;
    std::size_t slab = 0;
    for (std::uint32_t f = 0; f < layout_.files().size(); ++f) {
      for (const TensorEntry& entry : layout_.files()[f].tensors) {
        P2PW_CHECK(cut(f, entry, tensor++, slab));
      }
    }
    return {};
  }

  Status cut(std::uint32_t file, const TensorEntry& entry, std::uint32_t tensor, std::size_t& slab) {
    const std::vector<Slab>& slabs = layout_.tensor_slabs();
    unsigned width = element_bytes(entry.dtype);
    for (std::uint64_t at = entry.begin; at < entry.end;) {
      while (slabs[slab].file != file || slabs[slab].offset + slabs[slab].length <= at) ++slab;
      std::uint64_t end = std::min<std::uint64_t>(entry.end, slabs[slab].offset + slabs[slab].length);
      if (source_.may_differ(slabs[slab])) {
        if (bits_of(entry.dtype) == 6) {
          return fail(ErrorCode::unsupported, "tensor \"" + printable(entry.name) + "\": " +
                                                  std::string(name_of(entry.dtype)) +
                                                  " elements have no bytes of their own; no sparse form");
        }
        pieces_[slab].push_back({tensor, at - slabs[slab].offset, end - at, (at - entry.begin) / width, 0, 0});
      }
      at = end;
    }
    return {};
  }

  Status each_slab(const PieceWork& work) {
    return parallel_for(static_cast<unsigned>(workers_.size()), pieces_.size(), [&](unsigned number, std::size_t i) -> Status {
      if (stop_ && stop_()) return fail(ErrorCode::interrupted, "interrupted");
      if (pieces_[i].empty()) return {};
      if (!workers_[number]) workers_[number] = std::make_unique<Worker>();
      return one_slab(layout_.tensor_slabs()[i], pieces_[i], *workers_[number], work);
    });
  }

  Status one_slab(const Slab& slab, std::vector<Piece>& pieces, Worker& worker, const PieceWork& work) {
    P2PW_CHECK(read(slab, worker));
    auto old = worker.old.get(slab.length), now = worker.now.get(slab.length);
    for (Piece& piece : pieces) {
      std::uint64_t count = collect(slab.dtype, piece, old, now, worker);
      if (count != 0) P2PW_CHECK(work(piece, Units{count, worker.indices, worker.values}));
    }
    return {};
  }

  Status read(const Slab& slab, Worker& worker) const {
    auto old = worker.old.get(slab.length), now = worker.now.get(slab.length);
    P2PW_CHECK(source_.before().read(source_.before().layout().tensor_slabs()[slab.id.index()], old));
    std::memcpy(now.data(), old.data(), old.size());
    return source_.after(slab, worker.decoder, worker.frame, now);
  }

  // SHA-256 of the changed tensors, before and after: in order within a file, files side by side.
  Status add_digests() {
    for (auto& pieces : pieces_) {
      for (const Piece& piece : pieces) tensors_[piece.tensor].has_changed |= piece.changed != 0;
    }
    std::vector<std::uint32_t> first;  // tensor of each file
    std::uint32_t count = 0;
    for (const FileEntry& file : layout_.files()) {
      first.push_back(count);
      count += static_cast<std::uint32_t>(file.tensors.size());
    }
    return parallel_for(static_cast<unsigned>(workers_.size()), first.size(), [&](unsigned number, std::size_t f) -> Status {
      if (!workers_[number]) workers_[number] = std::make_unique<Worker>();
      return digest_file(static_cast<std::uint32_t>(f), first[f], *workers_[number]);
    });
  }

  Status digest_file(std::uint32_t file, std::uint32_t tensor, Worker& worker) {
    const std::vector<Slab>& slabs = layout_.tensor_slabs();
    std::size_t slab = 0;
    const Slab* held = nullptr;
    for (const TensorEntry& entry : layout_.files()[file].tensors) {
      ChangedTensor& t = tensors_[tensor++];
      if (!t.has_changed) continue;
      Sha256Stream before, after;
      for (std::uint64_t at = entry.begin; at < entry.end;) {
        if (stop_ && stop_()) return fail(ErrorCode::interrupted, "interrupted");
        while (slabs[slab].file != file || slabs[slab].offset + slabs[slab].length <= at) ++slab;
        if (held != &slabs[slab]) P2PW_CHECK(read(slabs[slab], worker));
        held = &slabs[slab];
        std::uint64_t end = std::min<std::uint64_t>(entry.end, held->offset + held->length);
        before.add(ByteView(worker.old.get(held->length)).subspan(at - held->offset, end - at));
        after.add(ByteView(worker.now.get(held->length)).subspan(at - held->offset, end - at));
        at = end;
      }
      t.before = before.finish();
      t.after = after.finish();
    }
    return {};
  }

  static std::uint64_t collect(Dtype dtype, const Piece& piece, ByteView old, ByteView now, Worker& worker) {
    worker.indices.clear();
    worker.values.clear();
    unsigned width = element_bytes(dtype), per_unit = elements_in_unit(dtype);
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at < piece.bytes; at += width) {
      const std::byte* a = old.data() + piece.slab_begin + at;
      const std::byte* b = now.data() + piece.slab_begin + at;
      if (std::memcmp(a, b, width) == 0) continue;
      ++count;
      for (unsigned k = 0; k < per_unit; ++k) {
        auto index = static_cast<std::int64_t>((piece.first_unit + at / width) * per_unit + k);
        auto raw = std::as_bytes(std::span(&index, 1));
        worker.indices.insert(worker.indices.end(), raw.begin(), raw.end());
      }
      worker.values.insert(worker.values.end(), b, b + width);
    }
    return count;
  }

  // Offsets for all pieces, and the header.
  std::string lay_out() {
    for (auto& pieces : pieces_) {
      for (Piece& piece : pieces) {
        piece.before = tensors_[piece.tensor].changed;
        tensors_[piece.tensor].changed += piece.changed;
      }
    }
    nlohmann::ordered_json header;
    nlohmann::ordered_json before = nlohmann::ordered_json::object(), after = before;
    for (const ChangedTensor& t : tensors_) {
      if (!t.has_changed) continue;
      before[t.entry->name] = t.before.hex();
      after[t.entry->name] = t.after.hex();
    }
    header["__metadata__"] = {{"format", "p2pw-sparse-1"}};
    header["__metadata__"].update(source_.labels());
    header["__metadata__"]["sha256_before"] = before.dump();
    header["__metadata__"]["sha256"] = after.dump();
    std::uint64_t at = 0;
    auto add = [&](const std::string& name, std::string_view dtype, std::uint64_t elements, std::uint64_t bytes) {
      header[name] = {{"dtype", dtype}, {"shape", {elements}}, {"data_offsets", {at, at + bytes}}};
      return std::exchange(at, at + bytes);
    };
    for (ChangedTensor& t : tensors_) {  // all indices first: the widest elements stay aligned
      if (t.changed == 0) continue;
      std::uint64_t elements = t.changed * elements_in_unit(t.entry->dtype);
      t.indices = add(t.entry->name + ".indices", "I64", elements, elements * kIndexBytes);
      ++summary_.tensors;
      summary_.elements += elements;
    }
    for (ChangedTensor& t : tensors_) {
      if (t.changed == 0) continue;
      t.values = add(t.entry->name + ".values", name_of(t.entry->dtype),
                     t.changed * elements_in_unit(t.entry->dtype), t.changed * element_bytes(t.entry->dtype));
    }
    std::string json = header.dump();
    while (json.size() % 8 != 0) json += ' ';
    std::string prefix(kSafetensorsPrefix, '\0');
    for (std::size_t i = 0; i < prefix.size(); ++i) prefix[i] = static_cast<char>(json.size() >> (8 * i));
    header_bytes_ = prefix.size() + json.size();
    summary_.bytes = header_bytes_ + at;
    return prefix + json;
  }

  Status write(const File& file, const Piece& piece, const Units& units) const {
    const ChangedTensor& t = tensors_[piece.tensor];
    std::uint64_t per_unit = elements_in_unit(t.entry->dtype);
    P2PW_CHECK(file.write(header_bytes_ + t.indices + piece.before * per_unit * kIndexBytes, units.indices));
    return file.write(header_bytes_ + t.values + piece.before * element_bytes(t.entry->dtype), units.values);
  }

  // Names are the user's: "a" and "a.indices" in one model would clash here.
  Status check_header(const File& file, const std::filesystem::path& target) const {
    Bytes header(header_bytes_);
    P2PW_CHECK(file.read(0, header));
    auto parsed = parse_safetensors_header(header, summary_.bytes, target.string(), ErrorCode::bad_input);
    if (!parsed) return std::move(parsed).error();
    return {};
  }

  const SparseSource& source_;
  const Layout& layout_;
  const std::function<bool()>& stop_;
  std::vector<ChangedTensor> tensors_;
  std::vector<std::vector<Piece>> pieces_;  // of each tensor slab
  std::vector<std::unique_ptr<Worker>> workers_;
  std::uint64_t header_bytes_ = 0;
  SparseSummary summary_;
};

}  // namespace

Result<SparseSummary> export_sparse(const std::filesystem::path& parent, std::span<const DeltaFile> deltas,
                                    const std::filesystem::path& target, const std::function<bool()>& stop) {
  if (deltas.empty()) return fail(ErrorCode::usage, "no delta to export");
  for (const DeltaFile& delta : deltas) {
    if (delta.info().kind == Kind::delta) continue;
    return fail(ErrorCode::usage, delta.path().string() + ": an anchor changes everything; it has no sparse form");
  }
  P2PW_TRY(Layout layout, Layout::scan(parent));
  SlabReader reader(parent, layout);
  DeltaSource source(deltas, reader);
  Status opened = source.open();
  if (!opened) return explain_failure(deltas.front(), reader, std::move(opened).error());
  auto exported = SparseExport(source, stop).run(target);
  if (!exported) return explain_failure(deltas.front(), reader, std::move(exported).error());
  return exported;
}

Result<SparseSummary> export_sparse(const std::filesystem::path& parent, const DeltaFile& delta,
                                    const std::filesystem::path& target, const std::function<bool()>& stop) {
  return export_sparse(parent, std::span(&delta, 1), target, stop);
}

Result<SparseSummary> export_sparse(const SparseEnds& ends, const std::filesystem::path& target,
                                    const std::function<bool()>& stop) {
  P2PW_TRY(Layout old_layout, Layout::scan(ends.before));
  P2PW_TRY(Layout new_layout, Layout::scan(ends.after));
  auto shape = [](const Layout& layout) {
    std::vector<std::tuple<std::string, std::string, Dtype, std::vector<std::uint64_t>, std::uint64_t>> tensors;
    for (const FileEntry& file : layout.files()) {
      for (const TensorEntry& t : file.tensors) tensors.emplace_back(file.path, t.name, t.dtype, t.shape, t.begin - file.header_bytes);
    }
    return tensors;
  };
  if (shape(old_layout) != shape(new_layout)) {
    return fail(ErrorCode::unsupported, "the two versions have other tensors, or other files: load the whole checkpoint");
  }
  SlabReader before(ends.before, old_layout), after(ends.after, new_layout);
  return SparseExport(CheckpointSource(ends, before, after), stop).run(target);
}

}  // namespace p2pw
