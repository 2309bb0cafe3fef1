// SPDX-License-Identifier: Apache-2.0
// What the control plane throws. The hot path never throws: it counts and reports.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// The root of everything fastprof throws. The message says what to do. Mapped to fastprof.Error in
// Python, as each subclass is to the class of the same name.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A call came in an order or state that does not allow it (stop without start, pop of another
// kind).
class StateError : public Error {
 public:
  using Error::Error;
};

// A value handed in is not acceptable (negative size, unknown name, malformed options).
class ValueError : public Error {
 public:
  using Error::Error;
};

// Something this machine, kernel or build does not offer was asked for explicitly.
class UnavailableError : public Error {
 public:
  using Error::Error;
};

// A file or byte stream could not be read or written; nothing was left under the real name.
class IoError : public Error {
 public:
  using Error::Error;
};

// Bytes that were read do not follow the format; the message names the place.
class FormatError : public Error {
 public:
  using Error::Error;
};

// Throws E(message); without exceptions (-fno-exceptions) prints it and aborts, as the standard
// library does.
template <class ErrorType>
[[noreturn]] FASTPROF_COLD inline void raise(const std::string& message) {
#if FASTPROF_EXCEPTIONS
  throw ErrorType(message);
#else
  std::fprintf(stderr, "fastprof: %s\n", message.c_str());
  std::abort();
#endif
}

FASTPROF_NAMESPACE_END
