#include "protocol/token.h"

#include <sodium.h>

#include <algorithm>

#include "protocol/crypto_init.h"
#include "protocol/hash.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::string_view kPrefix = "p2pw1";
constexpr std::string_view kFamily = "p2pw";
constexpr std::size_t kChecksumSize = 4;
constexpr std::uint64_t kLastMillis = 253'402'300'799'999;  // end of the year 9999

Error damaged() {
  return fail(ErrorCode::usage,
              "the join token is cut or mistyped: copy the whole line that `p2pw token` printed");
}

Sha256 checksum_of(ByteView body) {
  Sha256Stream stream;
  stream.add(as_bytes(kPrefix));
  stream.add(body);
  return stream.finish();
}

class Writer {
 public:
  void number(std::uint64_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void bytes(ByteView view) { out.insert(out.end(), view.begin(), view.end()); }
  void text(std::string_view text) {
    number(text.size(), 1);
    bytes(as_bytes(text));
  }
  Bytes out;
};

// Reads zeros past the end and remembers it; the caller asks once, at the end.
class Reader {
 public:
  explicit Reader(ByteView bytes) : rest_(bytes) {}
  ByteView bytes(std::size_t count) {
    if (count > rest_.size()) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const ByteView taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    const ByteView taken = bytes(width);
    for (std::size_t i = 0; i < taken.size(); ++i)
      value |= std::to_integer<std::uint64_t>(taken[i]) << (8 * i);
    return value;
  }
  std::string_view text() { return as_text(bytes(number(1))); }
  template <class B>
  B blob() {
    return B::from(bytes(B::kSize)).value_or(B());
  }
  bool good() const { return !failed_ && rest_.empty(); }

 private:
  ByteView rest_;
  bool failed_ = false;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The bytes inside the text, checksum checked and taken off.
Result<Bytes> unwrap(std::string_view text) {
  init_crypto();
  text = trimmed(text);
  if (text.size() > limits::kMaxTokenLength) {
    return fail(ErrorCode::usage, "a join token has at most " + std::to_string(limits::kMaxTokenLength) +
                                      " characters, and this has " + std::to_string(text.size()));
  }
  if (!text.starts_with(kFamily)) {
    return fail(ErrorCode::usage, "not a join token: it starts with " + std::string(kPrefix) +
                                      ", and `p2pw token` on the trainer makes one");
  }
  if (!text.starts_with(kPrefix)) {
    if (text.size() == kFamily.size()) return damaged();
    return fail(ErrorCode::unsupported,
                "a join token of a format that this build does not know: update p2pw");
  }
  text.remove_prefix(kPrefix.size());
  if (text.empty()) return damaged();
  Bytes bytes(text.size());
  std::size_t size = 0;
  const char* end = nullptr;
  const bool decoded =
      sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, &end, sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0 &&
      end == text.data() + text.size();
  if (!decoded || size < kChecksumSize) return damaged();
  bytes.resize(size);
  const ByteView body = ByteView(bytes).first(size - kChecksumSize);
  const ByteView sum = ByteView(bytes).last(kChecksumSize);
  if (!std::ranges::equal(sum, checksum_of(body).view().first(kChecksumSize))) return damaged();
  bytes.resize(body.size());
  return bytes;
}

}  // namespace

Result<std::string> JoinToken::encode() const {
  init_crypto();
  if (bootstraps.empty() || bootstraps.size() > kMaxBootstraps) {
    return fail(ErrorCode::config,
                "a join token names 1 to 8 bootstrap daemons, not " + std::to_string(bootstraps.size()));
  }
  if (channel.empty()) return fail(ErrorCode::config, "a join token needs a channel");
  Writer writer;
  writer.number(bootstraps.size(), 1);
  for (const Bootstrap& bootstrap : bootstraps) {
    if (!is_host(bootstrap.endpoint.host) || bootstrap.endpoint.port == 0) {
      return fail(ErrorCode::config,
                  "\"" + bootstrap.endpoint.str() + "\" is no address that a node could dial");
    }
    writer.text(bootstrap.endpoint.host);
    writer.number(bootstrap.endpoint.port, 2);
    writer.bytes(bootstrap.node.view());
  }
  writer.bytes(publisher.id.view());
  writer.bytes(publisher.key.view());
  writer.text(channel.str());
  writer.bytes(enrolment.view());
  writer.bytes(secret.view());
  writer.number(std::min(to_millis(expires), kLastMillis), 8);
  writer.bytes(checksum_of(writer.out).view().first(kChecksumSize));

  std::string text(sodium_base64_encoded_len(writer.out.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING),
                   '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(writer.out.data()),
                    writer.out.size(), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  text.pop_back();  // libsodium counts the terminating zero
  return std::string(kPrefix) + text;
}

Result<JoinToken> JoinToken::parse(std::string_view text) {
  P2PW_TRY(const Bytes body, unwrap(text));
  const Error bad = fail(ErrorCode::usage, "the join token's contents are not valid: ask for a new one");
  Reader reader(body);
  JoinToken token;
  const std::uint64_t count = reader.number(1);
  if (count == 0 || count > kMaxBootstraps) return bad;
  for (std::uint64_t i = 0; i < count; ++i) {
    Bootstrap bootstrap;
    bootstrap.endpoint.host = reader.text();
    bootstrap.endpoint.port = static_cast<std::uint16_t>(reader.number(2));
    bootstrap.node = reader.blob<NodeKey>();
    if (!is_host(bootstrap.endpoint.host) || bootstrap.endpoint.port == 0) return bad;
    token.bootstraps.push_back(std::move(bootstrap));
  }
  token.publisher.id = reader.blob<KeyId>();
  token.publisher.key = reader.blob<PublicKey>();
  auto channel = Channel::parse(reader.text());
  token.enrolment = reader.blob<EnrolmentId>();
  token.secret = reader.blob<EnrolmentSecret>();
  const std::uint64_t expires = reader.number(8);
  if (!reader.good() || !channel || expires > kLastMillis) return bad;
  token.channel = std::move(channel).value();
  token.expires = from_millis(expires);
  return token;
}

}  // namespace p2pw
