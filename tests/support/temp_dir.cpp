#include "tests/support/temp_dir.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace p2pw::testing {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "p2pw-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    std::perror("mkdtemp");
    std::abort();
  }
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace p2pw::testing
