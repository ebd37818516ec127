// Small files of the state folder and keys that people bring: enrolments, fleet secrets, minisign keys. The first byte
// chooses; what is read is written and read again the same.
#include <cstdlib>

#include "protocol/enrolment.h"
#include "protocol/sealing.h"
#include "protocol/signing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace p2pw;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      if (auto table = Enrolments::parse(text); table.ok()) {
        auto again = Enrolments::parse(table->text());
        if (!again.ok() || again->text() != table->text()) std::abort();
      }
      break;
    case 1:
      if (auto secret = FleetSecret::parse(text); secret.ok() && FleetSecret::parse(secret->file())->id() != secret->id()) std::abort();
      break;
    case 2:
      if (auto key = VerifyingKey::parse(text); key.ok() && VerifyingKey::parse(key->line()).value() != *key) std::abort();
      break;
    case 3:
      if (auto key = SigningKey::parse(text); key.ok() && SigningKey::parse(key->file())->file() != key->file()) std::abort();
      break;
  }
  return 0;
}
