// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/occupancy.hpp"

#include <algorithm>
#include <climits>
#include <utility>

FASTPROF_NAMESPACE_BEGIN
namespace cupti {
namespace {

constexpr int kWarp = 32;
constexpr int kRegisterUnit = 256;  // registers are allocated per warp in units of this

int up_to(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

// Parts of a multiprocessor among which the warps of a block are spread.
int partitions_of(const DeviceLimits& limits) {
  return limits.capability_major == 6 && limits.capability_minor == 0 ? 2 : 4;
}

void limit_by_registers(int registers_per_thread, int warps, const DeviceLimits& limits,
                        Occupancy& found) {
  const int per_warp = up_to(registers_per_thread * kWarp, kRegisterUnit);
  const int partitions = partitions_of(limits);
  found.registers_per_block = per_warp * warps;
  if (per_warp == 0)
    found.by_registers = INT_MAX;
  else if (limits.block_registers < per_warp * up_to(warps, 4))  // also where there are two
    found.by_registers = 0;
  else
    found.by_registers = limits.registers / partitions / per_warp * partitions / warps;
}

void limit_by_shared_memory(const KernelRecord& kernel, const DeviceLimits& limits,
                            Occupancy& found) {
  const int used =
      kernel.static_shared_memory + kernel.dynamic_shared_memory + limits.reserved_shared_bytes;
  found.shared_bytes_per_block = up_to(used, limits.capability_major >= 8 ? 128 : 256);
  const int most = std::max(limits.block_shared_bytes, limits.block_shared_bytes_optin) +
                   limits.reserved_shared_bytes;
  if (found.shared_bytes_per_block == 0)
    found.by_shared = INT_MAX;
  else if (found.shared_bytes_per_block <= most)
    found.by_shared = limits.shared_bytes / found.shared_bytes_per_block;
}

}  // namespace

DeviceLimits limits_of(const CuptiLibrary& library, uint32_t device) {
  DeviceLimits limits;
  if (library.driver.device_attribute == nullptr) return limits;
  // By CUdevice_attribute.
  for (const auto& [attribute, value] : {std::pair<int, int*>{16, &limits.multiprocessors},
                                         {39, &limits.max_threads},
                                         {106, &limits.max_blocks},
                                         {82, &limits.registers},
                                         {81, &limits.shared_bytes},
                                         {1, &limits.block_threads},
                                         {12, &limits.block_registers},
                                         {8, &limits.block_shared_bytes},
                                         {97, &limits.block_shared_bytes_optin},
                                         {111, &limits.reserved_shared_bytes},
                                         {75, &limits.capability_major},
                                         {76, &limits.capability_minor}})
    if (library.driver.device_attribute(value, attribute, static_cast<int>(device)) != 0)
      *value = 0;
  return limits;
}

std::string Occupancy::limiting_factors() const {
  std::string names;
  for (const auto& [limit, name] : {std::pair{by_warps, "WARPS"},
                                    {by_registers, "REGS"},
                                    {by_shared, "SMEM"},
                                    {by_blocks, "BLOCKS"}}) {
    if (limit != blocks) continue;
    if (!names.empty()) names += '|';
    names += name;
  }
  return names;
}

Occupancy occupancy_of(const KernelRecord& kernel, const DeviceLimits& limits) {
  Occupancy found;
  const int64_t threads = int64_t{kernel.block_x} * kernel.block_y * kernel.block_z;
  if (threads <= 0 || threads > limits.block_threads || limits.max_threads < kWarp ||
      limits.max_blocks <= 0 || limits.registers <= 0 || limits.shared_bytes <= 0)
    return found;
  const int warps = static_cast<int>((threads + kWarp - 1) / kWarp);
  found.by_warps = limits.max_threads / kWarp / warps;
  found.by_blocks = limits.max_blocks;
  limit_by_registers(kernel.registers_per_thread, warps, limits, found);
  limit_by_shared_memory(kernel, limits, found);
  found.blocks = std::min({found.by_warps, found.by_registers, found.by_shared, found.by_blocks});
  return found;
}

}  // namespace cupti
FASTPROF_NAMESPACE_END
