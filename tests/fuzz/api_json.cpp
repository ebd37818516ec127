// Bodies of the local API, as the client reads answers and the server reads questions.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "daemon/client/api.h"

namespace {

template <class T>
void round_trip(std::string_view text) {
  auto value = p2pw::api::parse<T>(text);
  if (!value) return;
  auto again = p2pw::api::from_json<T>(p2pw::api::to_json(*value));
  if (!again || p2pw::api::to_json(*again) != p2pw::api::to_json(*value)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  round_trip<p2pw::api::StatusReply>(text);
  round_trip<p2pw::api::LogReply>(text);
  round_trip<p2pw::api::TokenRequest>(text);
  (void)p2pw::api::error_from_text(text, 500);
  return 0;
}
