// SPDX-License-Identifier: Apache-2.0
// Second translation unit: annotated code that knows nothing of sessions.
#include "work.hpp"

#include <fastprof/fastprof.hpp>

static uint64_t batch(uint64_t first, uint64_t last) {
  FASTPROF_RANGE("batch");
  FASTPROF_RECORD_FUNCTION("sum");
  uint64_t sum = 0;
  if (first == 0) {
    FASTPROF_RECORD_FUNCTION("first batch");
    FASTPROF_RECORD_OUTPUTS(sum);
  }
  for (uint64_t i = first; i < last; ++i) sum += i * i;
  return sum;
}

uint64_t sum_of_squares(uint64_t count) {
  FASTPROF_FUNCTION();
  uint64_t sum = 0;
  for (uint64_t first = 0; first < count; first += 100) {
    const uint64_t last = first + 100 < count ? first + 100 : count;
    sum += batch(first, last);
  }
  FASTPROF_COUNTER("sum", static_cast<double>(sum));
  FASTPROF_MARK("summed");
  return sum;
}
