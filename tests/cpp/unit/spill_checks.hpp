// SPDX-License-Identifier: Apache-2.0
// What tests of spilling share: what a file contains.
#pragma once

#include "fastprof/session/spill.hpp"
#include "recorder_checks.hpp"

namespace spill_checks {

namespace fp = fastprof;

constexpr size_t kSlots = 2725;  // of a chunk: (65536 - 128) / 24

inline size_t units_in(fp::SpillFile& file, uint64_t* lost = nullptr) {
  size_t units = 0;
  uint64_t missing = 0;
  const bool whole = file.read_back(
      [&units](const fp::TrackInfo&, const fp::PinnedRun& run) {
        units += static_cast<size_t>(run.end - fp::chunk_slots(run.chunk));
      },
      missing);
  CHECK_EQ(whole, missing == 0);
  if (lost != nullptr) *lost = missing;
  return units;
}

}  // namespace spill_checks
