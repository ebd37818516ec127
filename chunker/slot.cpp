#include "chunker/slot.h"

#include <algorithm>

#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxStateBytes = 1024 + 16 * 2 * limits::kMaxSlabs;

}  // namespace

std::string_view name_of(Slot::Phase phase) {
  switch (phase) {
    case Slot::Phase::empty:
      return "empty";
    case Slot::Phase::patching:
      return "patching";
    case Slot::Phase::whole:
      return "whole";
  }
  return "";
}

std::optional<std::size_t> SlabChain::place_of(const Digest& digest) const {
  for (std::size_t i = after.size(); i > 0; --i) {
    if (after[i - 1] == digest) return i;
  }
  if (parent && *parent == digest) return 0;
  return std::nullopt;
}

Slot::Slot(FileSystem& files, std::filesystem::path directory, SlotName name, std::shared_ptr<ByteStore> bytes)
    : files_(files),
      directory_(std::move(directory)),
      name_(name),
      bytes_(std::move(bytes)),
      contents_(files, directory_ / "checkpoint") {}

Result<std::shared_ptr<Slot>> Slot::open(FileSystem& files, std::filesystem::path directory, SlotName name,
                                         std::shared_ptr<ByteStore> bytes) {
  std::shared_ptr<Slot> slot(new Slot(files, std::move(directory), name, std::move(bytes)));
  P2PW_CHECK(files.make_directories(slot->checkpoint()));
  P2PW_CHECK(files.sync_directory(slot->directory_));
  P2PW_CHECK(files.sync_directory(slot->directory_.parent_path()));
  if (Status loaded = slot->load_state(); !loaded) {
    if (loaded.error().code == ErrorCode::io) return loaded.error();
    slot->note_ = "slot " + std::string(name_of(name)) + " starts empty: " + loaded.error().message;
    slot->contents_.mark_all_dirty();
    slot->resumed_ = true;
  }
  return slot;
}

Status Slot::load_state() {
  auto bytes = read_small_file(files_, directory_ / "state", kMaxStateBytes);
  if (!bytes && bytes.error().code == ErrorCode::not_found) return {};
  if (!bytes) return bytes.error();
  P2PW_TRY(SlotState state, SlotState::decode(*bytes));
  return adopt_state(std::move(state));
}

Status Slot::adopt_state(SlotState state) {
  bool whole = state.whole;
  std::shared_ptr<CheckpointTable> table;
  if (state.base.value() != 0) {
    table = std::make_shared<CheckpointTable>();
    P2PW_TRY(table->bytes, load_byte_table(*bytes_, state.byte_digests));
    table->tensors = state.tensor_digests;
    if (table->tensors.size() != table->bytes.layout->tensor_slabs().size() ||
        table->hash() != state.base_table_hash) {
      return fail(ErrorCode::integrity, "its table of slab digests does not have the hash that it was sealed with");
    }
    if (Status sizes = contents_.check_sizes(*table->bytes.layout); whole && !sizes) {
      // Somebody else was here. The slabs tell what is left of it.
      note_ = "slot " + std::string(name_of(name_)) + " is damaged: " + sizes.error().message;
      whole = false;
    }
  } else if (whole) {
    return fail(ErrorCode::malformed, "its state file says whole, but names no version");
  }
  std::lock_guard lock(mutex_);
  phase_ = whole ? Phase::whole : Phase::patching;
  resumed_ = !whole;
  if (!whole) contents_.mark_all_dirty();
  if (table != nullptr) {
    layout_ = table->bytes.layout;
    notes_.resize(table->tensors.size());
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      if (whole) notes_[i] = {table->tensors[i], Known::yes};
    }
  }
  base_ = table;
  if (whole) placed_ = table;
  state_ = std::move(state);
  return {};
}

Slot::Phase Slot::phase() const {
  std::lock_guard lock(mutex_);
  return phase_;
}

Version Slot::version() const {
  std::lock_guard lock(mutex_);
  return state_.base;
}

SealHash Slot::seal() const {
  std::lock_guard lock(mutex_);
  return state_.base_seal;
}

std::optional<StagedVersion> Slot::staged() const {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::whole) return std::nullopt;
  StagedVersion staged;
  staged.version_ = state_.base;
  staged.seal_ = state_.base_seal;
  staged.table_hash_ = state_.base_table_hash;
  staged.slot_ = name_;
  return staged;
}

std::shared_ptr<const CheckpointTable> Slot::table() const {
  std::lock_guard lock(mutex_);
  return base_;
}

std::optional<RunId> Slot::target() const {
  std::lock_guard lock(mutex_);
  if (phase_ != Phase::patching) return std::nullopt;
  return state_.target_run;
}

std::shared_ptr<const Layout> Slot::layout() const {
  std::lock_guard lock(mutex_);
  return layout_;
}

std::optional<Digest> Slot::known_digest(std::uint32_t tensor_slab) const {
  SlabNote note = note_of(tensor_slab);
  if (note.known != Known::yes) return std::nullopt;
  return note.digest;
}

Slot::SlabNote Slot::note_of(std::uint32_t tensor_slab) const {
  std::lock_guard lock(mutex_);
  return tensor_slab < notes_.size() ? notes_[tensor_slab] : SlabNote{};
}

void Slot::set_note(std::uint32_t tensor_slab, Known known, const Digest& digest) {
  std::lock_guard lock(mutex_);
  notes_[tensor_slab] = {digest, known};
}

void Slot::distrust(std::uint32_t tensor_slab) {
  std::lock_guard lock(mutex_);
  if (tensor_slab < notes_.size()) notes_[tensor_slab] = {Digest{}, Known::blank};
}

bool Slot::distrusted() const {
  std::lock_guard lock(mutex_);
  return phase_ == Phase::whole &&
         std::any_of(notes_.begin(), notes_.end(), [](const SlabNote& note) { return note.known != Known::yes; });
}

Status Slot::begin_delta(const RunId& target, Version version) {
  std::shared_ptr<const CheckpointTable> base = table();
  if (base == nullptr) {
    return fail(ErrorCode::usage, "slot " + std::string(name_of(name_)) + " holds no version that a delta could start from");
  }
  SlotState next = state_;
  next.whole = false;
  next.target = version;
  next.target_run = target;
  P2PW_CHECK(begin(std::move(next)));
  // Of a slot that was damaged from outside, files may be missing or short.
  return resumed_ && !made_ ? make_files(*base->bytes.layout) : Status();
}

Status Slot::begin_new(const RunId& target, Version version) {
  SlotState next;
  next.target = version;
  next.target_run = target;
  P2PW_CHECK(begin(std::move(next)));
  std::lock_guard lock(mutex_);
  base_ = placed_ = nullptr;
  return {};
}

Status Slot::begin(SlotState next) {
  if (phase() != Phase::patching || !state_written_ || !(next == state_)) P2PW_CHECK(write_state(std::move(next)));
  std::lock_guard lock(mutex_);
  phase_ = Phase::patching;
  return {};
}

Status Slot::write_state(SlotState state) {
  Status written = replace_file(files_, directory_ / "state", state.encode());
  std::lock_guard lock(mutex_);
  state_written_ = written.ok();
  if (written) state_ = std::move(state);
  return written;
}

Status Slot::set_layout(std::shared_ptr<const Layout> layout) {
  if (phase() != Phase::patching || base_ != nullptr) {
    return fail(ErrorCode::usage, "a layout is set only for a slot that is built from nothing");
  }
  std::shared_ptr<const Layout> now = this->layout();
  bool same_files = now != nullptr && now->hash() == layout->hash();
  if (!same_files || (resumed_ && !made_)) P2PW_CHECK(make_files(*layout));
  std::lock_guard lock(mutex_);
  // What is known of slabs stays true when they lie where they lay.
  if (now == nullptr || !now->same_tensor_slabs(*layout)) {
    notes_.assign(layout->tensor_slabs().size(), {Digest{}, resumed_ ? Known::no : Known::blank});
  }
  layout_ = std::move(layout);
  return {};
}

Status Slot::make_files(const Layout& layout) {
  P2PW_CHECK(contents_.make(layout));
  made_ = true;
  return {};
}

Status Slot::read(std::uint32_t tensor_slab, Bytes& out) const {
  std::shared_ptr<const Layout> layout = this->layout();
  if (layout == nullptr || tensor_slab >= layout->tensor_slabs().size()) {
    return fail(ErrorCode::usage, "slot " + std::string(name_of(name_)) + " has no tensor slab " +
                                      std::to_string(tensor_slab));
  }
  const Slab& slab = layout->tensor_slabs()[tensor_slab];
  out.resize(slab.length);
  return contents_.read(layout->files()[slab.file].path, slab.offset, out);
}

Status Slot::read_bytes(const Slab& byte_slab, Bytes& out) const {
  out.resize(byte_slab.length);
  return contents_.read(layout()->files()[byte_slab.file].path, byte_slab.offset, out);
}

std::vector<std::uint32_t> Slot::open_slabs(const CheckpointTable& want) const {
  std::lock_guard lock(mutex_);
  std::vector<std::uint32_t> open;
  for (std::size_t i = 0; i < notes_.size(); ++i) {
    if (notes_[i].known != Known::yes || notes_[i].digest != want.tensors[i]) {
      open.push_back(static_cast<std::uint32_t>(i));
    }
  }
  return open;
}

Status Slot::finish_files(const CheckpointTable& want) {
  std::shared_ptr<const CheckpointTable> placed = std::exchange(placed_, nullptr);
  Status placing = contents_.place_bytes(*bytes_, want.bytes, placed == nullptr ? nullptr : &placed->bytes);
  if (!placing && placing.error().code != ErrorCode::no_space) return fail(ErrorCode::io, placing.error().message);
  P2PW_CHECK(placing);
  if (Status synced = contents_.sync(*want.bytes.layout); !synced) {
    // After a failed sync the kernel may have dropped what it could not write.
    contents_.mark_all_dirty();
    std::lock_guard lock(mutex_);
    for (SlabNote& note : notes_) note.known = Known::no;
    return synced;
  }
  return bytes_->sync();
}

Result<Slot::Finish> Slot::finish(Version version, const SealHash& seal, const Sha256& table_hash,
                                  std::shared_ptr<const CheckpointTable> want) {
  if (want->hash() != table_hash) {
    return fail(ErrorCode::integrity, "version " + std::to_string(version.value()) +
                                          ": the slab digests of its metas do not hash to what its seal says");
  }
  if (phase() != Phase::patching || layout() == nullptr || !layout()->same_tensor_slabs(*want->bytes.layout) ||
      want->tensors.size() != notes_.size()) {
    return fail(ErrorCode::usage, "slot " + std::string(name_of(name_)) + " is not being patched to version " +
                                      std::to_string(version.value()));
  }
  Finish result;
  result.open_slabs = open_slabs(*want);
  if (!result.open_slabs.empty()) return result;
  P2PW_CHECK(finish_files(*want));

  SlotState state;
  state.whole = true;
  state.base = version;
  state.base_seal = seal;
  state.base_table_hash = table_hash;
  state.layout = want->bytes.layout->hash();
  state.byte_digests = want->bytes.digests;
  state.tensor_digests = want->tensors;
  placed_ = want;
  P2PW_CHECK(write_state(std::move(state)));
  {
    std::lock_guard lock(mutex_);
    phase_ = Phase::whole;
    resumed_ = false;
    base_ = want;
    layout_ = want->bytes.layout;
  }
  result.staged = staged();
  return result;
}

}  // namespace p2pw
