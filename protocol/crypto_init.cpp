#include "protocol/crypto_init.h"

#include <sodium.h>

#include <cstdio>
#include <cstdlib>

namespace p2pw {

void init_crypto() {
  static const bool ready = sodium_init() >= 0;
  if (!ready) {
    std::fputs("p2pw: libsodium cannot be initialised (no random numbers from the system)\n", stderr);
    std::abort();
  }
}

}  // namespace p2pw
