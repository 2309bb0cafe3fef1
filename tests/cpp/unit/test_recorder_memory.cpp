// SPDX-License-Identifier: Apache-2.0
// Where the recorder's memory comes from: regions of slabs, faulted in ahead on request, and one
// slab at a time where address space is limited.
#include <sys/resource.h>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

uint64_t present_chunks() {
  const fp::State* s = fp::state();
  const uint64_t carvable = s->carving != nullptr ? fp::kChunksPerSlab - s->carving->carved : 0;
  return s->free_count + carvable + s->ready_count * fp::kChunksPerSlab;
}

size_t blank_slabs() {
  size_t count = 0;
  for (const fp::BlankSlabPlace* at = fp::state()->blank_slabs; at != nullptr; at = at->next)
    ++count;
  return count;
}

void record(size_t ranges) {
  for (size_t i = 0; i < ranges; ++i) {
    FASTPROF_RANGE("range");
  }
}

}  // namespace

TEST(warm_up_faults_in_what_is_asked_for) {
  fp::Session session;
  const uint64_t before = resident_bytes();
  session.warm_up(20u << 20);
  CHECK(present_chunks() >= (20u << 20) / fp::kChunkBytes);
  CHECK(present_chunks() < (20u << 20) / fp::kChunkBytes + 2 * fp::kChunksPerSlab);
  CHECK(resident_bytes() >= before + (12u << 20));  // a slab of it may have been present
  const uint64_t chunks = present_chunks();
  session.warm_up(20u << 20);  // it is present
  CHECK_EQ(present_chunks(), chunks);
  session.start();
  record(500000);  // 12 MB
  session.stop();
  CHECK_EQ(session.capture().size(), 500000);
  CHECK_EQ(session.capture().dropped_total(), 0);
}

TEST(warm_up_stays_within_the_bound) {
  CHECK_EQ(run_again("FASTPROF_TEST_PART", "bound", "inner_bound"), 0);
}

TEST(inner_bound) {
  if (std::getenv("FASTPROF_TEST_PART") == nullptr) SKIP("runs in a process of its own");
  fp::Session session(with(&Options::max_bytes, 1u << 20));
  session.warm_up();
  CHECK_EQ(fp::state()->ready_count, 1);  // at least one slab is faulted in
}

TEST(slabs_come_singly_where_a_region_does_not_fit) {
  CHECK_EQ(run_again("FASTPROF_TEST_PART", "limited", "inner_limited"), 0);
}

TEST(inner_limited) {
  if (std::getenv("FASTPROF_TEST_PART") == nullptr) SKIP("runs in a process of its own");
#if FASTPROF_ASAN || FASTPROF_TSAN
  SKIP("the sanitizer's own memory exceeds any limit of address space");
#endif
  // Room for a few slabs beside what is mapped, not for a region of 16.
  unsigned long long pages = 0;
  std::FILE* f = std::fopen("/proc/self/statm", "re");
  CHECK(f != nullptr && std::fscanf(f, "%llu", &pages) == 1);
  std::fclose(f);
  const rlim_t mapped_bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  const rlimit limit{mapped_bytes + (24u << 20), mapped_bytes + (24u << 20)};
  CHECK_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  Running session;
  record(200000);  // 4.8 MB
  session.stop();
  CHECK_EQ(session.capture().size(), 200000);
  CHECK(blank_slabs() < fp::kSlabsPerRegion - 1);
}
