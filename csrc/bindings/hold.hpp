// SPDX-License-Identifier: Apache-2.0
// Hold: records that a Python object has enabled something process-wide. The object owns it, so
// that a KeyboardInterrupt between two lines of Python can neither leave the thing enabled nor
// disable it twice.
#pragma once

#include <cstdint>
#include <utility>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace bindings {

// Use with the GIL held, or from one thread at a time.
class Hold {
 public:
  // forks: counter that a forked child increments when what its parent enabled is reset there. It
  // must outlive this, and is written with the GIL held.
  explicit Hold(const uint64_t& forks) noexcept : forks_(forks) {}

  bool active() const noexcept { return on_ && forks_at_set_ == forks_; }
  void set() noexcept {
    on_ = true;
    forks_at_set_ = forks_;
  }
  // Returns true once for each set() in this process.
  bool clear() noexcept { return std::exchange(on_, false) && forks_at_set_ == forks_; }

 private:
  const uint64_t& forks_;
  uint64_t forks_at_set_ = 0;
  bool on_ = false;
};

}  // namespace bindings
FASTPROF_NAMESPACE_END
