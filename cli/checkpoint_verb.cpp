#include "cli/checkpoint_verb.h"

#include <algorithm>
#include <filesystem>

#include "chunker/file_io.h"
#include "protocol/limits.h"

namespace p2pw {

void SharedProgress::at_least(std::uint64_t done) {
  std::lock_guard lock(mutex_);
  if (done <= done_) return;
  done_ = std::min(done, total_);
  console_.progress(label_, done_, total_);
}

Result<std::string> check_publisher(const DeltaFile& delta, const std::string& publisher) {
  if (publisher.empty()) return std::string(delta.is_signed() ? "not checked" : "unsigned");
  std::string text = publisher;
  std::error_code ignored;
  if (std::filesystem::exists(publisher, ignored)) {
    P2PW_TRY(Bytes file, read_file(publisher, limits::kMaxKeyFileBytes));
    text = as_text(file);
  }
  P2PW_TRY(VerifyingKey key, VerifyingKey::parse(text));
  P2PW_CHECK(delta.check_signature(key));
  return std::string("verified");
}

Result<SigningKey> read_signing_key(const std::string& path) {
  P2PW_TRY(Bytes file, read_file(path, limits::kMaxKeyFileBytes));
  auto key = SigningKey::parse(as_text(file));
  if (!key) return fail(key.error().code, path + ": " + key.error().message);
  return key;
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

}  // namespace p2pw
