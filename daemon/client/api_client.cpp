#include "daemon/client/api_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

namespace p2pw {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Socket = beast::basic_stream<asio::local::stream_protocol>;

constexpr std::chrono::milliseconds kAskCancelled{100};

// One request on one connection. Asynchronous inside, so that time-outs and Ctrl-C work.
class Exchange {
 public:
  Exchange(std::chrono::milliseconds patience, const std::function<bool()>& cancelled)
      : stream_(io_), patience_(patience), cancelled_(cancelled) {
    parser_.body_limit(api::kMaxBodyBytes);
  }

  Status run(const std::filesystem::path& path, http::request<http::string_body>& request) {
    boost::system::error_code error;
    stream_.socket().connect(asio::local::stream_protocol::endpoint(path.string()), error);
    if (error) return unreachable_error(path, error.value());
    stream_.expires_after(patience_);
    P2PW_CHECK(step([&](auto handler) { http::async_write(stream_, request, handler); }));
    return step([&](auto handler) { http::async_read(stream_, buffer_, parser_, handler); });
  }

  http::response<http::string_body> response() { return parser_.release(); }

 private:
  template <class Start>
  Status step(Start start) {
    std::optional<boost::system::error_code> result;
    start([&](boost::system::error_code error, std::size_t) { result = error; });
    io_.restart();
    while (!result) {
      io_.run_for(kAskCancelled);
      if (!result && cancelled_ && cancelled_()) {
        stream_.close();
        io_.run();
        return fail(ErrorCode::interrupted, "interrupted");
      }
    }
    if (*result == beast::error::timeout) {
      return fail(ErrorCode::timed_out, "p2pwd did not answer within " + std::to_string(patience_.count() / 1000) +
                                            " s: look at its log (journalctl -u p2pwd)");
    }
    if (*result) return fail(ErrorCode::unreachable, "p2pwd closed the connection: " + result->message());
    return {};
  }

  asio::io_context io_;
  Socket stream_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  std::chrono::milliseconds patience_;
  const std::function<bool()>& cancelled_;
};

// What `text` must not do is end the query or add another key.
std::string escaped(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (plain) {
      out += c;
      continue;
    }
    auto code = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[code >> 4];
    out += kDigits[code & 15];
  }
  return out;
}

std::string channel_target(const Channel& channel, const std::string& action) {
  return "/v1/channels/" + channel.str() + "/" + action;
}

// A name that is not UTF-8 must not throw here.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class T>
Result<T> parsed(Result<std::string> body) {
  if (!body) return std::move(body).error();
  return api::parse<T>(body.value());
}

}  // namespace

Error unreachable_error(const std::filesystem::path& socket, int number) {
  std::string text = "no p2pwd answers at " + socket.string() + " (" + std::strerror(number) + ")";
  if (number == EACCES || number == EPERM) {
    return fail(ErrorCode::unreachable, text + ": this user may not use it; join the group p2pw, or use sudo");
  }
  return fail(ErrorCode::unreachable, text + ": start it (systemctl start p2pwd, or p2pwd --config FILE), or name "
                                             "another one with --config or --state");
}

ApiClient::ApiClient(std::filesystem::path socket, std::function<bool()> cancelled)
    : socket_(std::move(socket)), cancelled_(std::move(cancelled)) {}

Result<std::string> ApiClient::exchange(const Request& request) {
  if (socket_.string().size() > 107) {
    return fail(ErrorCode::unreachable, "the socket path " + socket_.string() + " is longer than unix sockets allow");
  }
  http::request<http::string_body> message(request.post ? http::verb::post : http::verb::get, request.target, 11);
  message.set(http::field::host, "localhost");
  message.set(http::field::connection, "close");
  if (request.post) message.set(http::field::content_type, "application/json");
  message.body() = request.body;
  message.prepare_payload();
  try {
    Exchange exchange(request.patience, cancelled_);
    P2PW_CHECK(exchange.run(socket_, message));
    auto response = exchange.response();
    if (http::to_status_class(response.result()) == http::status_class::successful) return std::move(response.body());
    return api::error_from_text(response.body(), static_cast<int>(response.result_int()));
  } catch (const std::exception& error) {
    return fail(ErrorCode::unreachable, "cannot talk to p2pwd at " + socket_.string() + ": " + error.what());
  }
}

Result<std::string> ApiClient::get(const std::string& target, std::chrono::milliseconds patience) {
  return exchange({false, target, {}, patience});
}
Result<std::string> ApiClient::post(const std::string& target, const std::string& body, std::chrono::milliseconds patience) {
  return exchange({true, target, body, patience});
}

Result<api::StatusReply> ApiClient::status() { return parsed<api::StatusReply>(get("/v1/status")); }
Result<api::PeersReply> ApiClient::peers() { return parsed<api::PeersReply>(get("/v1/peers")); }
Result<std::string> ApiClient::metrics() { return get("/metrics"); }

Result<api::LogReply> ApiClient::log(const LogQuery& query) {
  std::string target = "/v1/log?after=" + std::to_string(query.after) + "&limit=" + std::to_string(query.limit);
  if (!query.channel.empty()) target += "&channel=" + escaped(query.channel);
  if (query.newest != 0) target += "&newest=" + std::to_string(query.newest);
  if (query.run != 0) target += "&run=" + std::to_string(query.run);
  if (query.wait.count() > 0) target += "&wait=" + std::to_string(query.wait.count());
  return parsed<api::LogReply>(get(target, query.wait + kPatience));
}

Result<api::VersionsReply> ApiClient::versions(const Channel& channel, std::uint64_t limit) {
  return parsed<api::VersionsReply>(get(channel_target(channel, "versions?limit=" + std::to_string(limit))));
}

Result<api::TimelineReply> ApiClient::timeline(const Channel& channel, std::uint64_t version) {
  return parsed<api::TimelineReply>(get(channel_target(channel, "timeline?version=" + std::to_string(version))));
}

Result<api::WaitReply> ApiClient::wait(const WaitQuery& query) {
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "&percent=%.6g&of=%s&timeout=%.3f", query.percent,
                query.of_live ? "live" : "sealed", static_cast<double>(query.timeout.count()) / 1000);
  std::string target = channel_target(query.channel, "wait?version=" + std::to_string(query.version) + numbers);
  return parsed<api::WaitReply>(get(target, query.timeout + kPatience));
}

Result<api::RotateReply> ApiClient::rotate_secret(const api::RotateRequest& request) {
  return parsed<api::RotateReply>(post("/v1/fleet-secret", text_of(api::to_json(request))));
}
Result<api::TokenReply> ApiClient::make_token(const api::TokenRequest& request) {
  return parsed<api::TokenReply>(post("/v1/tokens", text_of(api::to_json(request))));
}
Result<api::ActionReply> ApiClient::activate(const Channel& channel, const api::ActivateRequest& request) {
  return parsed<api::ActionReply>(post(channel_target(channel, "activate"), text_of(api::to_json(request))));
}
Result<api::ActionReply> ApiClient::rollback(const Channel& channel) {
  return parsed<api::ActionReply>(post(channel_target(channel, "rollback"), "{}"));
}
Result<api::SparseReply> ApiClient::sparse(const Channel& channel, const api::SparseRequest& request) {
  constexpr std::chrono::minutes kWholeCheckpoint{30};  // it is read from end to end
  return parsed<api::SparseReply>(post(channel_target(channel, "sparse"), text_of(api::to_json(request)), kWholeCheckpoint));
}
Result<api::ActionReply> ApiClient::release(const Channel& channel) {
  return parsed<api::ActionReply>(post(channel_target(channel, "release"), "{}"));
}

}  // namespace p2pw
