// SPDX-License-Identifier: Apache-2.0
// An annotated library of a minor ABI that the build names (FASTPROF_ABI_MINOR), for
// tests/python/integration/test_abi.py. work(n) records ranges and RecordFunctions. A minor above
// this header's stands for one that is yet to come: it adds what recorder/state/abi_minor.hpp
// allows.
#include <fastprof/fastprof.hpp>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace fp = fastprof;

constexpr fp::Site later_site =
    fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE,
                  NAME " later", __FILE__, "work", __LINE__);

EXPORT void work(int count) {
  for (int i = 0; i < count; ++i) {
    FASTPROF_RANGE_DYNAMIC(std::string(NAME));
    FASTPROF_RECORD_FUNCTION(NAME " function", fp::sequence_number(40 + i));
#if FASTPROF_ABI_MINOR > 0
    fp::State* s = fp::state();
    if (fp::wanted(s, fp::thread_block(), later_site.mask)) {
      const uint64_t words[] = {uint64_t{1} << 16 | 1000, 42};  // a detail block of a kind to come
      const fp::OpenRange open =
          fp::begin_detailed(s, fp::thread_block(), &later_site, nullptr, words, 2);
      fp::end_open(open, &later_site);
      fp::count_dropped(s, fp::thread_block()->track, later_site.mask, fp::ticks(s),
                        static_cast<fp::DropCause>(fp::kNumDropCauses));
    }
#endif
  }
}
EXPORT const void* recorder_state() {
  return fp::state();
}
EXPORT const void* own_recorder_state() {
  return &fp::own_state;
}
