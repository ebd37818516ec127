// Join tokens: as text, and, because a random text never has the right checksum, as the bytes inside one.
#include "protocol/token.h"

#include <sodium.h>

#include <cstdlib>

#include "protocol/crypto_init.h"
#include "protocol/hash.h"

namespace {

std::string wrap(p2pw::ByteView body) {
  p2pw::init_crypto();
  p2pw::Sha256Stream stream;
  stream.add(p2pw::as_bytes("p2pw1"));
  stream.add(body);
  p2pw::Bytes bytes(body.begin(), body.end());
  const p2pw::Sha256 sum = stream.finish();
  bytes.insert(bytes.end(), sum.view().begin(), sum.view().begin() + 4);
  std::string text(sodium_base64_encoded_len(bytes.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                    sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  text.pop_back();
  return "p2pw1" + text;
}

void check(std::string_view text) {
  const auto token = p2pw::JoinToken::parse(text);
  if (!token) return;
  const auto again = token->encode();
  if (!again || p2pw::JoinToken::parse(*again).value() != *token) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({reinterpret_cast<const char*>(data), size});
  if (size <= 4096) check(wrap(std::as_bytes(std::span(data, size))));
  return 0;
}
