#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "daemon/client/files.h"
#include "protocol/signing.h"

namespace p2pw {
namespace {

struct Options {
  std::string file = "publisher.key";
};

Status keygen(const Options& options, Console& console) {
  std::filesystem::path secret = options.file, open = options.file;
  open.replace_extension(".pub");
  if (secret == open) return fail(ErrorCode::usage, options.file + ": the secret key cannot be named .pub");
  for (const auto& file : {secret, open}) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) {
      return fail(ErrorCode::usage, file.string() + " is there already: a key is never overwritten; choose another name with -o");
    }
  }
  SigningKey key = SigningKey::generate();
  P2PW_CHECK(write_small_file(secret, key.file(), 0600));
  P2PW_CHECK(write_small_file(open, key.verifying_key().file(), 0644));
  console.note("Secret key in " + secret.string() + ", public key in " + open.string() + ".");
  console.answer({{"publisher", key.verifying_key().line()}, {"secret_key", secret.string()}, {"public_key", open.string()}},
                 key.verifying_key().line());
  return {};
}

Run add_keygen(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("-o,--output", options->file, "File of the secret key; the public one lies beside it as .pub")
      ->capture_default_str()->type_name("FILE");
  return [options](Console& console) { return keygen(*options, console); };
}

const VerbRegistration kKeygen({"keygen", VerbGroup::setup,
                                "Make a publisher key, in minisign's format; prints the public line.",
                                "p2pw keygen -o publisher.key", add_keygen});

}  // namespace
}  // namespace p2pw
