// SPDX-License-Identifier: Apache-2.0
// Exception classes. Recording never throws; only control functions (sessions, files, options) do.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN

// Base class of all exceptions of fastprof. The message says what to do. In Python it is
// fastprof.Error, and each subclass is the Python class of the same name.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A call in a state or order that does not allow it (stop without start, pop of another kind).
class StateError : public Error {
 public:
  using Error::Error;
};

// An invalid argument (negative size, unknown name, malformed options).
class ValueError : public Error {
 public:
  using Error::Error;
};

// A requested feature that this machine, kernel or build does not have.
class UnavailableError : public Error {
 public:
  using Error::Error;
};

// A file or byte stream cannot be read or written. A failed write leaves no partial file under its
// name.
class IoError : public Error {
 public:
  using Error::Error;
};

// Input that violates its format; the message gives the position.
class FormatError : public Error {
 public:
  using Error::Error;
};

// Throws ErrorType(message). With -fno-exceptions, prints it and aborts, as the standard library
// does.
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
