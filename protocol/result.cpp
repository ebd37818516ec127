#include "protocol/result.h"

namespace p2pw {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int exit_code;
};

constexpr CodeRow kCodes[] = {
    {ErrorCode::failed, "failed", 1},           {ErrorCode::io, "io", 1},
    {ErrorCode::no_space, "no_space", 1},       {ErrorCode::config, "config", 2},
    {ErrorCode::usage, "usage", 2},             {ErrorCode::bad_input, "bad_input", 2},
    {ErrorCode::unreachable, "unreachable", 3}, {ErrorCode::integrity, "integrity", 4},
    {ErrorCode::wrong_parent, "wrong_parent", 4}, {ErrorCode::malformed, "malformed", 4},
    {ErrorCode::untrusted, "untrusted", 4},     {ErrorCode::unsupported, "unsupported", 4},
    {ErrorCode::not_found, "not_found", 5},     {ErrorCode::timed_out, "timed_out", 6},
    {ErrorCode::incomplete, "incomplete", 6},   {ErrorCode::busy, "busy", 7},
    {ErrorCode::limit, "limit", 4},             {ErrorCode::interrupted, "interrupted", 130},
};

const CodeRow& row_of(ErrorCode code) {
  for (const CodeRow& row : kCodes) {
    if (row.code == code) return row;
  }
  return kCodes[0];
}

}  // namespace

std::string_view name_of(ErrorCode code) { return row_of(code).name; }
int exit_code_of(ErrorCode code) { return row_of(code).exit_code; }

}  // namespace p2pw
