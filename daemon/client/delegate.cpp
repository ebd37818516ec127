#include "daemon/client/delegate.h"

#include "daemon/client/files.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

Result<SigningKey> online_key(const std::filesystem::path& file) {
  auto text = read_secret_file(file, limits::kMaxKeyFileBytes);
  if (text) return SigningKey::parse(text.value());
  if (text.error().code != ErrorCode::not_found) return text.error();
  SigningKey key = SigningKey::generate();
  P2PW_CHECK(write_small_file(file, key.file(), 0600));
  return key;
}

}  // namespace

Result<Bytes> sign_delegate(const SigningKey& publisher, const Channel& channel, const VerifyingKey& online, WallTime now) {
  return sign_record(publisher, channel, now, DelegateRecord{online, now + kDelegateLifetime});
}

Status renew_delegate(const StatePaths& paths, const Channel& channel, const SigningKey& publisher, WallTime now) {
  P2PW_TRY(SigningKey online, online_key(paths.online_key(channel)));
  P2PW_TRY(Bytes envelope, sign_delegate(publisher, channel, online.verifying_key(), now));
  return write_small_file(paths.delegate(channel), as_text(envelope), 0640);
}

}  // namespace p2pw
