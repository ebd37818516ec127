// Engines that are told over a unix socket, or through a program.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "daemon/core/engine_transport.h"

extern char** environ;

namespace p2pw {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Local = asio::local::stream_protocol;
using Done = EngineTransport::Done;

std::string in_ms(std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; }

class SocketCall : public std::enable_shared_from_this<SocketCall> {
 public:
  SocketCall(asio::io_context& io, std::string path, EngineCall call, Done done)
      : socket_(io), timer_(io), path_(std::move(path)), call_(std::move(call)), done_(std::move(done)) {
    call_.body += '\n';
  }

  void start() {
    timer_.expires_after(call_.time_out);
    timer_.async_wait([weak = weak_from_this()](error_code error) {
      auto self = weak.lock();
      if (!error && self) self->end(fail(ErrorCode::timed_out, self->path_ + ": no answer in " + in_ms(self->call_.time_out)));
    });
    socket_.async_connect(Local::endpoint(path_), [self = shared_from_this()](error_code error) {
      if (error) return self->end(fail(ErrorCode::unreachable, self->path_ + ": nobody listens: " + error.message()));
      asio::async_write(self->socket_, asio::buffer(self->call_.body), [self](error_code written, std::size_t) {
        if (written) return self->end(self->broken(written));
        self->read();
      });
    });
  }
  void stop() {
    done_ = nullptr;
    end(EngineAnswer{});
  }

 private:
  void read() {
    asio::async_read_until(socket_, asio::dynamic_buffer(answer_, kMaxEngineAnswer), '\n',
                           [self = shared_from_this()](error_code error, std::size_t length) {
                             if (error) return self->end(self->broken(error));
                             self->end(EngineAnswer{200, self->answer_.substr(0, length)});
                           });
  }
  Error broken(error_code error) const {
    if (error == asio::error::not_found) return fail(ErrorCode::limit, path_ + ": an answer of more than 1 MiB");
    return fail(ErrorCode::incomplete, path_ + ": the connection broke before the answer: " + error.message());
  }
  void end(Result<EngineAnswer> answer) {
    timer_.cancel();
    error_code ignored;
    socket_.close(ignored);
    if (auto done = std::exchange(done_, nullptr)) done(std::move(answer));
  }

  Local::socket socket_;
  asio::steady_timer timer_;
  std::string path_;
  EngineCall call_;
  Done done_;
  std::string answer_;
};

// Its standard input is a file in memory: a program that does not read it cannot break a pipe here.
int input_file(const std::string& text) {
  int fd = memfd_create("p2pw-hook", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return fd;
  close(fd);
  return -1;
}

class ExecCall : public std::enable_shared_from_this<ExecCall> {
 public:
  ExecCall(asio::io_context& io, std::vector<std::string> command, EngineCall call, Done done)
      : out_(io), ended_(io), timer_(io), command_(std::move(command)), call_(std::move(call)), done_(std::move(done)) {}
  ~ExecCall() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void start() {
    if (Status started = spawn(); !started.ok()) return end_later(started.error());
    timer_.expires_after(call_.time_out);
    timer_.async_wait([weak = weak_from_this()](error_code error) {
      auto self = weak.lock();
      if (!error && self) self->end(fail(ErrorCode::timed_out, self->name() + ": still running after " + in_ms(self->call_.time_out)));
    });
    asio::async_read(out_, asio::dynamic_buffer(answer_, kMaxEngineAnswer), [self = shared_from_this()](error_code, std::size_t) {
      // Standard output is closed: what it said is complete; how it ended is known in a moment.
      self->ended_.async_wait(asio::posix::stream_descriptor::wait_read, [self](error_code error) {
        if (!error) self->exited();
      });
    });
  }
  void stop() {
    done_ = nullptr;
    end(EngineAnswer{});
  }

 private:
  std::string name() const { return command_.front(); }

  Status spawn() {
    int in = input_file(call_.body), out[2] = {-1, -1};
    if (in < 0 || pipe2(out, O_CLOEXEC) != 0) {
      Error error = fail(ErrorCode::io, std::string("cannot make its input or output: ") + std::strerror(errno));
      if (in >= 0) close(in);
      return error;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // so that its children can be ended too
    std::vector<char*> argv;
    for (std::string& word : command_) argv.push_back(word.data());
    argv.push_back(nullptr);
    int error = posix_spawn(&pid_, command_.front().c_str(), &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(in);
    close(out[1]);
    out_.assign(out[0]);
    if (error != 0) {
      pid_ = -1;
      return fail(ErrorCode::unreachable, name() + ": cannot be started: " + std::strerror(error));
    }
    int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    if (pidfd < 0) return fail(ErrorCode::io, name() + ": cannot be watched: " + std::strerror(errno));
    ended_.assign(pidfd);
    return {};
  }

  void exited() {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) return;
    pid_ = -1;
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (WIFSIGNALED(status)) return end(fail(ErrorCode::incomplete, name() + ": ended by signal " + std::to_string(WTERMSIG(status))));
    end(EngineAnswer{good ? 200 : 500, answer_.empty() && !good ? "{\"ok\":false,\"reason\":\"exit code " +
                                                                       std::to_string(WEXITSTATUS(status)) + "\"}"
                                                                 : answer_});
  }

  void end_later(Error error) {
    timer_.expires_after(std::chrono::milliseconds(0));
    timer_.async_wait([self = shared_from_this(), error](error_code) { self->end(error); });
  }
  void end(Result<EngineAnswer> answer) {
    timer_.cancel();
    error_code ignored;
    out_.close(ignored);
    ended_.close(ignored);
    if (auto done = std::exchange(done_, nullptr)) done(std::move(answer));
  }

  asio::posix::stream_descriptor out_, ended_;
  asio::steady_timer timer_;
  std::vector<std::string> command_;
  EngineCall call_;
  Done done_;
  std::string answer_;
  pid_t pid_ = -1;
};

// Keeps what is needed to end calls with the transport.
template <class Call, class Place>
class LocalTransport : public EngineTransport {
 public:
  LocalTransport(asio::io_context& io, Place place) : io_(io), place_(std::move(place)) {}
  ~LocalTransport() override {
    for (auto& weak : calls_) {
      if (auto call = weak.lock()) call->stop();
    }
  }
  void call(EngineCall call, Done done) override {
    std::erase_if(calls_, [](auto& weak) { return weak.expired(); });
    auto started = std::make_shared<Call>(io_, place_, std::move(call), std::move(done));
    calls_.push_back(started);
    started->start();
  }

 private:
  asio::io_context& io_;
  Place place_;
  std::vector<std::weak_ptr<Call>> calls_;
};

}  // namespace

std::unique_ptr<EngineTransport> socket_transport(asio::io_context& io, const std::string& path) {
  return std::make_unique<LocalTransport<SocketCall, std::string>>(io, path);
}

std::unique_ptr<EngineTransport> exec_transport(asio::io_context& io, std::vector<std::string> command) {
  return std::make_unique<LocalTransport<ExecCall, std::vector<std::string>>>(io, std::move(command));
}

}  // namespace p2pw
