#include "protocol/signing.h"

#include <sodium.h>

#include <algorithm>

#include "protocol/crypto_init.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::string_view kPublicComment = "untrusted comment: minisign public key ";
constexpr std::string_view kSecretComment = "untrusted comment: minisign secret key\n";
constexpr std::string_view kSignatureComment = "untrusted comment: signature from p2pw secret key\n";
constexpr std::string_view kTrustedComment = "trusted comment: ";

constexpr std::array<std::uint8_t, 2> kKeyAlgorithm = {'E', 'd'};
constexpr std::array<std::uint8_t, 2> kHashedAlgorithm = {'E', 'D'};

// Offsets in the secret key file's binary, as minisign lays it out.
constexpr std::size_t kSecretSize = 158, kKdfAt = 2, kCheckAlgorithmAt = 4, kIdAt = 54, kSecretAt = 62,
                      kCheckAt = 126;
constexpr std::size_t kPublicSize = 42;

std::string base64(ByteView bytes) {
  std::string out(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  out.pop_back();  // libsodium counts the terminating zero
  return out;
}

template <std::size_t N>
bool from_base64(std::string_view text, std::array<std::uint8_t, N>& out) {
  std::size_t length = 0;
  const char* end = nullptr;
  return sodium_base642bin(out.data(), N, text.data(), text.size(), nullptr, &length, &end,
                           sodium_base64_VARIANT_ORIGINAL) == 0 &&
         length == N && end == text.data() + text.size();
}

std::string_view trimmed(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\n'))
    line.remove_suffix(1);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  return line;
}

// The line with the key: the one after the comment, or the only one.
std::string_view key_line(std::string_view file) {
  if (file.starts_with("untrusted comment:")) {
    const std::size_t end = file.find('\n');
    file = end == std::string_view::npos ? std::string_view{} : file.substr(end + 1);
  }
  return trimmed(file.substr(0, file.find('\n')));
}

std::string comment_id(const KeyId& id) {  // minisign prints it as a little-endian number
  KeyId reversed = id;
  std::reverse(reversed.data.begin(), reversed.data.end());
  std::string hex = reversed.hex();
  for (char& c : hex) c = c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
  return hex;
}

std::array<std::uint8_t, crypto_generichash_BYTES_MAX> prehash(ByteView message) {
  std::array<std::uint8_t, crypto_generichash_BYTES_MAX> hash;
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(message.data()),
                     message.size(), nullptr, 0);
  return hash;
}

std::array<std::uint8_t, 32> secret_check(ByteView id_and_secret) {
  std::array<std::uint8_t, 32> check;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, check.size());
  crypto_generichash_update(&state, kKeyAlgorithm.data(), kKeyAlgorithm.size());
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(id_and_secret.data()),
                            id_and_secret.size());
  crypto_generichash_final(&state, check.data(), check.size());
  return check;
}

}  // namespace

Result<VerifyingKey> VerifyingKey::parse(std::string_view text) {
  init_crypto();
  std::array<std::uint8_t, kPublicSize> raw;
  if (text.size() > limits::kMaxKeyFileBytes || !from_base64(key_line(text), raw) ||
      !std::equal(kKeyAlgorithm.begin(), kKeyAlgorithm.end(), raw.begin())) {
    return fail(
        ErrorCode::config,
        "\"" + std::string(text.substr(0, 80)) +
            "\" is not a public key: give the base64 line of a minisign .pub file (it starts with RW)");
  }
  VerifyingKey key;
  std::copy_n(raw.begin() + 2, KeyId::kSize, key.id.data.begin());
  std::copy_n(raw.begin() + 10, PublicKey::kSize, key.key.data.begin());
  return key;
}

std::string VerifyingKey::line() const {
  init_crypto();
  std::array<std::uint8_t, kPublicSize> raw;
  std::copy(kKeyAlgorithm.begin(), kKeyAlgorithm.end(), raw.begin());
  std::copy(id.data.begin(), id.data.end(), raw.begin() + 2);
  std::copy(key.data.begin(), key.data.end(), raw.begin() + 10);
  return base64(std::as_bytes(std::span(raw)));
}

std::string VerifyingKey::file() const {
  return std::string(kPublicComment) + comment_id(id) + "\n" + line() + "\n";
}

KeyId signer_of(const Signature& signature) { return *KeyId::from(signature.view().subspan(2, KeyId::kSize)); }

bool VerifyingKey::verify(ByteView message, const Signature& signature) const {
  init_crypto();
  if (!std::equal(kHashedAlgorithm.begin(), kHashedAlgorithm.end(), signature.data.begin())) return false;
  if (signer_of(signature) != id) return false;
  const auto hash = prehash(message);
  return crypto_sign_verify_detached(signature.data.data() + 10, hash.data(), hash.size(), key.data.data()) ==
         0;
}

SigningKey SigningKey::generate() {
  init_crypto();
  SigningKey key;
  crypto_sign_keypair(key.verifying_.key.data.data(), key.secret_.data());
  randombytes_buf(key.verifying_.id.data.data(), KeyId::kSize);
  return key;
}

Result<SigningKey> SigningKey::parse(std::string_view file) {
  init_crypto();
  std::array<std::uint8_t, kSecretSize> raw;
  struct Wipe {
    std::array<std::uint8_t, kSecretSize>& bytes;
    ~Wipe() { sodium_memzero(bytes.data(), bytes.size()); }
  } wipe{raw};
  if (file.size() > limits::kMaxKeyFileBytes || !from_base64(key_line(file), raw) ||
      !std::equal(kKeyAlgorithm.begin(), kKeyAlgorithm.end(), raw.begin()) || raw[kCheckAlgorithmAt] != 'B' ||
      raw[kCheckAlgorithmAt + 1] != '2') {
    return fail(ErrorCode::config, "not a secret key file: make one with `p2pw keygen` or `minisign -G -W`");
  }
  if (raw[kKdfAt] != 0 || raw[kKdfAt + 1] != 0) {
    return fail(ErrorCode::config,
                "the secret key is protected by a password, which a service cannot type: remove it with "
                "`minisign -C -W -s FILE`, or make a key with `p2pw keygen`");
  }
  SigningKey key;
  std::copy_n(raw.begin() + kIdAt, KeyId::kSize, key.verifying_.id.data.begin());
  std::copy_n(raw.begin() + kSecretAt, key.secret_.size(), key.secret_.begin());
  // minisign leaves the check bytes zero without a password. The public half checks the key as well.
  const auto check = secret_check(std::as_bytes(std::span(raw)).subspan(kIdAt, kCheckAt - kIdAt));
  const bool unchecked = sodium_is_zero(raw.data() + kCheckAt, check.size()) == 1;
  std::array<std::uint8_t, 64> rebuilt;
  crypto_sign_seed_keypair(key.verifying_.key.data.data(), rebuilt.data(), key.secret_.data());
  const bool same = sodium_memcmp(rebuilt.data(), key.secret_.data(), rebuilt.size()) == 0;
  sodium_memzero(rebuilt.data(), rebuilt.size());
  if (!same || (!unchecked && sodium_memcmp(raw.data() + kCheckAt, check.data(), check.size()) != 0)) {
    return fail(ErrorCode::config, "the secret key file is damaged: its two halves do not belong together");
  }
  return key;
}

std::string SigningKey::file() const {
  std::array<std::uint8_t, kSecretSize> raw{};
  std::copy(kKeyAlgorithm.begin(), kKeyAlgorithm.end(), raw.begin());
  raw[kCheckAlgorithmAt] = 'B';
  raw[kCheckAlgorithmAt + 1] = '2';
  std::copy(verifying_.id.data.begin(), verifying_.id.data.end(), raw.begin() + kIdAt);
  std::copy(secret_.begin(), secret_.end(), raw.begin() + kSecretAt);
  std::string text = std::string(kSecretComment) + base64(std::as_bytes(std::span(raw))) + "\n";
  sodium_memzero(raw.data(), raw.size());
  return text;
}

SigningKey::~SigningKey() {
  sodium_memzero(secret_.data(), secret_.size());
}

SigningKey::SigningKey(SigningKey&& other) noexcept : verifying_(other.verifying_), secret_(other.secret_) {
  sodium_memzero(other.secret_.data(), other.secret_.size());
}

SigningKey& SigningKey::operator=(SigningKey&& other) noexcept {
  if (this != &other) {
    verifying_ = other.verifying_;
    secret_ = other.secret_;
    sodium_memzero(other.secret_.data(), other.secret_.size());
  }
  return *this;
}

Signature SigningKey::sign(ByteView message) const {
  Signature signature;
  std::copy(kHashedAlgorithm.begin(), kHashedAlgorithm.end(), signature.data.begin());
  std::copy(verifying_.id.data.begin(), verifying_.id.data.end(), signature.data.begin() + 2);
  const auto hash = prehash(message);
  crypto_sign_detached(signature.data.data() + 10, nullptr, hash.data(), hash.size(), secret_.data());
  return signature;
}

std::string SigningKey::minisig(ByteView message, std::string_view trusted_comment) const {
  const Signature signature = sign(message);
  std::string comment(trusted_comment);
  std::replace_if(
      comment.begin(), comment.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::string covered(signature.text().substr(10));
  covered += comment;
  std::array<std::uint8_t, crypto_sign_BYTES> over_comment;
  crypto_sign_detached(over_comment.data(), nullptr, reinterpret_cast<const unsigned char*>(covered.data()),
                       covered.size(), secret_.data());
  return std::string(kSignatureComment) + base64(signature.view()) + "\n" + std::string(kTrustedComment) +
         comment + "\n" + base64(std::as_bytes(std::span(over_comment))) + "\n";
}

NodeKey node_key_of(const SigningKey& key) {
  NodeKey node;
  node.data = key.verifying_key().key.data;
  return node;
}

}  // namespace p2pw
