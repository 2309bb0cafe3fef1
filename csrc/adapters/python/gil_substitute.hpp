// SPDX-License-Identifier: Apache-2.0
// GilSubstitute: a lock for data that the GIL guards; it does nothing on interpreters that have
// one.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

#if defined(Py_GIL_DISABLED)

// Zero-initialised. PyMutex, and no std::mutex: a thread that waits for one counts as detached, so
// that the garbage collector can stop all threads while the holder is stopped as well.
class GilSubstitute {
 public:
  void lock() noexcept { PyMutex_Lock(&mutex_); }
  void unlock() noexcept { PyMutex_Unlock(&mutex_); }

 private:
  PyMutex mutex_ = {};
};

#else

class GilSubstitute {
 public:
  void lock() noexcept {}
  void unlock() noexcept {}
};

#endif

// Holds it from construction to destruction.
class HoldGilSubstitute {
 public:
  explicit HoldGilSubstitute(GilSubstitute& held) noexcept : held_(held) { held_.lock(); }
  ~HoldGilSubstitute() { held_.unlock(); }
  HoldGilSubstitute(const HoldGilSubstitute&) = delete;
  HoldGilSubstitute& operator=(const HoldGilSubstitute&) = delete;

 private:
  GilSubstitute& held_;
};

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
