// One TLS connection over TCP: moves frames in and out of a socket, knows nothing of what they mean.
//
// Ownership: shared; a pending socket operation keeps it alive, close() ends them all. The user is not owned
// and must outlive the connection or close() it. Threads: the thread of the io_context. No callback but
// written() is made from inside a call: send(), wake() and finish() only schedule work.
//
// Writing is done in batches: small messages share a TLS record with what follows, ciphertext leaves in runs
// of up to kBatchBytes. What is queued here goes first, then what the user has to offer (next()).
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>

#include "daemon/link/frames.h"
#include "daemon/link/send_queue.h"
#include "daemon/link/tls.h"

namespace p2pw {

// What all connections of one hub share: buffers that they use in turn, and the sum of what they hold of
// unfinished messages.
struct LinkScratch {
  static constexpr std::size_t kReadBytes = 256u << 10;
  static constexpr std::size_t kRecordBytes = 16u << 10;
  Bytes in = Bytes(kReadBytes);
  Bytes record = Bytes(kRecordBytes);
  std::size_t held = 0;
  std::size_t max_held = 256u << 20;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static constexpr std::size_t kBatchBytes = 256u << 10;
  // Before the peer is proven: both handshakes, certificates included, take about 3 KiB.
  static constexpr std::size_t kMaxUnprovenBytes = 32u << 10;

  // Bytes that have been handed to the kernel.
  struct Written {
    std::uint64_t chunk_payload = 0;
    std::uint64_t bulk_payload = 0;
    std::uint64_t rest = 0;  // framing, headers and other payloads
    std::uint64_t total() const { return chunk_payload + bulk_payload + rest; }
  };

  class User {
   public:
    virtual ~User() = default;
    virtual void secured(Connection& connection) = 0;  // TLS stands
    virtual void received(Connection& connection, Frame frame) = 0;
    virtual void received_bytes(Connection&) {}  // something came, be it part of a message
    // More to write, when the connection's own queue is empty.
    virtual std::optional<Outgoing> next(Connection&) { return std::nullopt; }
    // Payload bytes of chunks and bulk that the next batch may hold. On 0 the user calls wake() later.
    virtual std::size_t allowance(Connection&) { return kBatchBytes; }
    virtual void written(Connection&, const Written&) {}
    // All connections together hold more of unfinished messages than LinkScratch::max_held.
    virtual void holds_too_much(Connection&) {}
    // Broken or closed by the peer. Not called after close() or finish().
    virtual void closed(Connection& connection, const Error& reason) = 0;
  };

  Connection(boost::asio::ip::tcp::socket socket, const TlsContext& tls, LinkSide side,
             TlsSession::Judge judge, std::shared_ptr<LinkScratch> scratch, User& user);

  void start();
  void set_user(User& user) { user_ = &user; }
  void set_proven();  // lifts the bounds for strangers

  void send(Outgoing item);
  void send_first(Outgoing item);  // ahead of everything that has not begun
  std::uint64_t queued_bytes() const { return queue_.bytes(); }
  void wake();  // next() or allowance() has something to give
  // Forgets a chunk of this bundle that was taken from the user and has not begun; its size.
  std::uint64_t cut(const BundleId& bundle);

  // At once and without a word. Idempotent.
  void close();
  // Writes what is begun and `last`, says goodbye to TLS and closes when the peer does, all within a second;
  // nothing is received any more. Then `after` is called. A long queue is dropped.
  void finish(std::optional<Outgoing> last, std::function<void()> after = nullptr);
  // Stays connected, but sends and hands on nothing any more, until close().
  void silence();
  bool is_open() const { return !closed_ && !finishing_ && !silenced_; }

  std::size_t held() const { return held_; }  // bytes of an unfinished message
  const TlsSession& tls() const { return tls_; }
  LinkSide side() const { return side_; }
  int socket_handle() { return socket_.native_handle(); }
  std::string remote_address() const { return remote_address_; }

 private:
  using ErrorCodeOf = boost::system::error_code;
  void wait_readable();
  void readable();
  void take_in(ByteView ciphertext);
  void take_frames();
  void bound_stranger();
  void schedule_pump();
  void pump();
  bool fill();
  Status gather();
  bool begin_next();
  Status add_current(std::size_t& record_fill, std::size_t room);
  Status flush_record(std::size_t& record_fill);
  void account();
  void broken(Error reason);
  void set_held(std::size_t bytes);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer linger_;
  TlsSession tls_;
  LinkSide side_;
  std::shared_ptr<LinkScratch> scratch_;
  User* user_;
  std::string remote_address_;
  FrameReader reader_{kUnprovenLimits};
  SendQueue queue_;

  std::optional<Outgoing> current_;  // begun
  std::size_t current_done_ = 0;     // bytes of it that are in a batch
  Written batch_;                    // in tls_.output(), not written yet
  std::size_t batch_cipher_ = 0, batch_cipher_done_ = 0;
  std::size_t unproven_bytes_ = 0;
  std::size_t held_ = 0;
  bool proven_ = false;
  bool secured_ = false;
  bool pump_scheduled_ = false;
  bool waiting_writable_ = false;
  bool finishing_ = false;
  bool silenced_ = false;
  std::function<void()> after_;
  bool tls_closed_ = false;
  bool closed_ = false;
};

}  // namespace p2pw
