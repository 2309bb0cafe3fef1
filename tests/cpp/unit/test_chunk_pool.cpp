// SPDX-License-Identifier: Apache-2.0
// The pool of chunks: where memory comes from, which chunk is handed out next, the bound, and what
// is given back to the kernel when the last session stops.
#include <cstring>
#include <set>
#include <vector>

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;

namespace {

constexpr uint64_t kPerSlab = 31;

std::vector<fp::Chunk*> take(fp::State* s, size_t count) {
  std::vector<fp::Chunk*> chunks;
  for (size_t i = 0; i < count; ++i) chunks.push_back(fp::take_chunk(s, false));
  return chunks;
}

// As the prefault thread: a slab that is faulted in before anybody needs it.
fp::Slab* make_ready(fp::State* s) {
  const fp::BlankSlab blank = fp::take_blank(s);
  fp::populate_slab(blank.slab);
  fp::init_slab(s, blank);
  fp::add_ready(s, blank.slab);
  return blank.slab;
}

unsigned long mapped_pages() {
  unsigned long pages = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(f, "%lu", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  return pages;
}

}  // namespace

TEST(the_arena_hands_out_aligned_pieces_of_a_block) {
  const auto s = make_state();
  auto* first = static_cast<char*>(fp::arena_allocate(s.get(), 1));
  CHECK(first != nullptr);
  CHECK_EQ(reinterpret_cast<uintptr_t>(first) % 16, 0);
  CHECK_EQ(s->arena_end - first, 256 * 1024);
  CHECK(fp::arena_allocate(s.get(), 16) == first + 16);
  CHECK(fp::arena_allocate(s.get(), 17) == first + 32);
  CHECK(fp::arena_allocate(s.get(), 64 * 1024) == first + 64);
  // Larger pieces do not end a block early.
  char* const next = s->arena_next;
  CHECK(fp::arena_allocate(s.get(), 64 * 1024 + 1) != nullptr);
  CHECK(s->arena_next == next);
  s->arena_end = next + 32;
  CHECK(fp::arena_allocate(s.get(), 32) == next);
  CHECK(s->arena_next == next + 32);
  auto* second = static_cast<char*>(fp::arena_allocate(s.get(), 32));
  CHECK(second != next + 32);
  CHECK_EQ(s->arena_end - second, 256 * 1024);
  for (size_t i = 0; i < 256 * 1024; ++i) CHECK_EQ(second[i], 0);
}

TEST(a_region_is_aligned_and_no_larger_than_its_slabs) {
  for (const size_t count : {1, 3}) {
    const unsigned long before = mapped_pages();
    char* region = fp::map_region(count);
    const unsigned long after = mapped_pages();
    CHECK(region != nullptr);
    CHECK_EQ(reinterpret_cast<uintptr_t>(region) % fp::kSlabBytes, 0);
    region[0] = region[count * fp::kSlabBytes - 1] = 1;
    // An emulator and the sanitizers map memory of their own.
    if (std::getenv("FASTPROF_TEST_EMULATOR") == nullptr && !FASTPROF_ASAN && !FASTPROF_TSAN) {
      const auto page = static_cast<unsigned long>(::sysconf(_SC_PAGESIZE));
      CHECK_EQ((after - before) * page, count * fp::kSlabBytes);
    }
    ::munmap(region, count * fp::kSlabBytes);
  }
}

TEST(blank_slabs_are_used_in_the_order_of_their_addresses) {
  const auto s = make_state();
  fp::add_blank_slabs(s.get());
  CHECK_EQ(length(s->blank_slabs), 16);
  const char* expected = reinterpret_cast<const char*>(s->blank_slabs->slab);
  for (int i = 0; i < 16; ++i, expected += fp::kSlabBytes) {
    const fp::BlankSlab blank = fp::take_blank(s.get());
    CHECK(reinterpret_cast<const char*>(blank.slab) == expected);
    CHECK(blank.place != nullptr && blank.place->slab == blank.slab);
    CHECK_EQ(blank.generation, 0);
    CHECK_EQ(blank.segment, 0);
  }
  CHECK(s->blank_slabs == nullptr);
  CHECK(fp::take_blank(s.get()).slab != nullptr);  // maps the next region
  CHECK_EQ(length(s->blank_slabs), 15);
  const fp::BlankSlab none;
  CHECK_EQ(none.generation, 0);
  CHECK_EQ(none.segment, 0);
}

TEST(a_slab_says_what_it_is) {
  const auto s = make_state();
  const fp::BlankSlab blank = fp::take_blank(s.get());
  blank.slab->carved = blank.slab->free = 9;  // as if it had been used before
  fp::init_slab(s.get(), blank);
  const fp::Slab& slab = *blank.slab;
  CHECK_EQ(slab.magic, fp::kSlabMagic);
  CHECK_EQ(slab.header_bytes, sizeof(fp::Slab));
  CHECK_EQ(slab.pid, static_cast<uint32_t>(::getpid()));
  CHECK_EQ(slab.carved, 0);
  CHECK_EQ(slab.free, 0);
  CHECK(slab.place == blank.place);
  CHECK(!fp::is_file_slab(&slab));
  CHECK(slab.base.ticks != 0 && slab.base.monotonic_ns != 0);
}

TEST(chunks_are_carved_in_order_behind_the_header_of_their_slab) {
  const auto s = make_state();
  const auto chunks = take(s.get(), 2 * kPerSlab + 1);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const fp::Slab* slab = fp::slab_of(chunks[i]);
    const auto at = reinterpret_cast<const char*>(chunks[i]) - reinterpret_cast<const char*>(slab);
    CHECK_EQ(at, (i % kPerSlab + 1) * 65536);
    CHECK(slab == fp::slab_of(chunks[i / kPerSlab * kPerSlab]));
    CHECK_EQ(chunks[i]->magic, fp::kChunkMagic);
    CHECK_EQ(chunks[i]->header_bytes, 128);
    CHECK_EQ(chunks[i]->gen, 0);
    CHECK(chunks[i]->place == fp::ChunkPlace::free);
    CHECK(fp::chunk_of(fp::chunk_slots(chunks[i])) == chunks[i]);
  }
  CHECK_EQ(s->chunk_count, 2 * kPerSlab + 1);
  CHECK_EQ(s->free_count, 0);
  CHECK_EQ(length(s->slabs), 3);
  CHECK_EQ(s->carving->carved, 1);
  CHECK_EQ(fp::slab_of(chunks[0])->carved, kPerSlab);
  CHECK_EQ(fp::slab_of(chunks[0])->free, 0);
  CHECK(fp::chunk_end(chunks[0]) == fp::chunk_slots(chunks[0]) + (65536 - 128) / sizeof(fp::Slot));
}

TEST(a_slab_that_is_needed_now_is_faulted_in_on_request) {
  for (const bool populate : {false, true}) {
    const auto s = make_state();
    const fp::Chunk* chunk = fp::take_chunk(s.get(), populate);
    CHECK(chunk != nullptr && chunk->magic == fp::kChunkMagic);
    // Its last page, which carving does not touch. (One huge page holds all of it.)
    unsigned char present = 0;
    char* last = reinterpret_cast<char*>(fp::slab_of(chunk)) + fp::kSlabBytes - 65536;
    if (::mincore(last, 1, &present) == 0 && populate) CHECK((present & 1) != 0);
  }
}

TEST(the_bound_is_on_chunks_in_use) {
  const auto s = make_state(2);
  const auto chunks = take(s.get(), 3);
  CHECK(chunks[0] != nullptr && chunks[1] != nullptr);
  CHECK(chunks[2] == nullptr);
  CHECK_EQ(s->chunk_count, 2);
  fp::Chunk* third = fp::take_chunk(s.get(), false, true);  // beyond the bound
  CHECK(third != nullptr);
  CHECK(fp::take_chunk(s.get(), false) == nullptr);
  fp::give_chunk(s.get(), third);
  CHECK(fp::take_chunk(s.get(), false) == nullptr);  // it is free, but two are in use
  fp::give_chunk(s.get(), chunks[0]);
  CHECK(fp::take_chunk(s.get(), false) == chunks[0]);
}

TEST(the_chunk_given_last_is_taken_first) {
  const auto s = make_state();
  const auto chunks = take(s.get(), 3);
  fp::Slab* slab = fp::slab_of(chunks[0]);
  chunks[1]->place = fp::ChunkPlace::full;
  chunks[1]->owner = reinterpret_cast<fp::Track*>(s.get());
  fp::give_chunk(s.get(), chunks[0]);
  fp::give_chunk(s.get(), chunks[1]);
  CHECK(chunks[1]->place == fp::ChunkPlace::free && chunks[1]->owner == nullptr);
  CHECK_EQ(s->free_count, 2);
  CHECK_EQ(s->chunk_count, 3);
  CHECK_EQ(slab->free, 2);
  CHECK(fp::take_chunk(s.get(), false) == chunks[1]);
  CHECK_EQ(s->free_count, 1);
  CHECK_EQ(slab->free, 1);
  CHECK(fp::take_chunk(s.get(), false) == chunks[0]);
  CHECK_EQ(s->chunk_count, 3);
  CHECK_EQ(slab->free, 0);
}

TEST(slabs_that_are_ready_are_carved_first) {
  const auto s = make_state();
  fp::Slab* first = make_ready(s.get());
  fp::Slab* second = make_ready(s.get());
  CHECK_EQ(s->ready_count, 2);
  CHECK_EQ(length(s->slabs), 0);
  CHECK(fp::slab_of(fp::take_chunk(s.get(), false)) == second);
  CHECK_EQ(s->ready_count, 1);
  take(s.get(), kPerSlab - 1);
  CHECK(fp::slab_of(fp::take_chunk(s.get(), false)) == first);
  CHECK_EQ(s->ready_count, 0);
  CHECK(s->ready == nullptr);
  CHECK_EQ(length(s->slabs), 2);
}

TEST(without_a_file_every_chunk_in_memory_may_be_reused) {
  const auto s = make_state();
  CHECK(!fp::file_in_force(s.get()));
  CHECK(fp::may_reuse(s.get(), fp::take_chunk(s.get(), false)));
  CHECK(fp::take_parked(s.get()) == nullptr);
}

// 32 MB stay resident: 512 chunks. Of the rest, whole slabs go back.
TEST(trimming_keeps_32_megabytes) {
  const auto s = make_state(100000);
  const auto chunks = take(s.get(), 20 * kPerSlab);  // 620
  for (fp::Chunk* chunk : chunks) std::memset(fp::chunk_slots(chunk), 1, 64);
  for (fp::Chunk* chunk : chunks) fp::give_chunk(s.get(), chunk);
  fp::Slab* ready = make_ready(s.get());
  fp::chunk_slots(reinterpret_cast<fp::Chunk*>(reinterpret_cast<char*>(ready) + 65536))->begin = 7;
  CHECK_EQ(s->free_count, 620);
  const size_t blank = length(s->blank_slabs);
  fp::trim_pool(s.get());
  // 108 chunks too many: three slabs of 31. A fourth would take the pool below 512.
  CHECK_EQ(s->free_count, 620 - 3 * kPerSlab);
  CHECK_EQ(s->chunk_count, 620 - 3 * kPerSlab);
  CHECK_EQ(length(s->free_chunks), 620 - 3 * kPerSlab);
  CHECK_EQ(length(s->slabs), 17);
  CHECK_EQ(s->ready_count, 0);
  CHECK(s->ready == nullptr);
  CHECK_EQ(length(s->blank_slabs), blank + 4);
  for (const fp::Slab* slab = s->slabs; slab != nullptr; slab = slab->next)
    CHECK_EQ(slab->magic, fp::kSlabMagic);
  for (const fp::Chunk* chunk = s->free_chunks; chunk != nullptr; chunk = chunk->next)
    CHECK_EQ(chunk->magic, fp::kChunkMagic);
  std::set<const fp::Slab*> listed;
  for (const auto* at = s->blank_slabs; at != nullptr; at = at->next) listed.insert(at->slab);
  CHECK_EQ(listed.size(), blank + 4);
  CHECK(listed.count(ready) == 1);
  // What went back reads as zeroes, and may be used again.
  CHECK_EQ(ready->magic, 0);
  CHECK_EQ(
      fp::chunk_slots(reinterpret_cast<fp::Chunk*>(reinterpret_cast<char*>(ready) + 65536))->begin,
      0);
  take(s.get(), 527);
  CHECK_EQ(s->free_count, 0);
  CHECK(fp::take_chunk(s.get(), false) != nullptr);
}

TEST(trimming_leaves_slabs_that_are_in_use) {
  const auto s = make_state(100000);
  const auto chunks = take(s.get(), 20 * kPerSlab - 1);
  // All free but one of each slab; the last slab is being carved.
  for (size_t i = 0; i < chunks.size(); ++i)
    if (i % kPerSlab != 7) fp::give_chunk(s.get(), chunks[i]);
  CHECK_EQ(s->free_count, 20 * kPerSlab - 1 - 20);
  fp::trim_pool(s.get());
  CHECK_EQ(s->free_count, 20 * kPerSlab - 1 - 20);
  CHECK_EQ(length(s->slabs), 20);
  CHECK_EQ(length(s->free_chunks), s->free_count);
  // One of the other slabs becomes free: it goes back.
  fp::give_chunk(s.get(), chunks[3 * kPerSlab + 7]);
  fp::trim_pool(s.get());
  CHECK_EQ(s->free_count, 19 * kPerSlab - 1 - 19);
  CHECK_EQ(s->chunk_count, 19 * kPerSlab - 1);
  CHECK_EQ(length(s->slabs), 19);
  for (const fp::Slab* slab = s->slabs; slab != nullptr; slab = slab->next)
    CHECK(slab != fp::slab_of(chunks[3 * kPerSlab]));
}

TEST(the_slab_that_is_being_carved_stays) {
  const auto s = make_state(100000);
  const auto chunks = take(s.get(), 18 * kPerSlab);
  for (fp::Chunk* chunk : chunks) fp::give_chunk(s.get(), chunk);
  const fp::Slab* carving = s->carving;
  CHECK_EQ(carving->free, kPerSlab);
  CHECK(s->slabs == carving);  // the first that is looked at
  fp::trim_pool(s.get());      // 46 too many: one slab
  CHECK_EQ(s->free_count, 17 * kPerSlab);
  CHECK_EQ(carving->magic, fp::kSlabMagic);
  CHECK(s->slabs == carving);
}

TEST(a_pool_of_512_free_chunks_is_left_alone) {
  const auto s = make_state(100000);
  const auto chunks = take(s.get(), 512 + kPerSlab);
  for (size_t i = 0; i < 512 + kPerSlab - 1; ++i) fp::give_chunk(s.get(), chunks[i]);
  fp::trim_pool(s.get());  // 30 too many: less than a slab
  CHECK_EQ(s->free_count, 512 + kPerSlab - 1);
  CHECK_EQ(length(s->free_chunks), 512 + kPerSlab - 1);
  fp::give_chunk(s.get(), chunks.back());
  fp::trim_pool(s.get());
  CHECK_EQ(s->free_count, 512);
  CHECK_EQ(s->chunk_count, 512);
}

#if defined(__linux__)
// An old kernel: it refuses to wipe memory in children and to fault in pages in one call.
TEST(memory_without_the_kernels_advice) {
  const int status = in_child([] {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{sizeof code / sizeof code[0], code};
    fp::g_process_page = nullptr;
    const auto s = make_state();
    const fp::BlankSlab blank = fp::take_blank(s.get());
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ||
        fp::platform::populate_pages(blank.slab, 4096))
      return 77;
    fp::populate_slab(blank.slab);
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> present(fp::kSlabBytes / page);
    if (::mincore(blank.slab, fp::kSlabBytes, present.data()) != 0) return 1;
    for (const unsigned char byte : present)
      if ((byte & 1) == 0) return 2;
    const auto* bytes = reinterpret_cast<const char*>(blank.slab);
    for (size_t i = 0; i < fp::kSlabBytes; ++i)
      if (bytes[i] != 0) return 3;
    // A page that a child would inherit as it is says nothing about the process.
    if (fp::process_mark() != static_cast<uint64_t>(::getpid())) return 4;
    if (fp::g_process_page != nullptr || fp::g_process_page_refused != 1) return 5;
    return 0;
  });
  if (status == 77) SKIP("system calls cannot be refused here");
  CHECK_EQ(status, 0);
}
#endif
