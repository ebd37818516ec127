#include "protocol/sealing.h"

#include <openssl/evp.h>
#include <sodium.h>

#include <algorithm>

#include "protocol/crypto_init.h"
#include "protocol/limits.h"
#include "protocol/must.h"

namespace p2pw {
namespace {

constexpr std::string_view kSecretFileTag = "p2pw-fleet-secret-1";
constexpr std::string_view kSecretIdLabel = "p2pw fleet secret id 1";
constexpr std::string_view kFrameKeyLabel = "p2pw frame key 1";
constexpr std::string_view kFrameLabel = "p2pw frame 1";

static_assert(kSealOverhead == crypto_aead_xchacha20poly1305_ietf_ABYTES);

const unsigned char* raw_bytes(ByteView view) {
  return reinterpret_cast<const unsigned char*>(view.data());
}

// Fixed-width and length-prefixed fields, so that no two contexts give the same bytes. All numbers
// little-endian.
class Fields {
 public:
  void text(std::string_view text) {
    number(text.size(), 1);  // labels and names are at most 64 characters
    bytes(p2pw::as_bytes(text));
  }
  void number(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) buffer_[size_++] = static_cast<std::uint8_t>(value >> (8 * i));
  }
  void bytes(ByteView view) {
    for (std::byte b : view) buffer_[size_++] = std::to_integer<std::uint8_t>(b);
  }
  const std::uint8_t* data() const { return buffer_.data(); }
  std::size_t size() const { return size_; }

 private:
  std::array<std::uint8_t, 2 * (limits::kMaxNameLength + 1) + Salt::kSize + 32> buffer_;
  std::size_t size_ = 0;
};

Fields associated_data(const RunContext& run, SlabId slab) {
  Fields fields;
  fields.text(kFrameLabel);
  fields.text(run.channel.str());
  fields.number(run.version.value(), 8);
  fields.number(run.parent.value(), 8);
  fields.number(static_cast<std::uint8_t>(run.kind), 1);
  fields.number(slab.raw(), 4);
  return fields;
}

constexpr std::size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr std::size_t kMaxSealed = std::size_t(1) << 30;  // far above any frame; OpenSSL counts in int
constexpr std::size_t kSubkeyNonce = crypto_core_hchacha20_INPUTBYTES;  // the part of a nonce that goes into the subkey
using Nonce = std::array<std::uint8_t, kNonceBytes>;

Nonce nonce_of(BundleIndex bundle, FrameIndex frame) {
  Nonce nonce{};
  for (std::size_t i = 0; i < 4; ++i) {
    nonce[i] = static_cast<std::uint8_t>(bundle.value() >> (8 * i));
    nonce[4 + i] = static_cast<std::uint8_t>(frame.value() >> (8 * i));
  }
  return nonce;
}

void must(bool done) { p2pw::must(done, "ChaCha20-Poly1305"); }

// XChaCha20-Poly1305 as draft-irtf-cfrg-xchacha defines it: ChaCha20-Poly1305 under a subkey that HChaCha20 makes of the
// key and the first 16 bytes of the nonce. The subkey is libsodium's; the bulk is OpenSSL's, which is more than twice as
// fast.
class FrameCipher {
 public:
  FrameCipher(ByteView key, const Nonce& nonce, bool encrypt) : context_(EVP_CIPHER_CTX_new()) {
    static EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "ChaCha20-Poly1305", nullptr);
    must(context_ != nullptr && cipher != nullptr);
    std::array<std::uint8_t, crypto_core_hchacha20_OUTPUTBYTES> subkey;
    crypto_core_hchacha20(subkey.data(), nonce.data(), raw_bytes(key), nullptr);
    std::array<std::uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> rest{};
    std::copy(nonce.begin() + kSubkeyNonce, nonce.end(), rest.end() - (kNonceBytes - kSubkeyNonce));
    must(EVP_CipherInit_ex2(context_, cipher, subkey.data(), rest.data(), encrypt ? 1 : 0, nullptr) == 1);
    sodium_memzero(subkey.data(), subkey.size());
  }
  ~FrameCipher() { EVP_CIPHER_CTX_free(context_); }  // wipes the subkey
  FrameCipher(const FrameCipher&) = delete;
  FrameCipher& operator=(const FrameCipher&) = delete;

  void authenticate(const Fields& data) {
    int done = 0;
    must(EVP_CipherUpdate(context_, nullptr, &done, data.data(), static_cast<int>(data.size())) == 1);
  }
  void run(ByteView in, std::byte* out) {
    int done = 0;
    if (!in.empty()) must(EVP_CipherUpdate(context_, raw_out(out), &done, raw_bytes(in), static_cast<int>(in.size())) == 1);
  }
  void tag(std::byte* out) {
    int done = 0;
    must(EVP_CipherFinal_ex(context_, raw_out(out), &done) == 1);
    must(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, kSealOverhead, out) == 1);
  }
  bool tag_is(ByteView expected) {
    std::array<std::uint8_t, kSealOverhead> tag;
    std::ranges::transform(expected, tag.begin(), [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
    int done = 0;
    unsigned char none = 0;
    must(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, kSealOverhead, tag.data()) == 1);
    return EVP_CipherFinal_ex(context_, &none, &done) == 1;
  }

 private:
  static unsigned char* raw_out(std::byte* out) { return reinterpret_cast<unsigned char*>(out); }

  EVP_CIPHER_CTX* context_;
};

// The id follows from the secret, so a damaged file is noticed.
SecretId id_of(std::span<const std::uint8_t, 32> secret) {
  SecretId id;
  std::array<std::uint8_t, 32> hash;
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(kSecretIdLabel.data()),
                     kSecretIdLabel.size(), secret.data(), secret.size());
  std::copy_n(hash.begin(), SecretId::kSize, id.data.begin());
  return id;
}

}  // namespace

FleetSecret FleetSecret::generate() {
  init_crypto();
  FleetSecret secret;
  randombytes_buf(secret.secret_.data(), secret.secret_.size());
  secret.id_ = id_of(secret.secret_);
  return secret;
}

Result<FleetSecret> FleetSecret::parse(std::string_view file) {
  init_crypto();
  constexpr std::size_t kIdAt = kSecretFileTag.size() + 1, kSecretAt = kIdAt + 2 * SecretId::kSize + 1;
  while (!file.empty() && (file.back() == '\n' || file.back() == '\r' || file.back() == ' '))
    file.remove_suffix(1);
  const bool shaped = file.size() == kSecretAt + 64 && file.starts_with(kSecretFileTag) &&
                      file[kIdAt - 1] == ' ' && file[kSecretAt - 1] == ' ';
  if (!shaped)
    return fail(ErrorCode::config, "not a fleet secret: expected \"p2pw-fleet-secret-1 ID SECRET\"");
  FleetSecret secret;
  std::size_t length = 0;
  const char* end = nullptr;
  const std::string_view hex = file.substr(kSecretAt);
  const bool decoded = sodium_hex2bin(secret.secret_.data(), secret.secret_.size(), hex.data(), hex.size(),
                                      nullptr, &length, &end) == 0 &&
                       length == 32 && end == hex.data() + hex.size();
  secret.id_ = id_of(secret.secret_);
  if (!decoded || SecretId::from_hex(file.substr(kIdAt, 2 * SecretId::kSize)) != secret.id_) {
    return fail(ErrorCode::config, "the fleet secret is damaged: its id does not belong to it");
  }
  return secret;
}

std::string FleetSecret::file() const {
  std::string hex(64 + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), secret_.data(), secret_.size());
  hex.pop_back();
  std::string text = std::string(kSecretFileTag) + " " + id_.hex() + " " + hex + "\n";
  sodium_memzero(hex.data(), hex.size());
  return text;
}

FleetSecret FleetSecret::clone() const {
  FleetSecret copy;
  copy.id_ = id_;
  copy.secret_ = secret_;
  return copy;
}

FleetSecret::~FleetSecret() {
  sodium_memzero(secret_.data(), secret_.size());
}

FleetSecret::FleetSecret(FleetSecret&& other) noexcept : id_(other.id_), secret_(other.secret_) {
  sodium_memzero(other.secret_.data(), other.secret_.size());
}

FleetSecret& FleetSecret::operator=(FleetSecret&& other) noexcept {
  if (this != &other) {
    id_ = other.id_;
    secret_ = other.secret_;
    sodium_memzero(other.secret_.data(), other.secret_.size());
  }
  return *this;
}

FrameKey FrameKey::derive(const FleetSecret& secret, const RunContext& run) {
  Fields fields;
  fields.text(kFrameKeyLabel);
  fields.text(run.channel.str());
  fields.number(run.version.value(), 8);
  fields.number(static_cast<std::uint8_t>(run.kind), 1);
  fields.bytes(run.salt.view());
  FrameKey key;
  crypto_generichash(key.key_.data(), key.key_.size(), fields.data(), fields.size(), secret.raw().data(),
                     secret.raw().size());
  return key;
}

std::optional<FrameKey> FrameKey::from(ByteView raw32) {
  FrameKey key;
  if (raw32.size() != key.key_.size()) return std::nullopt;
  std::memcpy(key.key_.data(), raw32.data(), raw32.size());
  return key;
}

FrameKey::~FrameKey() {
  sodium_memzero(key_.data(), key_.size());
}

FrameSealer::FrameSealer(FrameKey key, RunContext run) : key_(std::move(key)), run_(std::move(run)) {
  init_crypto();
}

void FrameSealer::seal(BundleIndex bundle, FrameIndex frame, SlabId slab, ByteView plain, Bytes& out) const {
  const std::size_t begin = out.size();
  out.resize(begin + plain.size() + kSealOverhead);
  FrameCipher cipher(key_.raw(), nonce_of(bundle, frame), true);
  cipher.authenticate(associated_data(run_, slab));
  cipher.run(plain, out.data() + begin);
  cipher.tag(out.data() + begin + plain.size());
}

Status FrameSealer::open(BundleIndex bundle, FrameIndex frame, SlabId slab, ByteView sealed, Bytes& out) const {
  bool opened = sealed.size() >= kSealOverhead && sealed.size() <= kMaxSealed;
  if (opened) {
    out.resize(sealed.size() - kSealOverhead);  // not cleared first: zeroing what is overwritten would cost time
    FrameCipher cipher(key_.raw(), nonce_of(bundle, frame), false);
    cipher.authenticate(associated_data(run_, slab));
    cipher.run(sealed.first(out.size()), out.data());
    opened = cipher.tag_is(sealed.last(kSealOverhead));
  }
  if (opened) return {};
  out.clear();
  return fail(
      ErrorCode::integrity,
      "frame " + std::to_string(frame.value()) + " of bundle " + std::to_string(bundle.value()) +
          " of version " + std::to_string(run_.version.value()) + " of " + run_.channel.str() +
          " does not open: its bytes were changed, it belongs elsewhere, or the fleet secret is another one");
}

}  // namespace p2pw
