// libsodium has to be initialised before its first use; every function here that touches it calls this first.
#pragma once

namespace p2pw {

// Cheap after the first call; any thread. Ends the process when libsodium cannot get randomness from the
// system, as nothing that it would do afterwards could be trusted.
void init_crypto();

}  // namespace p2pw
