#include "protocol/signing.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/temp_dir.h"

namespace p2pw {
namespace {

// A pair that `minisign -G -W` (0.11) wrote, and its signature of "hi\n".
constexpr std::string_view kSecretFile =
    "untrusted comment: minisign encrypted secret key\n"
    "RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAG1LA/"
    "XV7UqvR7sZbcnH40LowRg1MMBgMuV82uDM5"
    "w+HXFfT2mQDhfKHxtMErIorj6MPYnTHOQO3eHDXaAw5hN2AxBkgDNmp/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
constexpr std::string_view kPublicFile =
    "untrusted comment: minisign public key AB527B75FDC0521B\n"
    "RWQbUsD9dXtSq6HxtMErIorj6MPYnTHOQO3eHDXaAw5hN2AxBkgDNmp/\n";
constexpr std::string_view kPublicLine = "RWQbUsD9dXtSq6HxtMErIorj6MPYnTHOQO3eHDXaAw5hN2AxBkgDNmp/";
constexpr std::string_view kSignatureHex =  // the second line of the .minisig file, decoded
    "45441b52c0fd757b52ab5e0cb5224beffb752a7d9706ac32d8023132bd7b4c495e1775fa8e9b35e3847ff91f099be60299ed"
    "d81604d126b563dfb7a9aefcf3a1c50f536125f5ab498c08";

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

void spill(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}
bool have_minisign() {
  return run("command -v minisign");
}

TEST(Signing, ReadsMinisignFiles) {
  const auto secret = SigningKey::parse(kSecretFile);
  ASSERT_TRUE(secret.ok()) << secret.error().message;
  const auto from_file = VerifyingKey::parse(kPublicFile);
  const auto from_line = VerifyingKey::parse(kPublicLine);
  ASSERT_TRUE(from_file.ok() && from_line.ok());
  EXPECT_EQ(*from_file, *from_line);
  EXPECT_EQ(secret->verifying_key(), *from_file);
  EXPECT_EQ(from_file->line(), kPublicLine);
  EXPECT_EQ(from_file->file(), kPublicFile);
}

TEST(Signing, SignsAsMinisignDoes) {
  const auto secret = SigningKey::parse(kSecretFile);
  ASSERT_TRUE(secret.ok());
  EXPECT_EQ(secret->sign(as_bytes("hi\n")).hex(), kSignatureHex);
}

TEST(Signing, FilesRoundTrip) {
  const SigningKey key = SigningKey::generate();
  const auto again = SigningKey::parse(key.file());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->verifying_key(), key.verifying_key());
  const auto verifying = VerifyingKey::parse(key.verifying_key().file());
  ASSERT_TRUE(verifying.ok());
  EXPECT_TRUE(verifying->verify(as_bytes("x"), again->sign(as_bytes("x"))));
}

TEST(Signing, EveryFlippedBitOfMessageAndSignatureIsRefused) {
  const SigningKey key = SigningKey::generate();
  std::string message = "weights";
  Signature signature = key.sign(as_bytes(message));
  ASSERT_TRUE(key.verifying_key().verify(as_bytes(message), signature));
  for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
    message[bit / 8] = static_cast<char>(message[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(key.verifying_key().verify(as_bytes(message), signature)) << bit;
    message[bit / 8] = static_cast<char>(message[bit / 8] ^ (1 << (bit % 8)));
  }
  for (std::size_t bit = 0; bit < 8 * Signature::kSize; ++bit) {
    signature.data[bit / 8] = static_cast<std::uint8_t>(signature.data[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(key.verifying_key().verify(as_bytes(message), signature)) << bit;
    signature.data[bit / 8] = static_cast<std::uint8_t>(signature.data[bit / 8] ^ (1 << (bit % 8)));
  }
  EXPECT_FALSE(SigningKey::generate().verifying_key().verify(as_bytes(message), signature));
}

TEST(Signing, DamagedKeysAreRefused) {
  const std::string file = SigningKey::generate().file();
  const std::size_t begin = file.find('\n') + 1;
  for (std::size_t i = begin + 84; i < begin + 168;
       i += 5) {  // the base64 of the secret itself; its id has no check
    std::string damaged = file;
    damaged[i] = damaged[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(SigningKey::parse(damaged).ok()) << i;
  }
  for (auto bad : {"", "RW", "hello\n", "untrusted comment: minisign secret key\n"}) {
    EXPECT_FALSE(SigningKey::parse(bad).ok()) << bad;
    EXPECT_FALSE(VerifyingKey::parse(bad).ok()) << bad;
  }
  EXPECT_FALSE(VerifyingKey::parse(file).ok()) << "a secret key where a public one belongs";
  EXPECT_FALSE(SigningKey::parse(std::string(100'000, 'R')).ok());
  EXPECT_EQ(VerifyingKey::parse("RWnope").error().code, ErrorCode::config);
}

TEST(Signing, PasswordIsNamedAsTheReason) {
  std::string file(kSecretFile);
  file.replace(file.find("RWQAAEIy"), 8, "RWRTY0Iy");  // "Sc": scrypt
  const auto key = SigningKey::parse(file);
  ASSERT_FALSE(key.ok());
  EXPECT_NE(key.error().message.find("password"), std::string::npos) << key.error().message;
}

TEST(Signing, MovedKeyLeavesNothingBehind) {
  SigningKey key = SigningKey::generate();
  const SigningKey moved = std::move(key);
  EXPECT_TRUE(moved.verifying_key().verify(as_bytes("m"), moved.sign(as_bytes("m"))));
  for (std::uint8_t b : key.raw()) EXPECT_EQ(b, 0);  // NOLINT(bugprone-use-after-move): that is the point
}

TEST(Signing, MinisignVerifiesOurs) {
  if (!have_minisign()) GTEST_SKIP() << "minisign is not installed";
  testing::TempDir dir;
  const SigningKey key = SigningKey::generate();
  const std::string message = "a checkpoint";
  spill(dir / "m", message);
  spill(dir / "m.minisig", key.minisig(as_bytes(message), "version:7\nsecond line"));
  spill(dir / "k.pub", key.verifying_key().file());
  const std::string verify = "cd " + dir.path().string() + " && minisign -V -H -p k.pub -m m";
  EXPECT_TRUE(run(verify));
  spill(dir / "m", message + "!");
  EXPECT_FALSE(run(verify));
}

TEST(Signing, MinisignSignsWithOurKeyAndWeVerify) {
  if (!have_minisign()) GTEST_SKIP() << "minisign is not installed";
  testing::TempDir dir;
  const SigningKey key = SigningKey::generate();
  spill(dir / "m", "a checkpoint");
  spill(dir / "k.key", key.file());
  ASSERT_TRUE(run("cd " + dir.path().string() + " && minisign -S -s k.key -m m -t comment"));
  // Ed25519 is deterministic: the same key gives the same file, trusted comment included.
  std::string theirs = slurp(dir / "m.minisig"), ours = key.minisig(as_bytes("a checkpoint"), "comment");
  EXPECT_EQ(theirs.substr(theirs.find('\n')), ours.substr(ours.find('\n')));
}

TEST(Signing, ReadsAFreshMinisignKey) {
  if (!have_minisign()) GTEST_SKIP() << "minisign is not installed";
  testing::TempDir dir;
  ASSERT_TRUE(run("cd " + dir.path().string() + " && minisign -G -W -p k.pub -s k.key"));
  const auto secret = SigningKey::parse(slurp(dir / "k.key"));
  const auto verifying = VerifyingKey::parse(slurp(dir / "k.pub"));
  ASSERT_TRUE(secret.ok() && verifying.ok());
  EXPECT_EQ(secret->verifying_key(), *verifying);
}

}  // namespace
}  // namespace p2pw
