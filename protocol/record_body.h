// Between a record's types and its wire form, with the shape checks that both directions share. For
// record.cpp alone.
#pragma once

#include "protocol/record.h"

namespace p2pw {

struct PlainRecord {
  Channel channel;
  WallTime issued;
  RecordBody body;
};

// The serialized wire::Record.
Bytes encode_record(const PlainRecord& record);

// Every field in its range, as SPEC.md tells. Unknown fields are skipped, unknown formats are not.
// Errors: malformed, unsupported.
Result<PlainRecord> decode_record(ByteView bytes);

}  // namespace p2pw
