// The part of Slot that works on single slabs.
#include "chunker/slot.h"

namespace p2pw {

struct Slot::Walk {
  std::uint32_t index = 0;
  const Slab* slab = nullptr;
  std::shared_ptr<FileHandle> file;
  bool mapped = false;
  bool loaded = false;          // `bytes` has the contents of the file
  std::span<std::byte> bytes;
  std::size_t place = 0;
  bool found = false;           // `place` is where the slab is
};

namespace {

std::string slab_text(std::uint32_t index) { return "tensor slab " + std::to_string(index); }

}  // namespace

Result<const Slab*> Slot::slab_at(std::uint32_t tensor_slab) const {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::patching || !state_written_ || tensor_slab >= notes_.size()) {
    return fail(ErrorCode::usage, "slot " + std::string(name_of(name_)) + " is not open for patching of " +
                                      slab_text(tensor_slab));
  }
  return &layout_->tensor_slabs()[tensor_slab];
}

// Makes the contents visible in walk.bytes.
Status Slot::load(Walk& walk, SlabScratch& scratch) {
  if (walk.loaded) return {};
  if (!walk.mapped) {
    scratch.slab.resize(walk.slab->length);
    walk.bytes = scratch.slab;
    P2PW_CHECK(read_exact(*walk.file, walk.slab->offset, walk.bytes));
  }
  bytes_read_.fetch_add(walk.slab->length, std::memory_order_relaxed);
  walk.loaded = true;
  return {};
}

Status Slot::find_place(Walk& walk, const SlabChain& chain, SlabScratch& scratch) {
  SlabNote note = note_of(walk.index);
  if (note.known == Known::no) {
    P2PW_CHECK(load(walk, scratch));
    note = {codec::digest_of(walk.bytes), Known::yes};
    set_note(walk.index, note.known, note.digest);
  }
  auto place = note.known == Known::yes ? chain.place_of(note.digest) : std::nullopt;
  walk.found = place.has_value() || !chain.parent;
  walk.place = place.value_or(0);
  return {};
}

Result<Applied> Slot::walk_chain(Walk& walk, const SlabChain& chain, SlabScratch& scratch) {
  Applied applied;
  if (walk.place > 0 || chain.parent) {
    P2PW_CHECK(load(walk, scratch));
  } else if (!walk.mapped) {
    scratch.slab.resize(walk.slab->length);
    walk.bytes = scratch.slab;
  }
  for (std::size_t step = walk.place; step < chain.after.size(); ++step) {
    P2PW_TRY(ByteView frame, chain.frame(step));
    if (walk.mapped) set_note(walk.index, Known::no);
    auto decoded = scratch.decoder.decode_in_place(frame, walk.slab->dtype, walk.bytes);
    if (!decoded && decoded.error().code != ErrorCode::malformed) return decoded.error();
    if (!decoded || decoded->digest != chain.after[step]) {
      // Either the bytes were not what their digest said (somebody else wrote, bit rot), or the frame is wrong; a
      // second failure after a refill tells which.
      set_note(walk.index, Known::no);
      applied.reason = slab_text(walk.index) + ": " +
                       (decoded ? "became " + decoded->digest.hex() + " instead of " + chain.after[step].hex()
                                : decoded.error().message);
      return applied;
    }
    if (walk.mapped) set_note(walk.index, Known::yes, decoded->digest);
    applied.changed_elements += decoded->changed_elements;
    ++applied.steps;
  }
  P2PW_CHECK(store(walk, chain.goal()));
  applied.done = true;
  return applied;
}

// walk.bytes become the contents of the slab, under this digest.
Status Slot::store(Walk& walk, const Digest& digest) {
  contents_.mark_dirty(path_of(*walk.slab));
  if (!walk.mapped) {
    set_note(walk.index, Known::no);
    P2PW_CHECK(write_all(*walk.file, walk.slab->offset, walk.bytes));
    walk.file->start_writeback(walk.slab->offset, walk.slab->length);
  }
  bytes_written_.fetch_add(walk.slab->length, std::memory_order_relaxed);
  set_note(walk.index, Known::yes, digest);
  return {};
}

Status Slot::open_walk(Walk& walk, std::uint32_t tensor_slab, bool mapped) {
  walk.index = tensor_slab;
  P2PW_TRY(walk.slab, slab_at(tensor_slab));
  P2PW_TRY(walk.file, contents_.open(path_of(*walk.slab)));
  if (!mapped) return {};
  std::span<std::byte> map = walk.file->map();
  walk.mapped = map.size() >= walk.slab->offset + walk.slab->length;
  if (walk.mapped) walk.bytes = map.subspan(walk.slab->offset, walk.slab->length);
  return {};
}

Result<Applied> Slot::apply(std::uint32_t tensor_slab, const SlabChain& chain, SlabScratch& scratch) {
  // What is made from nothing goes into new pages: written, they are neither cleared first nor mapped one by one.
  Walk walk;
  P2PW_CHECK(open_walk(walk, tensor_slab, chain.parent.has_value()));
  P2PW_CHECK(find_place(walk, chain, scratch));
  Applied applied;
  if (!walk.found) {
    auto digest = known_digest(tensor_slab);
    applied.reason = slab_text(tensor_slab) + (digest ? ": holds " + digest->hex() : ": has no contents yet");
    return applied;
  }
  if (walk.place == chain.after.size() && (chain.parent || walk.place > 0)) {
    applied.done = true;
    return applied;
  }
  return walk_chain(walk, chain, scratch);
}

Result<Digest> Slot::check(std::uint32_t tensor_slab, SlabScratch& scratch) {
  Walk walk;
  P2PW_CHECK(open_walk(walk, tensor_slab));
  P2PW_CHECK(load(walk, scratch));
  Digest digest = codec::digest_of(walk.bytes);
  set_note(tensor_slab, Known::yes, digest);
  return digest;
}

Result<bool> Slot::refill(std::uint32_t tensor_slab, const Slot& from, const SlabChain& chain, SlabScratch& scratch) {
  auto digest = from.known_digest(tensor_slab);
  if (!digest || !chain.place_of(*digest)) return false;
  P2PW_CHECK(from.read(tensor_slab, scratch.slab));
  if (codec::digest_of(scratch.slab) != *digest) {
    return fail(ErrorCode::integrity, slab_text(tensor_slab) + " of slot " + std::string(name_of(from.name_)) +
                                          ": does not have its digest any more");
  }
  P2PW_CHECK(put(tensor_slab, scratch.slab, *digest));
  return true;
}

Status Slot::put(std::uint32_t tensor_slab, ByteView bytes, const Digest& digest) {
  Walk walk;
  P2PW_CHECK(open_walk(walk, tensor_slab));
  if (bytes.size() != walk.slab->length || codec::digest_of(bytes) != digest) {
    return fail(ErrorCode::integrity, slab_text(tensor_slab) + ": the bytes offered for it do not have the digest asked for");
  }
  contents_.mark_dirty(path_of(*walk.slab));
  set_note(tensor_slab, Known::no);
  if (walk.mapped) {
    std::copy(bytes.begin(), bytes.end(), walk.bytes.begin());
  } else {
    P2PW_CHECK(write_all(*walk.file, walk.slab->offset, bytes));
    walk.file->start_writeback(walk.slab->offset, walk.slab->length);
  }
  bytes_written_.fetch_add(bytes.size(), std::memory_order_relaxed);
  set_note(tensor_slab, Known::yes, digest);
  return {};
}

}  // namespace p2pw
