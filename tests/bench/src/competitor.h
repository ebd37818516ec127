// A codec as the benchmark drives it: slab by slab, one object for each thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chunker/dtype.h"
#include "protocol/ids.h"

namespace p2pw::bench {

class Competitor {
 public:
  virtual ~Competitor() = default;
  // Appends what leads from `before` to `after`. May overwrite `before`, as a publisher's own copy.
  virtual void encode(std::span<std::byte> before, ByteView after, Dtype dtype, Bytes& out) = 0;
  // Turns `slab` from before to after; false when the frame does not decode.
  virtual bool decode(ByteView frame, Dtype dtype, std::span<std::byte> slab) = 0;
};

struct Entry {
  std::string name;
  std::function<std::unique_ptr<Competitor>()> make;
  bool slow = false;  // one run only
  bool ours = false;  // measured with each instruction set and number of threads
};

std::vector<Entry> our_codecs();
std::vector<Entry> other_codecs();

}  // namespace p2pw::bench
