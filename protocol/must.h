// For calls of OpenSSL that fail only when it is out of memory or was built without the algorithm; neither leaves anything
// to do.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace p2pw {

inline void must(bool done, const char* algorithm) {
  if (done) return;
  std::fprintf(stderr, "p2pw: OpenSSL cannot compute %s\n", algorithm);
  std::abort();
}

}  // namespace p2pw
