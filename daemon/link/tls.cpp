#include "daemon/link/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstring>

namespace p2pw {

// The BIO between OpenSSL and the session's buffers. Writing always succeeds; reading says "retry" on empty
// input.
struct TlsBio {
  static int write(BIO* bio, const char* data, int count) {
    auto* session = static_cast<TlsSession*>(BIO_get_data(bio));
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    session->output_.insert(session->output_.end(), bytes, bytes + count);
    return count;
  }
  static int read(BIO* bio, char* out, int count) {
    auto* session = static_cast<TlsSession*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (session->input_.empty()) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const std::size_t taken = std::min(session->input_.size(), static_cast<std::size_t>(count));
    std::memcpy(out, session->input_.data(), taken);
    session->input_ = session->input_.subspan(taken);
    return static_cast<int>(taken);
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static int create(BIO* bio) {
    BIO_set_init(bio, 1);
    return 1;
  }
  static const BIO_METHOD* method() {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "p2pw buffers");
      BIO_meth_set_write(made, write);
      BIO_meth_set_read(made, read);
      BIO_meth_set_ctrl(made, control);
      BIO_meth_set_create(made, create);
      return made;
    }();
    return method;
  }
};

// Replaces OpenSSL's chain building: there is no chain, the key is the identity.
struct TlsVerify {
  static int certificate(X509_STORE_CTX* store, void*) {
    auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* session = static_cast<TlsSession*>(SSL_get_app_data(ssl));
    const Status judged = judge(*session, X509_STORE_CTX_get0_cert(store));
    if (!judged) session->refusal_ = judged.error();
    X509_STORE_CTX_set_error(store, judged ? X509_V_OK : X509_V_ERR_CERT_REJECTED);
    return judged ? 1 : 0;
  }
  static Status judge(const TlsSession& session, X509* certificate) {
    P2PW_TRY(const NodeKey key, node_key_of(certificate));
    return session.judge_ ? session.judge_(key) : Status();
  }
};

namespace {

constexpr long kMaxCertificateBytes = 4096;

std::string openssl_reason() {
  std::string reason = "the stream broke";
  if (unsigned long code = ERR_peek_last_error(); code != 0) {
    const char* text = ERR_reason_error_string(code);
    reason = text != nullptr ? text : "error " + std::to_string(code);
  }
  ERR_clear_error();
  return reason;
}

// AES-GCM where the CPU has instructions for it, as OpenSSL itself judges; else ChaCha20.
const char* preferred_suites() {
#if defined(__x86_64__) || defined(__i386__)
  const bool aes = __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#else
  const bool aes = true;  // every ARMv8 server core has them
#endif
  return aes ? "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
             : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";
}

}  // namespace

Result<TlsContext> TlsContext::make(const NodeIdentity& identity) {
  TlsContext made;
  made.own_key_ = identity.key();
  made.context_.reset(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  SSL_CTX* ctx = made.context_.get();
  const bool ok = ctx != nullptr && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set_ciphersuites(ctx, preferred_suites()) == 1 &&
                  SSL_CTX_set1_groups_list(ctx, "X25519") == 1 &&
                  SSL_CTX_set1_sigalgs_list(ctx, "ed25519") == 1 &&
                  SSL_CTX_set1_client_sigalgs_list(ctx, "ed25519") == 1 &&
                  SSL_CTX_use_certificate(ctx, identity.certificate()) == 1 &&
                  SSL_CTX_use_PrivateKey(ctx, identity.private_key()) == 1 &&
                  SSL_CTX_set_num_tickets(ctx, 0) == 1 && SSL_CTX_set_max_early_data(ctx, 0) == 1;
  if (!ok) return fail(ErrorCode::failed, "cannot set up TLS for links: " + openssl_reason());
  SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                               SSL_OP_NO_COMPRESSION);
  SSL_CTX_clear_options(ctx, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_max_cert_list(ctx, kMaxCertificateBytes);
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(ctx, TlsVerify::certificate, nullptr);
  return made;
}

TlsSession::TlsSession(const TlsContext& context, LinkSide side, Judge judge)
    : ssl_(SSL_new(context.get()), SSL_free), judge_(std::move(judge)) {
  SSL_set_app_data(ssl_.get(), this);
  BIO* bio = BIO_new(TlsBio::method());
  BIO_set_data(bio, this);
  SSL_set_bio(ssl_.get(), bio, bio);
  if (side == LinkSide::initiator) {
    SSL_set_connect_state(ssl_.get());
  } else {
    SSL_set_accept_state(ssl_.get());
  }
}

TlsSession::~TlsSession() = default;

Error TlsSession::broken(const char* during) {
  if (refusal_) {
    ERR_clear_error();
    return *refusal_;
  }
  return fail(ErrorCode::failed, std::string(during) + ": " + openssl_reason());
}

Result<bool> TlsSession::advance() {
  if (established_) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) {
    established_ = true;
    judge_ = nullptr;
    return true;
  }
  if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_WANT_READ) return false;
  return broken("TLS handshake");
}

Result<std::size_t> TlsSession::read(std::span<std::byte> out) {
  ERR_clear_error();
  std::size_t count = 0;
  if (SSL_read_ex(ssl_.get(), out.data(), out.size(), &count) == 1) return count;
  switch (SSL_get_error(ssl_.get(), 0)) {
    case SSL_ERROR_WANT_READ:
      return std::size_t{0};
    case SSL_ERROR_ZERO_RETURN:
      finished_ = true;
      return std::size_t{0};
    default:
      return broken("TLS stream");
  }
}

Status TlsSession::write(ByteView plaintext) {
  if (plaintext.empty()) return {};
  ERR_clear_error();
  if (written_with_key_ >= kRekeyBytes) {
    if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return broken("TLS key update");
    written_with_key_ = 0;
  }
  std::size_t count = 0;
  if (SSL_write_ex(ssl_.get(), plaintext.data(), plaintext.size(), &count) != 1 ||
      count != plaintext.size()) {
    return broken("TLS write");
  }
  written_with_key_ += count;
  return {};
}

void TlsSession::close() {
  ERR_clear_error();
  if (established_) SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

void TlsSession::consume_output(std::size_t count) {
  sent_ += count;
  if (sent_ < output_.size()) return;
  output_.clear();
  sent_ = 0;
}

void TlsSession::release_output() {
  Bytes().swap(output_);
}

Result<NodeKey> TlsSession::peer_key() const {
  return node_key_of(SSL_get0_peer_certificate(ssl_.get()));
}

Result<Exporter> TlsSession::exporter() const {
  Exporter exported;
  if (SSL_export_keying_material(ssl_.get(), exported.data(), exported.size(), kLinkExporterLabel.data(),
                                 kLinkExporterLabel.size(), nullptr, 0, 0) != 1) {
    return fail(ErrorCode::failed, "TLS exporter: " + openssl_reason());
  }
  return exported;
}

}  // namespace p2pw
