#include "daemon/link/connection.h"

#include <boost/asio/post.hpp>
#include <cstring>

#include "daemon/link/tcp_tools.h"

namespace p2pw {
namespace {

namespace asio = boost::asio;
// One connection may keep the thread for about this long before the others get their turn.
constexpr std::size_t kTurnBytes = 1u << 20;
constexpr std::size_t kKeptOutput = 64u << 10;
constexpr std::chrono::seconds kLinger{1};

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const TlsContext& tls, LinkSide side,
                       TlsSession::Judge judge, std::shared_ptr<LinkScratch> scratch, User& user)
    : socket_(std::move(socket)),
      linger_(socket_.get_executor()),
      tls_(tls, side, std::move(judge)),
      side_(side),
      scratch_(std::move(scratch)),
      user_(&user) {
  ErrorCodeOf ignored;
  const auto remote = socket_.remote_endpoint(ignored);
  if (!ignored) remote_address_ = remote.address().to_string();
  socket_.non_blocking(true, ignored);
  set_no_delay(socket_.native_handle());
  set_dead_peer_timeouts(socket_.native_handle());
}

void Connection::start() {
  auto self = shared_from_this();
  asio::post(socket_.get_executor(), [this, self] {
    if (closed_) return;
    if (side_ == LinkSide::initiator) {
      if (auto begun = tls_.advance(); !begun) return broken(std::move(begun).error());
      pump();
    }
    wait_readable();
  });
}

void Connection::set_proven() {
  proven_ = true;
  reader_.set_limits(FrameLimits{});
}

void Connection::send(Outgoing item) {
  if (!is_open()) return;
  queue_.push(std::move(item));
  schedule_pump();
}

void Connection::send_first(Outgoing item) {
  if (!is_open()) return;
  queue_.push_front(std::move(item));
  schedule_pump();
}

void Connection::wake() {
  if (is_open()) schedule_pump();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  account();
  set_held(0);
  ErrorCodeOf ignored;
  socket_.close(ignored);
  linger_.cancel();
  if (auto after = std::exchange(after_, nullptr)) after();
}

void Connection::silence() {
  account();
  silenced_ = true;
  user_ = nullptr;
}

void Connection::finish(std::optional<Outgoing> last, std::function<void()> after) {
  if (!is_open()) return;
  if (queue_.bytes() > kBatchBytes) queue_ = SendQueue();
  after_ = std::move(after);
  if (last) queue_.push(std::move(*last));
  finishing_ = true;
  user_ = nullptr;
  auto self = shared_from_this();
  linger_.expires_after(kLinger);
  linger_.async_wait([this, self](ErrorCodeOf) { close(); });
  schedule_pump();
}

void Connection::broken(Error reason) {
  if (closed_) return;
  User* user = user_;
  close();
  if (user != nullptr) user->closed(*this, reason);
}

// Reading.

void Connection::wait_readable() {
  auto self = shared_from_this();
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [this, self](ErrorCodeOf error) {
    if (closed_) return;
    if (error) return broken(fail(ErrorCode::io, "the connection broke: " + error.message()));
    readable();
  });
}

void Connection::readable() {
  std::size_t taken = 0;
  while (!closed_) {
    ErrorCodeOf error;
    const std::size_t count = socket_.read_some(asio::buffer(scratch_->in), error);
    if (error == asio::error::would_block || error == asio::error::try_again) return wait_readable();
    if (error == asio::error::eof) return broken(fail(ErrorCode::io, "the peer closed the connection"));
    if (error) return broken(fail(ErrorCode::io, "the connection broke: " + error.message()));
    if (is_open()) take_in(ByteView(scratch_->in).first(count));
    taken += count;
    if (!closed_ && (count < scratch_->in.size() / 2 || taken >= kTurnBytes)) return wait_readable();
  }
}

void Connection::take_in(ByteView ciphertext) {
  if (!proven_) unproven_bytes_ += ciphertext.size();
  user_->received_bytes(*this);
  tls_.feed(ciphertext);
  if (!secured_) {
    auto done = tls_.advance();
    if (!done) {
      ErrorCodeOf ignored;  // the alert, if it can be had for nothing
      socket_.write_some(asio::buffer(tls_.output().data(), tls_.output().size()), ignored);
      return broken(std::move(done).error());
    }
    schedule_pump();
    if (!*done) return bound_stranger();
    secured_ = true;
    user_->secured(*this);
    if (!is_open()) return;
  }
  take_frames();
  bound_stranger();
}

// After what came has been looked at: the proof may have been in it, with much behind it that was allowed to follow. So one
// read more than the bound is as far as a stranger gets.
void Connection::bound_stranger() {
  if (!is_open() || proven_ || unproven_bytes_ <= kMaxUnprovenBytes) return;
  broken(fail(ErrorCode::limit, "too many bytes before the peer has proven itself"));
}

void Connection::take_frames() {
  while (true) {
    auto count = tls_.read(reader_.writable());
    if (!count) return broken(std::move(count).error());
    if (*count == 0) break;
    if (auto committed = reader_.commit(*count); !committed) return broken(std::move(committed).error());
    auto frame = reader_.take();
    if (!frame) continue;
    user_->received(*this, std::move(*frame));
    if (!is_open()) return;
  }
  if (tls_.finished()) return broken(fail(ErrorCode::io, "the peer closed the connection"));
  if (!tls_.output().empty()) schedule_pump();  // a key update or an alert of TLS itself
  set_held(reader_.held());
  if (scratch_->held > scratch_->max_held) user_->holds_too_much(*this);
}

void Connection::set_held(std::size_t bytes) {
  scratch_->held += bytes;
  scratch_->held -= std::exchange(held_, bytes);
}

// Writing.

void Connection::schedule_pump() {
  if (pump_scheduled_ || waiting_writable_ || closed_) return;
  pump_scheduled_ = true;
  auto self = shared_from_this();
  asio::post(socket_.get_executor(), [this, self] {
    pump_scheduled_ = false;
    pump();
  });
}

void Connection::pump() {
  std::size_t turn = 0;
  while (!closed_ && !silenced_ && !waiting_writable_) {
    if (tls_.output().empty() && !fill()) return;
    const ByteView out = tls_.output();
    ErrorCodeOf error;
    const std::size_t count = socket_.write_some(asio::buffer(out.data(), out.size()), error);
    if (error == asio::error::would_block || error == asio::error::try_again) {
      waiting_writable_ = true;
      auto self = shared_from_this();
      socket_.async_wait(asio::ip::tcp::socket::wait_write, [this, self](ErrorCodeOf failed) {
        waiting_writable_ = false;
        if (failed && !closed_)
          return broken(fail(ErrorCode::io, "the connection broke: " + failed.message()));
        pump();
      });
      return;
    }
    if (error) return broken(fail(ErrorCode::io, "the connection broke: " + error.message()));
    tls_.consume_output(count);
    batch_cipher_done_ += count;
    if (tls_.output().empty()) account();
    turn += count;
    if (turn >= kTurnBytes) return schedule_pump();
  }
}

// Puts a batch into the TLS output. False when there is nothing to write.
bool Connection::fill() {
  if (!tls_.established()) return false;
  Status added = gather();
  if (added && tls_.output().empty() && finishing_ && !tls_closed_) {
    tls_closed_ = true;
    tls_.close();
  }
  if (!added) {
    broken(std::move(added).error());
    return false;
  }
  batch_cipher_ = tls_.output().size();
  batch_cipher_done_ = 0;
  if (batch_cipher_ > 0) return true;
  if (finishing_) {
    ErrorCodeOf ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }
  tls_.release_output();
  return false;
}

Status Connection::gather() {
  std::size_t record_fill = 0;
  std::optional<std::size_t> payload_room;
  while (batch_.total() < kBatchBytes && begin_next()) {
    std::size_t room = kBatchBytes - batch_.total();
    if (current_->cargo != Cargo::control) {
      if (!payload_room) payload_room = user_ == nullptr ? 0 : user_->allowance(*this);
      if (*payload_room == 0) break;
      room = std::min(room, *payload_room);
    }
    const std::size_t before = current_done_;
    P2PW_CHECK(add_current(record_fill, room));
    if (payload_room && current_->cargo != Cargo::control) *payload_room -= current_done_ - before;
    if (current_done_ == current_->size()) current_.reset();
  }
  return flush_record(record_fill);
}

bool Connection::begin_next() {
  if (current_) return true;
  current_ = queue_.pop();
  if (!current_ && user_ != nullptr) current_ = user_->next(*this);
  current_done_ = 0;
  return current_.has_value();
}

// Up to `room` bytes of the current message. Full records are encrypted straight from the payload.
Status Connection::add_current(std::size_t& record_fill, std::size_t room) {
  const Outgoing& item = *current_;
  while (current_done_ < item.size() && room > 0) {
    const bool in_head = current_done_ < item.head.size();
    const ByteView rest = in_head ? ByteView(item.head).subspan(current_done_)
                                  : ByteView(*item.payload).subspan(current_done_ - item.head.size());
    std::size_t count = std::min(rest.size(), room);
    if (record_fill == 0 && count >= LinkScratch::kRecordBytes) {
      count -= count % LinkScratch::kRecordBytes;
      P2PW_CHECK(tls_.write(rest.first(count)));
    } else {
      count = std::min(count, LinkScratch::kRecordBytes - record_fill);
      std::memcpy(scratch_->record.data() + record_fill, rest.data(), count);
      record_fill += count;
      if (record_fill == LinkScratch::kRecordBytes) P2PW_CHECK(flush_record(record_fill));
    }
    current_done_ += count;
    room -= count;
    const bool counts_as_rest = in_head || item.cargo == Cargo::control;
    (counts_as_rest               ? batch_.rest
     : item.cargo == Cargo::chunk ? batch_.chunk_payload
                                  : batch_.bulk_payload) += count;
  }
  return {};
}

std::uint64_t Connection::cut(const BundleId& bundle) {
  if (!current_ || current_done_ > 0 || current_->cargo != Cargo::chunk || current_->bundle != bundle)
    return 0;
  const std::uint64_t removed = current_->size();
  current_.reset();
  return removed;
}

Status Connection::flush_record(std::size_t& record_fill) {
  const std::size_t count = std::exchange(record_fill, 0);
  return tls_.write(ByteView(scratch_->record).first(count));
}

// Tells the user what of the batch has reached the kernel: all of it, or on a broken connection the share
// that did.
void Connection::account() {
  Written written = std::exchange(batch_, Written{});
  if (written.total() == 0) return;
  if (batch_cipher_done_ < batch_cipher_) {
    const auto share = [&](std::uint64_t bytes) { return bytes * batch_cipher_done_ / batch_cipher_; };
    written = Written{share(written.chunk_payload), share(written.bulk_payload), share(written.rest)};
  }
  if (user_ != nullptr) user_->written(*this, written);
}

}  // namespace p2pw
