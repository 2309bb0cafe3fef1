// SPDX-License-Identifier: Apache-2.0
// The library part of the consumer program.
#pragma once

#include <cstdint>

// Sums the squares below count, in batches of 100, under ranges. Returns the sum.
uint64_t sum_of_squares(uint64_t count);
