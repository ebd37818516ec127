#include "simulations/src/series/writer.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>

#include "chunker/file_io.h"
#include "chunker/parallel.h"

namespace p2pw::series {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlockElements = 1u << 18;
constexpr std::size_t kFp8Block = 128;
constexpr float kLargestE4m3 = 448.0f;

fs::path step_folder(const fs::path& out, std::size_t step) {
  std::string digits = std::to_string(step);
  return out / ("step_" + std::string(4 - std::min<std::size_t>(4, digits.size()), '0') + digits);
}

// What one thread does at a time: some elements of one tensor, through all steps.
struct Job {
  std::size_t tensor;
  std::uint64_t begin, count;  // elements; whole rows of blocks for an fp8_weight
};

class SeriesWriter {
 public:
  SeriesWriter(const fs::path& out, const SeriesOptions& options)
      : out_(out), options_(options), plan_(plan_model(options.model)), changed_(options.steps) {}

  Result<SeriesSummary> run() {
    P2PW_CHECK(make_files());
    choose_rules();
    std::vector<Job> jobs = list_jobs();
    unsigned threads = options_.threads == 0 ? default_threads() : options_.threads;
    Status done = parallel_for(threads, jobs.size(), [&](unsigned, std::size_t i) { return run_job(jobs[i], i); });
    if (!done) return std::move(done).error();
    return summary();
  }

 private:
  Status make_files() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
      limit.rlim_cur = limit.rlim_max;
      setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (std::size_t step = 0; step <= options_.steps; ++step) {
      fs::path folder = step_folder(out_, step);
      std::error_code ec;
      if (fs::exists(folder, ec)) return fail(ErrorCode::usage, folder.string() + ": exists already; name a new folder");
      if (!fs::create_directories(folder, ec)) return fail(ErrorCode::io, folder.string() + ": " + ec.message());
      P2PW_CHECK(write_text(folder / "model.safetensors.index.json", plan_.index));
      P2PW_CHECK(write_text(folder / "config.json", config_of(step)));
      P2PW_CHECK(write_text(folder / "tokenizer.json", plan_.tokenizer));
      for (const Shard& shard : plan_.shards) {
        P2PW_TRY(File file, File::create(folder / shard.file));
        P2PW_CHECK(file.write(0, as_bytes(shard.header)));
        files_.push_back(std::move(file));
      }
    }
    return {};
  }

  static Status write_text(const fs::path& path, const std::string& text) {
    P2PW_TRY(File file, File::create(path));
    return file.write(0, as_bytes(text));
  }

  std::string config_of(std::size_t step) const {
    if (!options_.change_config) return plan_.config + "\n}\n";
    return plan_.config + ",\n  \"training_step\": " + std::to_string(step) + "\n}\n";
  }

  const File& file(std::size_t step, const Tensor& tensor) const {
    return files_[step * plan_.shards.size() + tensor.shard];
  }

  void choose_rules() {
    for (const Tensor& t : plan_.tensors) {
      if (t.role == Role::constant || t.role == Role::fp8_scale) continue;
      Dtype dtype = stored_as(t);
      if (rules_.contains(dtype)) continue;
      float spread = dtype == Dtype::f8_e4m3 ? 1.0f : 0.02f;
      rules_[dtype] = calibrate(dtype, spread, options_.changed_percent / 100);
      rules_[dtype].redraw = options_.dense;
    }
  }

  // Codes in blocks with scales of their own are made from weights that move as bf16 ones do.
  static Dtype stored_as(const Tensor& t) { return t.role == Role::fp8_weight ? Dtype::bf16 : t.dtype; }

  std::vector<Job> list_jobs() const {
    std::vector<Job> jobs;
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
      const Tensor& t = plan_.tensors[i];
      if (t.role == Role::fp8_scale) continue;
      std::uint64_t part = t.role == Role::fp8_weight ? kFp8Block * t.shape[1] : kBlockElements;
      if (t.role == Role::constant) part = std::max<std::uint64_t>(1, t.elements());
      for (std::uint64_t begin = 0; begin < t.elements(); begin += part) {
        jobs.push_back({i, begin, std::min(part, t.elements() - begin)});
      }
    }
    return jobs;
  }

  Status run_job(const Job& job, std::size_t number) const {
    const Tensor& t = plan_.tensors[job.tensor];
    std::uint64_t seed = mix(mix(options_.seed, job.tensor), number);
    if (t.role == Role::constant) return write_constant(t, seed);
    Block block(seed, job.count, t.role == Role::norm ? 1.0f : 0.0f, t.spread);
    unsigned width = element_bytes(t.dtype);
    std::vector<std::byte> now(job.count * width), before(now.size());
    for (std::size_t step = 0; step <= options_.steps; ++step) {
      if (step > 0) block.step(rules_.at(stored_as(t)));
      std::swap(now, before);
      if (t.role == Role::fp8_weight) {
        P2PW_CHECK(quantize(t, job, block, step, now));
      } else {
        cast(block.weights(), 1, t.dtype, now);
      }
      P2PW_CHECK(file(step, t).write(t.offset + job.begin * width, now));
      if (step > 0) changed_[step - 1] += count_changed(before, now, width);
    }
    return {};
  }

  // One row of 128 x 128 blocks: the scale makes the largest weight of a block the largest code.
  Status quantize(const Tensor& t, const Job& job, const Block& block, std::size_t step,
                  std::vector<std::byte>& codes) const {
    std::uint64_t columns = t.shape[1], rows = job.count / columns;
    std::vector<float> scales((columns + kFp8Block - 1) / kFp8Block);
    for (std::size_t b = 0; b < scales.size(); ++b) {
      std::uint64_t from = b * kFp8Block, width = std::min<std::uint64_t>(kFp8Block, columns - from);
      float largest = 1e-12f;
      for (std::uint64_t row = 0; row < rows; ++row) {
        for (float w : block.weights().subspan(row * columns + from, width)) largest = std::max(largest, std::abs(w));
      }
      scales[b] = largest / kLargestE4m3;
      for (std::uint64_t row = 0; row < rows; ++row) {
        std::uint64_t at = row * columns + from;
        cast(block.weights().subspan(at, width), 1.0f / scales[b], t.dtype, std::span(codes).subspan(at, width));
      }
    }
    const Tensor& st = plan_.tensors[t.scales];
    std::uint64_t block_row = job.begin / (kFp8Block * columns);
    if (step > 0) changed_[step - 1] += scales.size();
    return file(step, st).write(st.offset + block_row * scales.size() * sizeof(float), std::as_bytes(std::span(scales)));
  }

  Status write_constant(const Tensor& t, std::uint64_t seed) const {
    std::vector<std::uint32_t> random((t.bytes() / 4 / Noise::kLanes + 1) * Noise::kLanes);
    Noise(seed).fill(random);
    auto bytes = std::as_writable_bytes(std::span(random)).first(t.bytes());
    for (std::byte& b : bytes) {
      if (t.dtype == Dtype::boolean) b &= std::byte{1};
    }
    for (std::size_t step = 0; step <= options_.steps; ++step) P2PW_CHECK(file(step, t).write(t.offset, bytes));
    return {};
  }

  SeriesSummary summary() const {
    SeriesSummary out;
    out.checkpoints = options_.steps + 1;
    out.tensors = plan_.tensors.size();
    out.shards = plan_.shards.size();
    out.checkpoint_bytes = plan_.tensor_bytes;
    for (const Tensor& t : plan_.tensors) out.elements += t.elements();
    for (const auto& count : changed_) out.changed.push_back(count);
    return out;
  }

  const fs::path& out_;
  const SeriesOptions& options_;
  Plan plan_;
  std::vector<File> files_;  // by step, then by shard
  std::map<Dtype, StepRule> rules_;
  mutable std::vector<std::atomic<std::uint64_t>> changed_;
};

}  // namespace

Result<SeriesSummary> write_series(const fs::path& out, const SeriesOptions& options) {
  return SeriesWriter(out, options).run();
}

}  // namespace p2pw::series
