#include "chunker/make_delta.h"

namespace p2pw {
namespace {

// A writer that tells how far it is.
class Sink : public FrameSink {
 public:
  Sink(DeltaFileWriter& writer, const MakeDeltaOptions& options, std::uint64_t total)
      : writer_(writer), options_(options), total_(total) {}
  Status take(Frame&& frame) override { return writer_.take(std::move(frame)); }
  void progress(std::uint64_t done) override {
    if (options_.progress) options_.progress(std::min(done, total_), total_);
  }

 private:
  DeltaFileWriter& writer_;
  const MakeDeltaOptions& options_;
  std::uint64_t total_;
};

}  // namespace

Result<DeltaSummary> make_delta_file(const std::filesystem::path& parent, const std::filesystem::path& now,
                                     const std::filesystem::path& file, const MakeDeltaOptions& options) {
  P2PW_TRY(Layout old_layout, Layout::scan(parent));
  P2PW_TRY(Layout layout, Layout::scan(now));
  DeltaFileInfo info;
  info.kind = options.kind.value_or(layout.same_tensor_slabs(old_layout) ? Kind::delta : Kind::anchor);
  info.layout_hash = layout.hash();
  info.input_bytes = layout.total_bytes();
  info.total_elements = layout.total_elements();

  P2PW_TRY(auto writer, DeltaFileWriter::create(file));
  Sink sink(*writer, options, layout.total_bytes());
  DiffOptions diff_options;
  diff_options.threads = options.threads;
  diff_options.stop = options.stop;
  CheckpointView old_view{parent, &old_layout}, new_view{now, &layout};
  P2PW_TRY(DiffResult diff, info.kind == Kind::delta ? diff_delta(old_view, nullptr, new_view, diff_options, sink)
                                                     : diff_anchor(new_view, diff_options, sink));
  if (info.kind == Kind::delta) {
    info.parent_table = diff.parent_digests.table_hash(old_layout.hash());
    info.parent_checks = file_checks(old_layout, diff.parent_digests);
  }
  info.table = diff.digests.table_hash(layout.hash());
  info.checks = file_checks(layout, diff.digests);
  info.changed_elements = diff.changed_elements;

  DeltaSummary summary{info.kind, 0, info.input_bytes, info.changed_elements, info.total_elements};
  P2PW_TRY(summary.delta_bytes, writer->commit(info, options.key));
  return summary;
}

}  // namespace p2pw
