// Asks the local daemon over its unix socket: one connection for each request, answered before the call returns. The
// schema is api.h. One thread at a time.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "daemon/client/api.h"
#include "protocol/ids.h"

namespace p2pw {

class ApiClient {
 public:
  // `cancelled` is asked several times a second while a call waits (Ctrl-C); empty = never.
  explicit ApiClient(std::filesystem::path socket, std::function<bool()> cancelled = {});

  // Errors of every call: unreachable (nobody listens, or no right to), timed_out, interrupted, malformed, or what the
  // daemon answered.
  Result<api::StatusReply> status();
  Result<api::PeersReply> peers();
  struct LogQuery {
    std::string channel;  // empty: all
    std::uint64_t after = 0, limit = 1000;
    std::uint64_t newest = 0;        // begin with so many of the newest, whatever `after` says; 0 = by `after`
    std::uint64_t run = 0;           // LogReply::run that `after` is from; 0 = not known
    std::chrono::seconds wait{0};    // how long to wait for something new
  };
  Result<api::LogReply> log(const LogQuery& query);
  Result<api::VersionsReply> versions(const Channel& channel, std::uint64_t limit);
  Result<api::TimelineReply> timeline(const Channel& channel, std::uint64_t version);
  struct WaitQuery {
    Channel channel;
    std::uint64_t version = 0;
    double percent = 100;
    bool of_live = false;  // else the nodes that were live when the version was sealed
    std::chrono::milliseconds timeout{0};
  };
  // Returns when done or after `timeout`; WaitReply::done tells which.
  Result<api::WaitReply> wait(const WaitQuery& query);
  Result<api::RotateReply> rotate_secret(const api::RotateRequest& request);
  Result<api::TokenReply> make_token(const api::TokenRequest& request);
  Result<api::ActionReply> activate(const Channel& channel, const api::ActivateRequest& request);
  Result<api::ActionReply> rollback(const Channel& channel);
  Result<api::ActionReply> release(const Channel& channel);
  Result<api::SparseReply> sparse(const Channel& channel, const api::SparseRequest& request);
  Result<std::string> metrics();

  // The body of a successful answer, for what has no call above.
  Result<std::string> get(const std::string& target, std::chrono::milliseconds patience = kPatience);
  Result<std::string> post(const std::string& target, const std::string& body, std::chrono::milliseconds patience = kPatience);

  static constexpr std::chrono::milliseconds kPatience{30'000};

 private:
  struct Request {
    bool post = false;
    std::string target, body;
    std::chrono::milliseconds patience = kPatience;
  };
  Result<std::string> exchange(const Request& request);

  std::filesystem::path socket_;
  std::function<bool()> cancelled_;
};

// Nobody listens at `socket`: why (errno), and what to do. Shared with PublishClient.
Error unreachable_error(const std::filesystem::path& socket, int number);

}  // namespace p2pw
