// Answers p2pw over a real api.sock with what a test says, through the daemon's own server.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/core/api_server.h"
#include "tests/support/temp_dir.h"

namespace p2pw::testing {

class FakeDaemon {
 public:
  using Answer = std::function<ApiResponse(const ApiRequest&)>;
  explicit FakeDaemon(Answer answer);
  ~FakeDaemon();

  const std::filesystem::path& state() const { return dir_.path(); }
  std::filesystem::path socket() const { return dir_ / "api.sock"; }
  std::vector<ApiRequest> requests();
  void wait_for_requests(std::size_t count);
  // Requests are heard and never answered.
  void hang() { hang_ = true; }

 private:
  TempDir dir_;
  Answer answer_;
  std::atomic<bool> hang_ = false;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<ApiRequest> requests_;
  std::vector<ApiServer::Reply> unanswered_;
  boost::asio::io_context io_;
  std::unique_ptr<ApiServer> server_;
  std::thread thread_;
};

}  // namespace p2pw::testing
