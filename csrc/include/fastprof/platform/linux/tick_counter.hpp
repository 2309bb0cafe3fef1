// SPDX-License-Identifier: Apache-2.0
// Whether the Linux kernel has demoted the tick counter.
#pragma once

#include <cstdio>
#include <cstring>

#include "fastprof/base/config.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace platform {

// Whether the kernel's own tests of the tick counter failed: only then its clock source is hpet,
// acpi_pm, jiffies or refined-jiffies. (kvm-clock and hyperv derive from the TSC and do not demote
// it.)
inline bool tick_counter_demoted() noexcept {
  std::FILE* f =
      std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  if (f == nullptr) return false;
  char name[32] = {};
  const bool read = std::fgets(name, sizeof name, f) != nullptr;
  std::fclose(f);
  return read && (std::strncmp(name, "hpet", 4) == 0 || std::strncmp(name, "acpi_pm", 7) == 0 ||
                  std::strncmp(name, "jiffies", 7) == 0 || std::strncmp(name, "refined", 7) == 0);
}

}  // namespace platform
FASTPROF_NAMESPACE_END
