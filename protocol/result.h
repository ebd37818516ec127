// Errors as values. Nothing in p2pw throws across a module: a call that can fail returns Result<T>.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace p2pw {

// The closed list of reasons. Each has a name (JSON, logs, metrics) and the exit code that a CLI verb ends with.
enum class ErrorCode {
  failed,        // 1   anything that fits nothing below
  io,            // 1   the operating system refused a file or socket operation
  no_space,      // 1   the disk is full
  config,        // 2   a configuration file or option is wrong
  usage,         // 2   the command line is wrong
  bad_input,     // 2   a checkpoint directory or file of the user's is malformed
  unreachable,   // 3   nobody listens at the address
  integrity,     // 4   a signature, hash or digest does not match
  wrong_parent,  // 4   the bytes at hand are not those that the delta was made from
  malformed,     // 4   outside bytes do not follow the format
  untrusted,     // 4   a key, certificate or proof is not accepted
  unsupported,   // 4   a format version that this build does not know
  not_found,     // 5   no such channel, version, file or node
  timed_out,     // 6   the time given has passed
  incomplete,    // 6   part of the work is still missing
  busy,          // 7   somebody else holds the lock or the lease
  limit,         // 4   a bound from limits.h is exceeded
  interrupted,   // 130 stopped by a signal
};

std::string_view name_of(ErrorCode code);  // "wrong_parent"
int exit_code_of(ErrorCode code);          // 4

// A message names the thing, the reason and, where there is one, the next step.
struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string message;
};

// Either a value or an Error. Like std::expected, which this toolchain lacks.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { assert(ok()); return *std::get_if<0>(&state_); }
  const T& value() const& { assert(ok()); return *std::get_if<0>(&state_); }
  T&& value() && { assert(ok()); return std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { assert(!ok()); return *std::get_if<1>(&state_); }
  Error&& error() && { assert(!ok()); return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { assert(error_); return *error_; }
  Error&& error() && { assert(error_); return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

inline Error fail(ErrorCode code, std::string message) { return Error{code, std::move(message)}; }

}  // namespace p2pw

#define P2PW_CONCAT_(a, b) a##b
#define P2PW_CONCAT(a, b) P2PW_CONCAT_(a, b)
// P2PW_TRY(auto x, call()): x is the value, or the function returns the error.
#define P2PW_TRY_(tmp, decl, expr)                  \
  auto tmp = (expr);                                \
  if (!tmp.ok()) return std::move(tmp).error();     \
  decl = std::move(tmp).value()
#define P2PW_TRY(decl, expr) P2PW_TRY_(P2PW_CONCAT(try_result_, __LINE__), decl, expr)
// P2PW_CHECK(call()): continues, or the function returns the error.
#define P2PW_CHECK_(tmp, expr) \
  if (auto tmp = (expr); !tmp.ok()) return std::move(tmp).error()
#define P2PW_CHECK(expr) P2PW_CHECK_(P2PW_CONCAT(check_result_, __LINE__), expr)
