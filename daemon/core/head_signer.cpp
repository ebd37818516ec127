#include "daemon/core/head_signer.h"

#include <spdlog/spdlog.h>

#include <optional>

#include "daemon/client/files.h"
#include "protocol/limits.h"

namespace p2pw {

namespace {

// The service manager hands over one key for all channels. Where the channel's delegate names another one, its file has it.
Result<SigningKey> online_key(const std::filesystem::path& file, const std::optional<DelegateRecord>& delegate) {
  P2PW_TRY(std::string text, read_credential("p2pw.online.key", file, limits::kMaxKeyFileBytes));
  P2PW_TRY(SigningKey key, SigningKey::parse(text));
  if (!delegate || delegate->key == key.verifying_key()) return key;
  auto own = read_secret_file(file, limits::kMaxKeyFileBytes);
  return own.ok() ? SigningKey::parse(*own) : Result<SigningKey>(std::move(key));
}

}  // namespace

Result<std::unique_ptr<HeadSigner>> HeadSigner::open(const StatePaths& paths, Follower& follower) {
  if (auto delegate = read_small_file(paths.delegate(follower.channel()), limits::kMaxRecordBytes); delegate.ok()) {
    auto taken = follower.take_record(as_bytes(*delegate), nullptr);
    if (!taken.ok()) {
      spdlog::warn("{}: {}; run p2pw seed, which renews it", paths.delegate(follower.channel()).string(),
                   taken.error().message);
    }
  }
  auto key = online_key(paths.online_key(follower.channel()), follower.log().verifier().delegate());
  if (!key.ok() && key.error().code == ErrorCode::not_found) return std::unique_ptr<HeadSigner>();
  if (!key.ok()) return key.error();
  return std::unique_ptr<HeadSigner>(new HeadSigner(std::move(*key), follower));
}

void HeadSigner::tick(WallTime now) {
  Version version = follower_.version_sealed();
  if (version == last_version_ && now - last_ < limits::kHeadRenewal) return;
  last_ = now;
  last_version_ = version;
  HeadRecord head{version, follower_.sealed_hash(), now + limits::kHeadLifetime};
  auto envelope = sign_record(key_, follower_.channel(), now, head);
  if (!envelope.ok()) return;
  auto taken = follower_.take_record(*envelope, nullptr);
  if (!taken.ok() && !warned_) {
    spdlog::warn("channel {}: head not signed: {}; p2pw seed renews the delegate", follower_.channel().str(),
                 taken.error().message);
  }
  warned_ = !taken.ok();
}

}  // namespace p2pw
