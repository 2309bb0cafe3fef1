// SPDX-License-Identifier: Apache-2.0
// GilSubstitute: a lock for data that the GIL guards. An empty class on interpreters with a GIL.
#pragma once

#include <Python.h>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {

#if defined(Py_GIL_DISABLED)

// Zero-initialised. A PyMutex and not a std::mutex: a thread that waits for it counts as detached,
// so the garbage collector can stop all threads even while the holder is stopped.
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

// Holds the lock from construction to destruction.
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
