// HTTP requests to the local API: head and target as the server reads them, and what decides whether one is listened to.
#include <boost/beast/http.hpp>
#include <cstdlib>

#include "daemon/core/api_guard.h"

namespace {

namespace http = boost::beast::http;

std::string_view view(const boost::beast::string_view& text) { return {text.data(), text.size()}; }

void check(const http::request<http::string_body>& request, bool tcp) {
  const p2pw::ApiHeaders headers{view(request[http::field::host]), view(request[http::field::origin]),
                                 view(request["Sec-Fetch-Site"]), view(request[http::field::authorization]),
                                 request.find(http::field::origin) != request.end()};
  const auto refusal = p2pw::judge_request(headers, tcp, "0123456789abcdef");
  const auto call = p2pw::parse_target(view(request.method_string()), view(request.target()));
  if (call.query.size() > 64) std::abort();
  if (refusal) return;
  // What gets through names a loopback host, carries no other page's origin and, over TCP, the token.
  const std::string_view host = headers.host;
  if (tcp && host.find("localhost") != 0 && host.find("127.0.0.1") != 0 && host.find("[::1]") != 0) std::abort();
  if (headers.has_origin && headers.origin != "http://" + std::string(host)) std::abort();
  if (tcp && headers.authorization != "Bearer 0123456789abcdef") std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  http::request_parser<http::string_body> parser;
  parser.body_limit(1u << 20);
  parser.header_limit(16 << 10);
  parser.eager(true);
  boost::beast::error_code error;
  parser.put(boost::asio::buffer(data, size), error);
  if (error || !parser.is_header_done()) return 0;
  if (parser.get().body().size() > (1u << 20)) std::abort();
  check(parser.get(), true);
  check(parser.get(), false);
  return 0;
}
