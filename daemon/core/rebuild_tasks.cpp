#include "daemon/core/rebuild_tasks.h"

namespace p2pw {
namespace {

// One for each thread of the pool: at most one sealed frame, one in the clear and one slab.
struct Scratch {
  SlabScratch slab;
  Bytes sealed, plain;
};
Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

bool is_disk_error(const Error& error) { return error.code == ErrorCode::io || error.code == ErrorCode::no_space; }

// One try of a slab task, with what the frames had to say.
class SlabTry {
 public:
  SlabTry(const SlabTask& task, Reading reading) : task_(task), reading_(reading) {
    chain_.parent = task.parent;
    for (const SealedFrame& frame : task.steps) chain_.after.push_back(frame.entry.digest);
    chain_.frame = [this](std::size_t step) { return open(step); };
  }

  const SlabChain& chain() const { return chain_; }
  std::size_t step() const { return step_; }

  // Nothing when the slab needs a refill.
  std::optional<SlabOutcome> apply(std::string& why) {
    step_ = 0;
    opening_ = false;
    auto applied = task_.slot->apply(task_.slab, chain_, scratch().slab);
    if (applied && applied->done) return SlabOutcome{};
    if (applied) {
      why = applied->reason;
      return std::nullopt;
    }
    SlabOutcome outcome{SlabOutcome::What::bad_frame, step_, false, applied.error()};
    if (is_disk_error(applied.error()) || applied.error().code == ErrorCode::usage) {
      outcome.what = SlabOutcome::What::failed;
    } else if (opening_) {
      outcome.what = SlabOutcome::What::bad_bundle;
    }
    return outcome;
  }

 private:
  Result<ByteView> open(std::size_t step) {
    step_ = step;
    opening_ = true;
    P2PW_CHECK(open_frame(task_.steps[step], reading_, scratch().sealed, scratch().plain));
    opening_ = false;
    return ByteView(scratch().plain);
  }

  const SlabTask& task_;
  Reading reading_;
  SlabChain chain_;
  std::size_t step_ = 0;
  bool opening_ = false;
};

// True: it has the bytes of some place on the chain now.
Result<bool> refill(const SlabTask& task, const SlabChain& chain) {
  if (task.other == nullptr) return false;
  return task.slot->refill(task.slab, *task.other, chain, scratch().slab);
}

// The bytes of a whole slot's headers and side files, back into the store.
void restock(ByteStore& store, const Slot& source) {
  auto table = source.table();
  if (table == nullptr || source.phase() != Slot::Phase::whole) return;
  const Layout& layout = *table->bytes.layout;
  (void)store.put(table->bytes.digests[0], layout.file_table());
  Bytes bytes;
  for (const Slab& slab : layout.byte_slabs()) {
    const Digest& digest = table->bytes.digests[slab.id.index()];
    if (slab.id.index() == 0 || store.get(digest)) continue;
    if (source.read_bytes(slab, bytes) && codec::digest_of(bytes) == digest) (void)store.put(digest, bytes);
  }
}

}  // namespace

SealedFrame sealed_frame(const RebuildRun& run, RebuildRun::FramePlace place) {
  return {run.bundle(place).file, run.sealer(), BundleIndex(place.bundle), FrameIndex(place.frame), run.entry(place)};
}

Status open_frame(const SealedFrame& frame, Reading reading, Bytes& sealed, Bytes& plain) {
  sealed.resize(frame.entry.length);
  P2PW_CHECK(reading == Reading::hashed ? frame.file->read_checked(frame.entry.offset, sealed)
                                        : frame.file->read(frame.entry.offset, sealed));
  return frame.sealer->open(frame.bundle, frame.index, frame.entry.slab, sealed, plain);
}

namespace {

SlabOutcome try_slab_task(const SlabTask& task, Reading reading) {
  SlabTry attempt(task, reading);
  std::string why;
  if (auto outcome = attempt.apply(why)) return *outcome;

  auto refilled = refill(task, attempt.chain());
  if (!refilled && is_disk_error(refilled.error())) return {SlabOutcome::What::failed, 0, false, refilled.error()};
  bool helped = refilled && *refilled;
  if (!helped && task.parent) {
    if (!refilled) why += "; " + refilled.error().message;
    return {SlabOutcome::What::lost, 0, false, fail(ErrorCode::integrity, why)};
  }
  // From verified bytes, or from nothing with a frame that needs none: now it is the frame's fault.
  if (auto outcome = attempt.apply(why)) {
    outcome->refilled = helped;
    return *outcome;
  }
  return {SlabOutcome::What::bad_frame, attempt.step(), helped, fail(ErrorCode::integrity, why)};
}

}  // namespace

SlabOutcome run_slab_task(const SlabTask& task) {
  SlabOutcome outcome = try_slab_task(task, Reading::plain);
  if (outcome.what == SlabOutcome::What::bad_frame) return try_slab_task(task, Reading::hashed);
  if (outcome.what != SlabOutcome::What::lost) return outcome;
  // Before the slab is fetched from a neighbour: was it a frame that spoilt it?
  for (std::size_t step = 0; step < task.steps.size(); ++step) {
    Status good = open_frame(task.steps[step], Reading::hashed, scratch().sealed, scratch().plain);
    if (!good && !is_disk_error(good.error())) return {SlabOutcome::What::bad_bundle, step, false, good.error()};
  }
  return outcome;
}

namespace {

BytesOutcome try_bytes_task(const BytesTask& task, Reading reading) {
  BytesOutcome outcome;
  std::map<std::uint32_t, ByteFrame> frames;
  for (std::size_t i = 0; i < task.frames.size(); ++i) {
    const FrameEntry& entry = task.frames[i].entry;
    ByteFrame& frame = frames[entry.slab.index()];
    frame.digest = entry.digest;
    if (Status opened = open_frame(task.frames[i], reading, scratch().sealed, frame.frame); !opened) {
      outcome.error = opened.error();
      if (!is_disk_error(outcome.error)) outcome.bad_frame = i;
      return outcome;
    }
  }
  const ByteTable* parent = task.parent ? &*task.parent : nullptr;
  auto table = advance_byte_table(*task.store, parent, frames, task.layout, scratch().slab.decoder);
  bool store_damaged = !table && (table.error().code == ErrorCode::not_found || table.error().code == ErrorCode::integrity);
  if (store_damaged && task.source != nullptr) {
    restock(*task.store, *task.source);
    table = advance_byte_table(*task.store, parent, frames, task.layout, scratch().slab.decoder);
  }
  if (table) {
    outcome.table = std::move(*table);
  } else {
    outcome.error = table.error();
  }
  return outcome;
}

}  // namespace

BytesOutcome run_bytes_task(const BytesTask& task) {
  BytesOutcome outcome = try_bytes_task(task, Reading::plain);
  if (outcome.table || outcome.bad_frame || is_disk_error(outcome.error)) return outcome;
  return try_bytes_task(task, Reading::hashed);
}

}  // namespace p2pw
