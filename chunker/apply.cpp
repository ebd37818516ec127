#include "chunker/apply.h"

#include <atomic>

#include "chunker/checkpoint_writer.h"
#include "chunker/delta_slabs.h"
#include "chunker/parallel.h"
#include "chunker/slab_buffer.h"

namespace p2pw {
namespace {

// What applying one delta to one directory needs at every step. `parent` is null for an anchor.
class Apply {
 public:
  Apply(const DeltaFile& delta, const SlabReader* parent, const ApplyOptions& options)
      : delta_(delta), parent_(parent), options_(options), byte_slabs_(delta, parent) {}

  Result<Layout> run(const std::filesystem::path& target) {
    if (parent_ != nullptr) P2PW_CHECK(digest_parent_byte_slabs());
    P2PW_TRY(layout_, byte_slabs_.layout());
    digests_.byte_slabs.resize(layout_->byte_slabs().size());
    digests_.tensor_slabs.resize(layout_->tensor_slabs().size());
    P2PW_TRY(auto writer, CheckpointWriter::create(target, *layout_));
    for (const Slab& slab : layout_->byte_slabs()) P2PW_CHECK(byte_slab(slab, *writer));
    P2PW_CHECK(tensor_slabs(*writer));
    P2PW_CHECK(check_tables());
    P2PW_CHECK(writer->commit());
    return std::move(*layout_);
  }

 private:
  struct Worker {
    codec::SlabDecoder decoder;
    SlabBuffer slab;
    Bytes frame;
  };

  // Byte slabs are few, and those without a counterpart in the new checkpoint are read nowhere else.
  Status digest_parent_byte_slabs() {
    SlabBuffer buffer;
    for (const Slab& slab : parent_->layout().byte_slabs()) {
      auto bytes = buffer.get(slab.length);
      P2PW_CHECK(parent_->read(slab, bytes));
      old_digests_.byte_slabs.push_back(codec::digest_of(bytes));
    }
    old_digests_.tensor_slabs.resize(parent_->layout().tensor_slabs().size());
    return {};
  }

  Status byte_slab(const Slab& slab, const CheckpointWriter& writer) {
    P2PW_TRY(Bytes bytes, byte_slabs_.decode(*layout_, slab));
    digests_.byte_slabs[slab.id.index()] = codec::digest_of(bytes);
    P2PW_CHECK(writer.write(slab, bytes));
    add_progress(slab.length);
    return {};
  }

  Status tensor_slabs(const CheckpointWriter& writer) {
    const std::vector<Slab>& slabs = layout_->tensor_slabs();
    unsigned threads = options_.threads == 0 ? default_threads() : options_.threads;
    std::vector<std::unique_ptr<Worker>> workers(threads);
    return parallel_for(threads, slabs.size(), [&](unsigned number, std::size_t i) -> Status {
      if (options_.stop && options_.stop()) return fail(ErrorCode::interrupted, "interrupted");
      if (!workers[number]) workers[number] = std::make_unique<Worker>();
      return tensor_slab(slabs[i], *workers[number], writer);
    });
  }

  Status tensor_slab(const Slab& slab, Worker& worker, const CheckpointWriter& writer) {
    std::uint32_t i = slab.id.index();
    auto bytes = worker.slab.get(slab.length);
    if (parent_ != nullptr) {
      P2PW_CHECK(parent_->read(parent_->layout().tensor_slabs()[i], bytes));
      digests_.tensor_slabs[i] = old_digests_.tensor_slabs[i] = codec::digest_of(bytes);
    }
    if (const DeltaFile::Entry* frame = delta_.find(slab.id)) {
      P2PW_CHECK(delta_.read(*frame, worker.frame));
      P2PW_TRY(codec::Decoded decoded, worker.decoder.decode_in_place(worker.frame, slab.dtype, bytes));
      if (decoded.digest != frame->digest) {
        return damaged_delta(delta_, "a frame decodes to other bytes than it should");
      }
      digests_.tensor_slabs[i] = decoded.digest;
    } else if (parent_ == nullptr) {
      return damaged_delta(delta_, "a frame is missing");
    }
    P2PW_CHECK(writer.write(slab, bytes));
    add_progress(slab.length);
    return {};
  }

  Status check_tables() const {
    if (parent_ != nullptr) {
      if (old_digests_.table_hash(parent_->layout().hash()) != delta_.info().parent_table) {
        return fail(ErrorCode::wrong_parent, parent_->directory().string() + ": not the parent");
      }
      P2PW_CHECK(parent_->check_unchanged());
    }
    if (digests_.table_hash(layout_->hash()) != delta_.info().table) {
      return damaged_delta(delta_, "its frames do not lead to the checkpoint that it names");
    }
    return {};
  }

  void add_progress(std::uint64_t bytes) {
    std::uint64_t done = done_.fetch_add(bytes) + bytes;
    if (options_.progress) options_.progress(done);
  }

  const DeltaFile& delta_;
  const SlabReader* parent_;
  const ApplyOptions& options_;
  DeltaByteSlabs byte_slabs_;
  std::optional<Layout> layout_;
  SlabDigests old_digests_, digests_;
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace

Result<Layout> apply_delta(const std::filesystem::path& parent, const DeltaFile& delta,
                           const std::filesystem::path& target, const ApplyOptions& options) {
  P2PW_CHECK(check_target(target));
  if (delta.info().kind == Kind::anchor) return Apply(delta, nullptr, options).run(target);
  P2PW_TRY(Layout old_layout, Layout::scan(parent));
  SlabReader reader(parent, old_layout);
  Result<Layout> applied = Apply(delta, &reader, options).run(target);
  if (!applied) return explain_failure(delta, reader, std::move(applied).error());
  return applied;
}

Status check_leads_to(const DeltaFile& delta, const std::filesystem::path& directory, const Layout& layout,
                      const SlabDigests& digests) {
  if (layout.hash() == delta.info().layout_hash && digests.table_hash(layout.hash()) == delta.info().table) return {};
  std::string file = first_difference(delta.info().checks, layout, digests);
  return fail(ErrorCode::integrity, directory.string() + ": not what " + delta.path().string() + " leads to: " +
                                        (file.empty() ? "one of its files" : file) + " differs");
}

}  // namespace p2pw
