// How fast a slot in memory is patched, against memcpy in the same run, and how long it takes from "every slab is there" to
// `current` switched. tests/bench/slot builds and runs it on a series that p2pw-series makes.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "chunker/codec/codec.h"
#include "chunker/parallel.h"
#include "chunker/slab_reader.h"
#include "chunker/slot_pair.h"

namespace {

using namespace p2pw;
namespace fs = std::filesystem;

double seconds(const std::function<void()>& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class T>
T need(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}
void need(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

// A checkpoint of the series: its table, with the byte slabs in the store.
std::shared_ptr<CheckpointTable> table_of(const SlabReader& reader, ByteStore& store, unsigned threads) {
  auto table = std::make_shared<CheckpointTable>();
  const Layout& layout = reader.layout();
  for (const Slab& slab : layout.byte_slabs()) {
    Bytes bytes(slab.length);
    need(reader.read(slab, bytes));
    table->bytes.digests.push_back(codec::digest_of(bytes));
    need(store.put(table->bytes.digests.back(), bytes));
  }
  table->bytes = need(load_byte_table(store, table->bytes.digests));
  table->tensors.resize(layout.tensor_slabs().size());
  std::vector<Bytes> buffers(threads);
  need(parallel_for(threads, table->tensors.size(), [&](unsigned worker, std::size_t i) -> Status {
    buffers[worker].resize(layout.tensor_slabs()[i].length);
    P2PW_CHECK(reader.read(layout.tensor_slabs()[i], buffers[worker]));
    table->tensors[i] = codec::digest_of(buffers[worker]);
    return {};
  }));
  return table;
}

// Pages are there, as those of a slot that stands: what is measured is copying, not the kernel's clearing.
double memcpy_rate(std::uint64_t bytes, unsigned threads) {
  const std::size_t each = static_cast<std::size_t>(std::min<std::uint64_t>(bytes / threads, 256u << 20));
  std::vector<Bytes> from(threads, Bytes(each, std::byte{1})), to(threads, Bytes(each, std::byte{2}));
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    double took = seconds([&] {
      need(parallel_for(threads, threads, [&](unsigned, std::size_t i) -> Status {
        std::memcpy(to[i].data(), from[i].data(), each);
        return {};
      }));
    });
    best = std::max(best, static_cast<double>(each) * threads / took);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Patches a slot from one checkpoint to the next and switches to it.");
  std::string slot, before, after;
  unsigned threads = default_threads();
  bool json = false;
  app.add_option("SLOT", slot, "Folder for the slots, on tmpfs; must not exist")->required();
  app.add_option("BEFORE", before, "Checkpoint")->required();
  app.add_option("AFTER", after, "Checkpoint with the same layout")->required();
  app.add_option("--threads", threads, "Default: all cores");
  app.add_flag("--json", json, "Answer with one JSON object");
  CLI11_PARSE(app, argc, argv);

  need(real_file_system().make_directories(slot));
  auto pair = need(SlotPair::open(real_file_system(), {slot, {}, {}}));
  Layout layout_before = need(Layout::scan(before)), layout_after = need(Layout::scan(after));
  SlabReader read_before(before, layout_before), read_after(after, layout_after);
  auto store = pair->byte_store();
  auto table_before = table_of(read_before, *store, threads), table_after = table_of(read_after, *store, threads);
  const auto& slabs = table_after->bytes.layout->tensor_slabs();
  std::uint64_t total = 0;
  for (const Slab& slab : slabs) total += slab.length;

  std::vector<SlabScratch> scratch(threads);
  auto fill = [&](Slot& to) {
    RunId run;
    run.data[0] = 1;
    need(to.begin_new(run, Version(1)));
    need(to.set_layout(table_before->bytes.layout));
    need(parallel_for(threads, slabs.size(), [&](unsigned worker, std::size_t i) -> Status {
      Bytes& bytes = scratch[worker].slab;
      bytes.resize(slabs[i].length);
      P2PW_CHECK(read_before.read(layout_before.tensor_slabs()[i], bytes));
      return to.put(static_cast<std::uint32_t>(i), bytes, table_before->tensors[i]);
    }));
    auto finish = need(to.finish(Version(1), SealHash{}, table_before->hash(), table_before));
    if (!finish.staged) std::exit(1);
    return *finish.staged;
  };
  need(pair->switch_to(fill(*pair->slot(SlotName::a))));
  pair->release();
  auto standby = pair->standby();
  fill(*standby);

  std::vector<Bytes> frames(slabs.size());
  std::uint64_t frame_bytes = 0;
  need(parallel_for(threads, slabs.size(), [&](unsigned, std::size_t i) -> Status {
    Bytes a(slabs[i].length), b(slabs[i].length);
    P2PW_CHECK(read_before.read(layout_before.tensor_slabs()[i], a));
    P2PW_CHECK(read_after.read(layout_after.tensor_slabs()[i], b));
    codec::SlabEncoder encoder;
    encoder.encode_delta(a, b, slabs[i].dtype, frames[i]);
    return {};
  }));
  for (const Bytes& frame : frames) frame_bytes += frame.size();

  double memcpy_bytes = memcpy_rate(total, threads);
  RunId run;
  run.data[0] = 2;
  need(standby->begin_delta(run, Version(2)));
  double patching = seconds([&] {
    need(parallel_for(threads, slabs.size(), [&](unsigned worker, std::size_t i) -> Status {
      SlabChain chain;
      chain.parent = table_before->tensors[i];
      chain.after = {table_after->tensors[i]};
      chain.frame = [&](std::size_t) -> Result<ByteView> { return ByteView(frames[i]); };
      P2PW_TRY(Applied applied, standby->apply(static_cast<std::uint32_t>(i), chain, scratch[worker]));
      return applied.done ? Status() : fail(ErrorCode::integrity, applied.reason);
    }));
  });
  std::optional<StagedVersion> staged;
  double finishing = seconds([&] { staged = need(standby->finish(Version(2), SealHash{}, table_after->hash(), table_after)).staged; });
  if (!staged) return 1;
  double switching = seconds([&] { need(pair->switch_to(*staged)); });

  double rate = static_cast<double>(total) / patching;
  if (json) {
    std::printf("{\"bytes\":%llu,\"frame_bytes\":%llu,\"threads\":%u,\"patch_gb_s\":%.2f,\"memcpy_gb_s\":%.2f,"
                "\"patch_over_memcpy\":%.3f,\"finish_ms\":%.1f,\"switch_ms\":%.2f}\n",
                static_cast<unsigned long long>(total), static_cast<unsigned long long>(frame_bytes), threads, rate / 1e9,
                memcpy_bytes / 1e9, rate / memcpy_bytes, finishing * 1e3, switching * 1e3);
  } else {
    std::printf("%.2f GB, frames %.1f MB, %u threads: patched at %.2f GB/s (memcpy %.2f, ratio %.2f); last slab to staged "
                "%.1f ms, staged to switched %.2f ms\n",
                static_cast<double>(total) / 1e9, static_cast<double>(frame_bytes) / 1e6, threads, rate / 1e9,
                memcpy_bytes / 1e9, rate / memcpy_bytes, finishing * 1e3, switching * 1e3);
  }
  return 0;
}
