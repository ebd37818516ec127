#include "chunker/diff.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <thread>

#include "chunker/codec/codec.h"
#include "chunker/parallel.h"
#include "chunker/slab_encoding.h"

namespace p2pw {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSlabsInFlight = 4;  // for each worker
constexpr auto kStopPoll = 50ms;
constexpr std::size_t kSampleSlabs = 12;
constexpr std::uint32_t kSampleBytes = 256u << 10;  // of each: the first bundle waits for the answer
constexpr double kSurelySmaller = 0.3;            // of the tensors themselves: no anchor gets there
constexpr double kClearlySmaller = 0.8;  // of the anchor

unsigned threads_for(const DiffOptions& options, std::size_t slabs) {
  unsigned threads = options.threads == 0 ? default_threads() : options.threads;
  return static_cast<unsigned>(std::clamp<std::size_t>(slabs, 1, threads));
}

// Workers encode slabs into a ring; frames get their place in slab order, are finished by any worker, and are taken in
// slab order by the thread that runs the pipeline.
//
// A slab's cell goes: free -> encoding -> encoded -> (placed -> finishing, when it has a frame) -> ready -> free.
class Pipeline {
 public:
  Pipeline(const SlabSources& sources, const DiffOptions& options, FrameSink& sink)
      : sources_(sources), options_(options), sink_(sink) {
    const Layout& layout = sources.now->layout();
    for (const Slab& slab : layout.byte_slabs()) slabs_.push_back(&slab);
    for (const Slab& slab : layout.tensor_slabs()) slabs_.push_back(&slab);
    threads_ = threads_for(options, slabs_.size());
    ring_.resize(std::min<std::size_t>(slabs_.size(), threads_ * kSlabsInFlight));
  }

  Result<DiffResult> run() {
    std::vector<std::jthread> pool;
    for (unsigned i = 0; i < threads_; ++i) pool.emplace_back([this] { work(); });
    Status status = without_exceptions([this] { return consume(); });
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    pool.clear();
    if (!status) return std::move(status).error();
    return std::move(result_);
  }

 private:
  enum class State { free, encoding, encoded, placed, ready };
  struct Cell {
    State state = State::free;
    EncodedSlab slab;
    Status status;
  };

  Cell& cell(std::size_t index) { return ring_[index % ring_.size()]; }

  // Workers.
  void work() {
    SlabWorker worker(sources_);
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (!to_finish_.empty()) {
        finish_one(lock);
      } else if (next_ < slabs_.size() && next_ < taken_ + ring_.size()) {
        encode_one(lock, worker);
      } else if (placed_ == slabs_.size()) {
        return;
      } else {
        changed_.wait(lock);
      }
    }
  }

  void encode_one(std::unique_lock<std::mutex>& lock, SlabWorker& worker) {
    std::size_t index = next_++;
    Cell& mine = cell(index);
    mine.state = State::encoding;
    lock.unlock();
    EncodedSlab encoded;
    Status status = without_exceptions([&]() -> Status {
      P2PW_TRY(encoded, worker.encode(*slabs_[index]));
      return {};
    });
    lock.lock();
    mine.slab = std::move(encoded);
    mine.status = std::move(status);
    mine.state = State::encoded;
    for (; placed_ < next_ && cell(placed_).state == State::encoded; ++placed_) place(placed_);
    changed_.notify_all();
  }

  void place(std::size_t index) {
    Cell& c = cell(index);
    c.state = State::ready;
    if (!c.status || !c.slab.changed) return;
    c.status = without_exceptions([&]() -> Status {
      sink_.place(c.slab.frame);
      return {};
    });
    c.state = State::placed;
    to_finish_.push_back(index);
  }

  void finish_one(std::unique_lock<std::mutex>& lock) {
    Cell& c = cell(to_finish_.front());
    to_finish_.pop_front();
    lock.unlock();
    Status status = without_exceptions([&]() -> Status {
      sink_.finish(c.slab.frame);
      return {};
    });
    lock.lock();
    if (c.status) c.status = std::move(status);
    c.state = State::ready;
    changed_.notify_all();
  }

  // The thread that runs the pipeline.
  Status consume() {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < slabs_.size(); ++i) {
      P2PW_TRY(EncodedSlab slab, take(i));
      record(*slabs_[i], slab);
      if (slab.changed) P2PW_CHECK(sink_.take(std::move(slab.frame)));
      bytes += slabs_[i]->length;
      sink_.progress(bytes);
    }
    return {};
  }

  Result<EncodedSlab> take(std::size_t index) {
    Cell& c = cell(index);
    std::unique_lock lock(mutex_);
    for (;;) {
      if (options_.stop && options_.stop()) return fail(ErrorCode::interrupted, "interrupted");
      if (changed_.wait_for(lock, kStopPoll, [&] { return index < placed_ && c.state == State::ready; })) break;
    }
    EncodedSlab slab = std::move(c.slab);
    Status status = std::move(c.status);
    c = Cell();
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    if (!status) return std::move(status).error();
    return slab;
  }

  void record(const Slab& slab, const EncodedSlab& encoded) {
    (slab.id.is_bytes() ? result_.digests.byte_slabs : result_.digests.tensor_slabs).push_back(encoded.frame.digest);
    if (!slab.id.is_bytes()) {
      result_.changed_elements += encoded.changed ? encoded.frame.changed_elements : 0;
      if (sources_.parent != nullptr) result_.parent_digests.tensor_slabs.push_back(encoded.parent_digest);
    }
    result_.frames += encoded.changed;
  }

  SlabSources sources_;
  const DiffOptions& options_;
  FrameSink& sink_;
  std::vector<const Slab*> slabs_;
  unsigned threads_ = 1;
  DiffResult result_;

  std::mutex mutex_;  // guards all below; a cell outside `free` and `ready` belongs to the worker that has it
  std::condition_variable changed_;
  std::vector<Cell> ring_;
  std::deque<std::size_t> to_finish_;
  std::size_t next_ = 0;    // to encode
  std::size_t placed_ = 0;  // all below have their place
  std::size_t taken_ = 0;   // all below have been handed on
  bool stopping_ = false;
};

// Byte slabs of the parent may have no counterpart in the new checkpoint, so they are not all seen by the pipeline.
Result<std::vector<Digest>> byte_slab_digests(const SlabReader& reader) {
  std::vector<Digest> digests;
  SlabBuffer buffer;
  for (const Slab& slab : reader.layout().byte_slabs()) {
    auto bytes = buffer.get(slab.length);
    P2PW_CHECK(reader.read(slab, bytes));
    digests.push_back(codec::digest_of(bytes));
  }
  return digests;
}

Error changed_layout(const CheckpointView& parent, const CheckpointView& now) {
  return fail(ErrorCode::bad_input, now.directory.string() + ": its tensors are not laid out as those of " +
                                        parent.directory.string() + "; only an anchor can lead to it");
}

}  // namespace

Result<DiffResult> diff_delta(const CheckpointView& parent, const SlabDigests* known_parent, const CheckpointView& now,
                              const DiffOptions& options, FrameSink& sink) {
  if (!now.layout->same_tensor_slabs(*parent.layout)) return changed_layout(parent, now);
  if (known_parent != nullptr && (known_parent->byte_slabs.size() != parent.layout->byte_slabs().size() ||
                                  known_parent->tensor_slabs.size() != parent.layout->tensor_slabs().size())) {
    return fail(ErrorCode::integrity, parent.directory.string() + ": its digest table is of another layout");
  }
  SlabReader old_reader(parent.directory, *parent.layout), new_reader(now.directory, *now.layout);
  Pipeline pipeline({&new_reader, &old_reader, known_parent, options.self_check}, options, sink);
  P2PW_TRY(DiffResult result, pipeline.run());
  if (known_parent != nullptr) {
    result.parent_digests = *known_parent;
  } else {
    P2PW_TRY(result.parent_digests.byte_slabs, byte_slab_digests(old_reader));
  }
  P2PW_CHECK(old_reader.check_unchanged());
  P2PW_CHECK(new_reader.check_unchanged());
  return result;
}

Result<DiffResult> diff_anchor(const CheckpointView& now, const DiffOptions& options, FrameSink& sink) {
  SlabReader reader(now.directory, *now.layout);
  Pipeline pipeline({&reader, nullptr, nullptr, options.self_check}, options, sink);
  P2PW_TRY(DiffResult result, pipeline.run());
  P2PW_CHECK(reader.check_unchanged());
  return result;
}

Result<KindChoice> choose_kind(const CheckpointView& parent, const CheckpointView& now) {
  const std::vector<Slab>& slabs = now.layout->tensor_slabs();
  bool same = now.layout->same_tensor_slabs(*parent.layout);
  if (slabs.empty()) return KindChoice{same ? Kind::delta : Kind::anchor, now.layout->total_bytes()};
  SlabReader old_reader(parent.directory, *parent.layout), new_reader(now.directory, *now.layout);

  const std::size_t samples = std::min(slabs.size(), kSampleSlabs);
  auto sample = [&](std::size_t i) -> const Slab& { return slabs[i * slabs.size() / samples]; };
  double raw = 0;
  for (std::size_t i = 0; i < samples; ++i) raw += static_cast<double>(std::min(sample(i).length, kSampleBytes));
  const double scale = static_cast<double>(now.layout->total_bytes()) / raw;
  // Frame bytes of the sample; `parent` null: as anchors.
  auto measure = [&](const SlabReader* parent_reader) -> Result<double> {
    std::vector<std::uint64_t> bytes(samples);
    P2PW_CHECK(parallel_for(default_threads(), samples, [&](unsigned, std::size_t i) -> Status {
      P2PW_TRY(bytes[i], SlabWorker({&new_reader, parent_reader, nullptr, false}).measure(sample(i), kSampleBytes));
      return {};
    }));
    return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}));
  };
  auto choice = [scale](Kind kind, double bytes) { return KindChoice{kind, static_cast<std::uint64_t>(bytes * scale)}; };
  double delta = 0;
  if (same) {
    P2PW_TRY(delta, measure(&old_reader));
    if (delta < kSurelySmaller * raw) return choice(Kind::delta, delta);
  }
  P2PW_TRY(double anchor, measure(nullptr));
  return same && delta < kClearlySmaller * anchor ? choice(Kind::delta, delta) : choice(Kind::anchor, anchor);
}

Result<SlabDigests> digest_checkpoint(const CheckpointView& checkpoint, const DiffOptions& options) {
  const Layout& layout = *checkpoint.layout;
  SlabReader reader(checkpoint.directory, layout);
  SlabDigests digests;
  digests.byte_slabs.resize(layout.byte_slabs().size());
  digests.tensor_slabs.resize(layout.tensor_slabs().size());
  std::size_t count = digests.byte_slabs.size() + digests.tensor_slabs.size();
  unsigned threads = threads_for(options, count);
  std::vector<SlabBuffer> buffers(threads);
  Status status = parallel_for(threads, count, [&](unsigned worker, std::size_t i) -> Status {
    if (options.stop && options.stop()) return fail(ErrorCode::interrupted, "interrupted");
    bool is_bytes = i < digests.byte_slabs.size();
    std::size_t at = is_bytes ? i : i - digests.byte_slabs.size();
    const Slab& slab = is_bytes ? layout.byte_slabs()[at] : layout.tensor_slabs()[at];
    auto bytes = buffers[worker].get(slab.length);
    P2PW_CHECK(reader.read(slab, bytes));
    (is_bytes ? digests.byte_slabs : digests.tensor_slabs)[at] = codec::digest_of(bytes);
    return {};
  });
  if (!status) return std::move(status).error();
  P2PW_CHECK(reader.check_unchanged());
  return digests;
}

}  // namespace p2pw
