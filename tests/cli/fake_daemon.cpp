#include "tests/cli/fake_daemon.h"

#include <gtest/gtest.h>

namespace p2pw::testing {

FakeDaemon::FakeDaemon(Answer answer) : answer_(std::move(answer)) {
  ApiServer::Options options;
  options.socket = socket();
  auto server = ApiServer::start(io_, options, [this](ApiRequest request, ApiServer::Reply reply) {
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
      arrived_.notify_all();
      if (hang_) return unanswered_.push_back(std::move(reply));
    }
    reply(answer_(request));
  });
  EXPECT_TRUE(server.ok()) << server.error().message;
  server_ = std::move(server).value();
  thread_ = std::thread([this] {
    auto work = boost::asio::make_work_guard(io_);
    io_.run();
  });
}

FakeDaemon::~FakeDaemon() {
  io_.stop();
  thread_.join();
  unanswered_.clear();
  server_.reset();
}

std::vector<ApiRequest> FakeDaemon::requests() {
  std::lock_guard lock(mutex_);
  return requests_;
}

void FakeDaemon::wait_for_requests(std::size_t count) {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return requests_.size() >= count; });
}

}  // namespace p2pw::testing
