#include "chunker/apply.h"

#include <algorithm>
#include <atomic>

#include "chunker/checkpoint_writer.h"
#include "chunker/codec/codec.h"
#include "chunker/parallel.h"
#include "chunker/slab_buffer.h"
#include "chunker/slab_encoding.h"
#include "chunker/slab_reader.h"

namespace p2pw {
namespace {

// What applying one delta to one directory needs at every step.
class Apply {
 public:
  Apply(const std::filesystem::path& parent, const DeltaFile& delta, const ApplyOptions& options)
      : parent_(parent), delta_(delta), options_(options) {}

  Result<Layout> run(const std::filesystem::path& target) {
    if (is_delta()) P2PW_CHECK(open_parent());
    Status status = rebuild(target);
    if (!status) return explain(std::move(status).error());
    return std::move(*layout_);
  }

 private:
  struct Worker {
    codec::SlabDecoder decoder;
    SlabBuffer slab;
    Bytes frame, bytes;
  };

  bool is_delta() const { return delta_.info().kind == Kind::delta; }

  Status open_parent() {
    P2PW_TRY(old_layout_, Layout::scan(parent_));
    reader_.emplace(parent_, *old_layout_);
    const auto& checks = delta_.info().parent_checks;
    LayoutHash hash = old_layout_->hash();
    bool same = checks.size() == old_layout_->files().size() + 1 &&
                std::equal(checks[0].data.begin(), checks[0].data.end(), hash.data.begin());
    if (!same) return wrong_parent("its files and tensors differ");
    // Byte slabs are few, and those without a counterpart are read nowhere else.
    for (const Slab& slab : old_layout_->byte_slabs()) {
      auto bytes = scratch_.slab.get(slab.length);
      P2PW_CHECK(reader_->read(slab, bytes));
      old_digests_.byte_slabs.push_back(codec::digest_of(bytes));
    }
    old_digests_.tensor_slabs.resize(old_layout_->tensor_slabs().size());
    return {};
  }

  Error wrong_parent(const std::string& why) const {
    return fail(ErrorCode::wrong_parent,
                parent_.string() + ": not the parent of " + delta_.path().string() + ": " + why);
  }

  Status rebuild(const std::filesystem::path& target) {
    P2PW_CHECK(read_layout());
    P2PW_CHECK(check_frames());
    P2PW_TRY(auto writer, CheckpointWriter::create(target, *layout_));
    for (const Slab& slab : layout_->byte_slabs()) P2PW_CHECK(byte_slab(slab, *writer));
    P2PW_CHECK(tensor_slabs(*writer));
    if (is_delta()) {
      if (old_digests_.table_hash(old_layout_->hash()) != delta_.info().parent_table) {
        return fail(ErrorCode::wrong_parent, "");  // explain() finds the file
      }
      P2PW_CHECK(reader_->check_unchanged());
    }
    if (digests_.table_hash(layout_->hash()) != delta_.info().table) {
      return damaged("its frames do not lead to the checkpoint that it names");
    }
    return writer->commit();
  }

  // The file table, then the headers: only then is it known what the tensor slabs are.
  Status read_layout() {
    Slab table_slab{SlabId::bytes(0), 0, 0, 0, Dtype::bytes};
    const Slab* old_table = is_delta() ? &old_layout_->byte_slabs()[0] : nullptr;
    P2PW_TRY(Bytes encoded, decode_bytes(table_slab.id, old_table));
    P2PW_TRY(FileTable table, FileTable::parse(encoded));
    std::vector<Bytes> headers;
    for (std::size_t i = 0; i < table.files().size(); ++i) {
      if (!table.files()[i].is_tensor_file()) continue;
      Bytes& header = headers.emplace_back();
      for (const Slab& slab : table.byte_slabs_of(i)) {
        const Slab* old = is_delta() ? table.counterpart(slab, old_layout_->table()) : nullptr;
        P2PW_TRY(Bytes part, decode_bytes(slab.id, old));
        header.insert(header.end(), part.begin(), part.end());
      }
    }
    P2PW_TRY(layout_, Layout::from_parts(encoded, std::move(headers)));
    if (layout_->hash() != delta_.info().layout_hash) return damaged("it leads to another layout than it names");
    if (is_delta() && !layout_->same_tensor_slabs(*old_layout_)) {
      return fail(ErrorCode::malformed, delta_.path().string() + ": a delta that changes where tensors lie");
    }
    digests_.byte_slabs.resize(layout_->byte_slabs().size());
    digests_.tensor_slabs.resize(layout_->tensor_slabs().size());
    return {};
  }

  Status check_frames() const {
    for (const DeltaFile::Entry& frame : delta_.frames()) {
      if (layout_->find(frame.slab) == nullptr) {
        return fail(ErrorCode::malformed, delta_.path().string() + ": a frame of a slab that is not there");
      }
    }
    return {};
  }

  // A byte slab, from its frame and its parent; `old` null: no parent.
  Result<Bytes> decode_bytes(SlabId id, const Slab* old) {
    Bytes parent;
    if (old != nullptr) {
      parent.resize(old->length);
      P2PW_CHECK(reader_->read(*old, parent));
    }
    const DeltaFile::Entry* frame = delta_.find(id);
    if (frame == nullptr) {
      if (!is_delta() || old == nullptr) return damaged("a frame is missing");
      return parent;
    }
    P2PW_CHECK(delta_.read(*frame, scratch_.frame));
    Bytes out;
    P2PW_TRY(codec::Decoded decoded, scratch_.decoder.decode_bytes(scratch_.frame, parent, out));
    if (decoded.digest != frame->digest) return damaged("a frame decodes to other bytes than it should");
    return out;
  }

  Status byte_slab(const Slab& slab, const CheckpointWriter& writer) {
    const Slab* old = is_delta() ? layout_->counterpart(slab, *old_layout_) : nullptr;
    P2PW_TRY(Bytes bytes, decode_bytes(slab.id, old));
    if (bytes.size() != slab.length) return damaged("a frame of a wrong length");
    digests_.byte_slabs[slab.id.index()] = codec::digest_of(bytes);
    P2PW_CHECK(writer.write(slab, bytes));
    add_progress(slab.length);
    return {};
  }

  Status tensor_slabs(const CheckpointWriter& writer) {
    const std::vector<Slab>& slabs = layout_->tensor_slabs();
    unsigned threads = options_.threads == 0 ? default_threads() : options_.threads;
    std::vector<std::unique_ptr<Worker>> workers(std::max(1u, threads));
    return parallel_for(threads, slabs.size(), [&](unsigned number, std::size_t i) -> Status {
      if (options_.stop && options_.stop()) return fail(ErrorCode::interrupted, "interrupted");
      if (!workers[number]) workers[number] = std::make_unique<Worker>();
      return tensor_slab(slabs[i], *workers[number], writer);
    });
  }

  Status tensor_slab(const Slab& slab, Worker& worker, const CheckpointWriter& writer) {
    std::uint32_t i = slab.id.index();
    auto bytes = worker.slab.get(slab.length);
    if (is_delta()) {
      P2PW_CHECK(reader_->read(old_layout_->tensor_slabs()[i], bytes));
      digests_.tensor_slabs[i] = old_digests_.tensor_slabs[i] = codec::digest_of(bytes);
    }
    if (const DeltaFile::Entry* frame = delta_.find(slab.id)) {
      P2PW_CHECK(delta_.read(*frame, worker.frame));
      P2PW_TRY(codec::Decoded decoded, worker.decoder.decode_in_place(worker.frame, slab.dtype, bytes));
      if (decoded.digest != frame->digest) return damaged("a frame decodes to other bytes than it should");
      digests_.tensor_slabs[i] = decoded.digest;
    } else if (!is_delta()) {
      return damaged("a frame is missing");
    }
    P2PW_CHECK(writer.write(slab, bytes));
    add_progress(slab.length);
    return {};
  }

  Error damaged(const std::string& why) const {
    return fail(ErrorCode::integrity, delta_.path().string() + ": " + why);
  }

  void add_progress(std::uint64_t bytes) {
    std::uint64_t done = done_.fetch_add(bytes) + bytes;
    if (options_.progress) options_.progress(done);
  }

  // A frame on the wrong parent fails in any way, so when the delta looks bad, the parent is looked at first.
  Error explain(Error error) {
    bool suspect = error.code == ErrorCode::integrity || error.code == ErrorCode::malformed ||
                   error.code == ErrorCode::wrong_parent || error.code == ErrorCode::limit ||
                   error.code == ErrorCode::unsupported;
    bool parent_was_read = !old_digests_.byte_slabs.empty();
    if (!suspect || !parent_was_read) return error;
    auto digests = digest_checkpoint({parent_, &*old_layout_}, {});
    if (!digests) return std::move(digests).error();
    if (digests->table_hash(old_layout_->hash()) == delta_.info().parent_table) return error;
    std::string file = first_difference(delta_.info().parent_checks, *old_layout_, *digests);
    return wrong_parent((file.empty() ? "one of its files" : file) + " differs");
  }

  const std::filesystem::path& parent_;
  const DeltaFile& delta_;
  const ApplyOptions& options_;
  std::optional<Layout> old_layout_, layout_;
  std::optional<SlabReader> reader_;
  SlabDigests old_digests_, digests_;
  Worker scratch_;  // of the thread that runs it
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace

Result<Layout> apply_delta(const std::filesystem::path& parent, const DeltaFile& delta,
                           const std::filesystem::path& target, const ApplyOptions& options) {
  P2PW_CHECK(check_target(target));
  return Apply(parent, delta, options).run(target);
}

Status check_leads_to(const DeltaFile& delta, const std::filesystem::path& directory, const Layout& layout,
                      const SlabDigests& digests) {
  if (layout.hash() == delta.info().layout_hash && digests.table_hash(layout.hash()) == delta.info().table) return {};
  std::string file = first_difference(delta.info().checks, layout, digests);
  return fail(ErrorCode::integrity, directory.string() + ": not what " + delta.path().string() + " leads to: " +
                                        (file.empty() ? "one of its files" : file) + " differs");
}

}  // namespace p2pw
