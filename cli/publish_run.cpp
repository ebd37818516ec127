#include "cli/publish_run.h"

#include <sodium.h>

#include <thread>

#include "chunker/bundle_sink.h"
#include "chunker/certificate.h"
#include "daemon/client/clock.h"
#include "daemon/client/delegate.h"
#include "daemon/client/give_way.h"
#include "protocol/hash.h"
#include "protocol/publish.pb.h"

namespace p2pw {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
constexpr seconds kAnswerPatience{60};
constexpr int kCertifyNicer = 10;  // the bundles may still be on their way
constexpr hours kWorkPatience{24};  // a rebuild or a slow fleet: Ctrl-C ends it sooner

Error unexpected(const std::string& wanted) {
  return fail(ErrorCode::malformed, "p2pwd did not answer with " + wanted + ": is it of the same version as p2pw?");
}

template <class T>
Status take_blob(const std::string& bytes, const char* what, T& out) {
  auto blob = T::from(std::string_view(bytes));
  if (!blob) return fail(ErrorCode::malformed, std::string("p2pwd sent a wrong ") + what);
  out = *blob;
  return {};
}

}  // namespace

double PublishResult::bits_per_changed_element() const {
  return changed_elements == 0 ? 0 : 8.0 * static_cast<double>(delta_bytes) / static_cast<double>(changed_elements);
}

class PublishRun::Sink : public BundleSink {
 public:
  Sink(PublishRun& run, std::uint64_t total)
      : BundleSink(*run.sealer_, BundleSizes(run.chunk_bytes_, run.expected_bytes_),
                   [&run](ClosedBundle&& bundle) { return send(run, std::move(bundle)); }),
        run_(run), total_(total) {}

  void progress(std::uint64_t done) override {
    if (run_.progress_) run_.progress_("diff", std::min(done, total_), total_);
  }

 private:
  static Status send(PublishRun& run, ClosedBundle&& bundle) {
    BundleRecord record = bundle.record(*run.run_, run.pinned_.version);
    P2PW_TRY(Bytes envelope, sign_record(run.publisher_, run.request_.channel, wall_clock(), record));
    P2PW_TRY(Sha256 id, record_id(envelope));
    run.bundle_ids_.insert(run.bundle_ids_.end(), id.view().begin(), id.view().end());
    run.record_bytes_ += envelope.size();
    wire::PublishMessage message;
    message.mutable_bundle()->set_envelope(envelope.data(), envelope.size());
    message.mutable_bundle()->set_meta(bundle.encoded_meta.data(), bundle.encoded_meta.size());
    return run.daemon_.send(message, bundle.bytes);
  }

  PublishRun& run_;
  std::uint64_t total_;
};

PublishRun::PublishRun(PublishClient& daemon, const SigningKey& publisher, const PublishRequest& request,
                       std::function<bool()> stop, Progress progress)
    : daemon_(daemon), publisher_(publisher), request_(request), stop_(std::move(stop)), progress_(std::move(progress)) {}

Result<PublishResult> PublishRun::run(const Layout& layout) {
  P2PW_CHECK(pin());
  P2PW_CHECK(choose(layout));
  P2PW_CHECK(fetch_key());
  Status sent = open(layout);
  if (sent) sent = send_bundles(layout);
  if (sent && stop_ && stop_()) sent = fail(ErrorCode::interrupted, "interrupted");
  if (sent) sent = seal(layout);
  if (!sent) {
    abandon();
    return sent.error();
  }
  P2PW_CHECK(wait_until_staged());
  certify(layout);
  return result_;
}

Status PublishRun::pin() {
  wire::PublishMessage message;
  auto* open = message.mutable_open();
  open->set_channel(request_.channel.str());
  open->set_version(request_.version);
  open->set_anchor_of(request_.anchor_of.value());
  open->set_wait_for_fleet(request_.wait_for_fleet);
  P2PW_CHECK(daemon_.send(message));
  Bytes payload;
  do {
    P2PW_CHECK(daemon_.receive(message, payload, request_.wait_for_fleet ? seconds{kWorkPatience} : kAnswerPatience));
    if (message.has_progress() && progress_) {
      progress_("waiting for the fleet", message.progress().nodes_staged(), message.progress().nodes_total());
    }
  } while (message.has_progress());
  return read_pinned(message);
}

Status PublishRun::read_pinned(const wire::PublishMessage& message) {
  if (!message.has_pinned()) return unexpected("the pinned parent");
  const wire::PublishPinned& pinned = message.pinned();
  pinned_.version = Version(pinned.version());
  pinned_.parent = Version(pinned.parent());
  pinned_.last_delta_bytes = pinned.last_delta_bytes();
  P2PW_CHECK(take_blob(pinned.previous_seal(), "seal", pinned_.previous_seal));
  P2PW_CHECK(take_blob(pinned.secret_id(), "secret id", pinned_.secret_id));
  result_.version = pinned_.version;
  if (pinned_.version.value() == 0) return fail(ErrorCode::malformed, "p2pwd sent no version");
  if (pinned_.parent.value() == 0) return {};
  pinned_.slot = pinned.parent_slot();
  P2PW_CHECK(take_blob(pinned.parent_table(), "table hash", pinned_.parent_table));
  std::string_view digests = pinned.parent_digests();
  std::size_t count = digests.size() / Digest::kSize;
  if (digests.size() % Digest::kSize != 0 || pinned.parent_byte_slabs() > count) {
    return fail(ErrorCode::malformed, "p2pwd sent a wrong digest table");
  }
  for (std::size_t i = 0; i < count; ++i) {
    Digest digest = *Digest::from(digests.substr(i * Digest::kSize, Digest::kSize));
    (i < pinned.parent_byte_slabs() ? pinned_.byte_slabs : pinned_.tensor_slabs).push_back(digest);
  }
  return {};
}

Status PublishRun::choose(const Layout& layout) {
  bool has_parent = pinned_.parent.value() != 0;
  if (!has_parent && request_.kind == Kind::delta) {
    return fail(ErrorCode::usage, "channel " + request_.channel.str() +
                                      " has no version yet: the first one is an anchor; leave out --kind delta");
  }
  result_.kind = request_.kind.value_or(Kind::anchor);
  if (has_parent) {
    P2PW_TRY(parent_layout_, Layout::scan(pinned_.slot));
    // An anchor that was asked for needs no look at the parent.
    if (request_.kind != Kind::anchor) {
      P2PW_TRY(KindChoice choice, choose_kind({pinned_.slot, &*parent_layout_}, {request_.directory, &layout}));
      result_.kind = request_.kind.value_or(choice.kind);
      if (result_.kind == choice.kind) expected_bytes_ = choice.expected_bytes;
    }
  }
  if (result_.kind == Kind::anchor && expected_bytes_ == 0) expected_bytes_ = layout.total_bytes() / 3 * 2;
  if (expected_bytes_ == 0) expected_bytes_ = pinned_.last_delta_bytes;
  chunk_bytes_ = choose_chunk_bytes(expected_bytes_);
  if (result_.kind == Kind::delta) result_.parent = pinned_.parent;
  return {};
}

Status PublishRun::fetch_key() {
  randombytes_buf(salt_.data.data(), salt_.data.size());
  wire::PublishMessage message;
  message.mutable_salt()->set_kind(static_cast<std::uint32_t>(result_.kind));
  message.mutable_salt()->set_salt(salt_.data.data(), salt_.data.size());
  P2PW_CHECK(daemon_.send(message));
  Bytes payload;
  P2PW_CHECK(daemon_.receive(message, payload, kAnswerPatience));
  if (!message.has_key()) return unexpected("the frame key");
  auto key = FrameKey::from(p2pw::as_bytes(message.key().frame_key()));
  if (!key) return fail(ErrorCode::malformed, "p2pwd sent a wrong frame key");
  sealer_.emplace(*key, RunContext{request_.channel, pinned_.version, result_.parent, result_.kind, salt_});
  return {};
}

Status PublishRun::send_record(const RecordBody& body, Sha256* id) {
  P2PW_TRY(Bytes envelope, sign_record(publisher_, request_.channel, wall_clock(), body));
  if (id != nullptr) {
    P2PW_TRY(*id, record_id(envelope));
    record_bytes_ += envelope.size();
  }
  wire::PublishMessage message;
  message.mutable_record()->set_envelope(envelope.data(), envelope.size());
  return daemon_.send(message);
}

Status PublishRun::open(const Layout& layout) {
  if (request_.online_key) {
    P2PW_CHECK(send_record(DelegateRecord{*request_.online_key, wall_clock() + kDelegateLifetime}));
  }
  OpenRecord record;
  record.version = pinned_.version;
  record.kind = result_.kind;
  record.parent = result_.parent;
  record.salt = salt_;
  record.secret_id = pinned_.secret_id;
  record.layout_hash = layout.hash();
  record.chunk_bytes = chunk_bytes_;
  record.previous_seal = pinned_.previous_seal;
  record.step = request_.step;
  record.tensor_slabs = static_cast<std::uint32_t>(layout.tensor_slabs().size());
  if (result_.kind == Kind::delta) record.parent_table = pinned_.parent_table;
  record.input_bytes = result_.input_bytes = layout.total_bytes();
  Sha256 id;
  P2PW_CHECK(send_record(record, &id));
  run_ = id_as<RunId>(id);
  return {};
}

Status PublishRun::send_bundles(const Layout& layout) {
  Sink sink(*this, layout.total_bytes());
  auto diffed = diff(layout, sink);
  if (!diffed) return report_damage(diffed.error());
  P2PW_CHECK(sink.finish_bundles());
  table_hash_ = diffed->digests.table_hash(layout.hash());
  result_.changed_elements = diffed->changed_elements;
  result_.total_elements = layout.total_elements();
  result_.bundles = sink.bundles();
  result_.delta_bytes = sink.bytes();
  return {};
}

Result<DiffResult> PublishRun::diff(const Layout& layout, Sink& sink) {
  DiffOptions options;
  options.threads = request_.threads;
  options.stop = stop_;
  options.parent_damaged = [this](SlabId slab) { damaged_ = slab.raw(); };
  CheckpointView view{request_.directory, &layout};
  if (result_.kind == Kind::anchor) return diff_anchor(view, options, sink);
  SlabDigests known{pinned_.byte_slabs, pinned_.tensor_slabs};
  const bool none = known.byte_slabs.empty() && known.tensor_slabs.empty();
  if (!none && known.table_hash(parent_layout_->hash()) != pinned_.parent_table) {
    return fail(ErrorCode::integrity, pinned_.slot.string() +
                                          ": this slot's digests are not those of version " +
                                          std::to_string(pinned_.parent.value()) + " as it was sealed");
  }
  return diff_delta({pinned_.slot, &*parent_layout_}, none ? nullptr : &known, view, options, sink);
}

// The daemon has another slot, and perhaps a mirror.
Error PublishRun::report_damage(Error error) {
  if (damaged_ == kNoSlab) return error;
  const SlabId slab(damaged_);
  wire::PublishMessage message;
  message.mutable_damaged()->set_slab(slab.raw());
  Status ignored = daemon_.send(message);
  const std::string next =
      slab.is_bytes() ? "seed with --kind anchor, which does not read it"
                      : "p2pwd mends it: seed again when `p2pw log` says `mended`, or with --kind anchor, "
                        "which does not read it";
  error.message += "; nothing made from it was signed. " + next;
  return error;
}

Status PublishRun::seal(const Layout& layout) {
  SealRecord record;
  record.run = *run_;
  record.version = pinned_.version;
  record.bundles = result_.bundles;
  record.bundles_hash = sha256(bundle_ids_);
  record.table_hash = table_hash_;
  record.byte_slabs = static_cast<std::uint32_t>(layout.byte_slabs().size());
  record.tensor_slabs = static_cast<std::uint32_t>(layout.tensor_slabs().size());
  record.previous_seal = pinned_.previous_seal;
  record.changed_elements = result_.changed_elements;
  record.total_elements = result_.total_elements;
  record.delta_bytes = result_.delta_bytes + record_bytes_;
  Sha256 id;
  P2PW_CHECK(send_record(record, &id));
  seal_hash_ = id_as<SealHash>(id);
  result_.delta_bytes += record_bytes_;
  return {};
}

// What the version was published from is here, and the daemon has staged it: a folder that was written to since then is
// not certified, and the version is none the worse for it.
void PublishRun::certify(const Layout& layout) {
  const bool due = request_.certify_every != 0 && pinned_.version.value() % request_.certify_every == 0;
  if (result_.kind != Kind::anchor && !due) return;
  if (request_.anchor_of.value() != 0) return;  // its version has been certified
  std::optional<Sha256> root;
  std::thread hashing([&] {
    give_way(kCertifyNicer);
    auto made = certificate_root(request_.directory, layout, table_hash_, request_.threads, stop_);
    if (made) root = *made;
  });
  hashing.join();
  if (root) Status ignored = send_record(CertifyRecord{pinned_.version, seal_hash_, *root});
}

Status PublishRun::wait_until_staged() {
  wire::PublishMessage message;
  Bytes payload;
  for (;;) {
    Status got = daemon_.receive(message, payload, kWorkPatience);
    if (!got && got.error().code == ErrorCode::interrupted) {
      return fail(ErrorCode::interrupted, "interrupted after version " + std::to_string(pinned_.version.value()) +
                                              " was sealed: it is published, and p2pwd goes on with it");
    }
    P2PW_CHECK(got);
    if (message.has_staged()) return {};
    if (message.has_progress() && progress_) {
      progress_("nodes staged", message.progress().nodes_staged(), message.progress().nodes_total());
    }
  }
}

void PublishRun::abandon() {
  if (!run_) return;
  daemon_.stop_asking();
  Status ignored = send_record(AbandonRecord{*run_, pinned_.version});
}

}  // namespace p2pw
