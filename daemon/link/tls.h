// TLS 1.3 without sockets: ciphertext goes in and comes out through buffers, so one record layer serves any
// transport and is tested in memory. Ciphertext is collected in large runs, for few system calls.
//
// Both ends show their node certificate; any well-formed one is accepted here (identity.h), the caller then
// judges the key. Ed25519, X25519 and AEAD suites only; no tickets, no resumption, no early data, no
// renegotiation, nothing older.
//
// One thread at a time. Errors: untrusted (the peer's certificate or handshake is refused), failed (broken
// stream).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "daemon/link/identity.h"
#include "protocol/link_proof.h"

using SSL = struct ssl_st;
using SSL_CTX = struct ssl_ctx_st;

namespace p2pw {

// What only the two ends of one TLS session can compute (RFC 8446, 7.5).
using Exporter = std::array<std::uint8_t, 32>;

class TlsContext {
 public:
  static Result<TlsContext> make(const NodeIdentity& identity);
  SSL_CTX* get() const { return context_.get(); }
  const NodeKey& own_key() const { return own_key_; }

 private:
  TlsContext() = default;
  std::shared_ptr<SSL_CTX> context_;
  NodeKey own_key_;
};

class TlsSession {
 public:
  // A session key is changed after this many bytes, far below what AES-GCM allows (RFC 8446, 5.5: 2^24.5
  // records).
  static constexpr std::uint64_t kRekeyBytes = 64ull << 30;

  // Judges the key that the peer's certificate claims, in the middle of the handshake: a peer that is refused
  // there has not seen our own certificate if we are the initiator.
  using Judge = std::function<Status(const NodeKey&)>;

  TlsSession(const TlsContext& context, LinkSide side, Judge judge);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // `ciphertext` from the peer is to be worked off by the next calls of advance() or read(), until they ask
  // for more; it must stay valid until then.
  void feed(ByteView ciphertext) { input_ = ciphertext; }

  // Takes the handshake as far as the input allows. True once it is complete.
  Result<bool> advance();
  bool established() const { return established_; }

  // Plaintext into `out`; the number of bytes, 0 when more input is needed or the peer has closed (see
  // finished()).
  Result<std::size_t> read(std::span<std::byte> out);
  bool finished() const { return finished_; }  // the peer's close_notify has come

  // Plaintext to be sent; its ciphertext is added to output().
  Status write(ByteView plaintext);
  void close();  // adds a close_notify

  ByteView output() const { return ByteView(output_).subspan(sent_); }
  void consume_output(std::size_t count);
  // Gives the output buffer's memory back; for connections that fall idle. REQUIRES: output() is empty.
  void release_output();

  // REQUIRES: established().
  Result<NodeKey> peer_key() const;
  Result<Exporter> exporter() const;

 private:
  friend struct TlsBio;
  friend struct TlsVerify;
  Error broken(const char* during);

  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  ByteView input_;
  Bytes output_;
  std::size_t sent_ = 0;
  std::uint64_t written_with_key_ = 0;
  Judge judge_;
  std::optional<Error> refusal_;
  bool established_ = false;
  bool finished_ = false;
};

}  // namespace p2pw
