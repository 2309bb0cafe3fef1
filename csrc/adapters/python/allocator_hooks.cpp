// SPDX-License-Identifier: Apache-2.0
// Hooks of CPython's allocators: see allocator_hooks.hpp. There is one set of functions per domain,
// and a hook keeps the context pointer of the allocator that it wraps: PyMem_SetAllocator() copies
// a struct word by word while threads without the GIL may allocate in the raw domain, so any
// mixture of old and new words must work.
#include "adapters/python/allocator_hooks.hpp"

#include <atomic>
#include <utility>

#include "adapters/python/block_sizes.hpp"
#include "fastprof/recorder/hot_path/memory.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr int kDomains = 3;  // PYMEM_DOMAIN_RAW, _MEM, _OBJ
constexpr const char* kDomainNames[kDomains] = {"raw", "mem", "object"};

constexpr Site memory_of(const char* domain) noexcept {
  return make_site(SiteKind::memory, category::memory, RecordScope::USER_SCOPE, "[memory]", "",
                   domain, 0);
}
constexpr Site failure_of(const char* domain) noexcept {
  return make_site(SiteKind::out_of_memory, category::memory, RecordScope::USER_SCOPE,
                   "[OutOfMemory]", "", domain, 0);
}
constexpr Site kMemorySites[kDomains] = {memory_of("python:raw"), memory_of("python:mem"),
                                         memory_of("python:object")};
constexpr Site kFailureSites[kDomains] = {failure_of("python:raw"), failure_of("python:mem"),
                                          failure_of("python:object")};

PyMemAllocatorEx g_former[kDomains];
bool g_placed[kDomains] = {};  // whether a hook is in place, on top or below another tool's. GIL
uint64_t g_users = 0;          // begin_allocations() calls not yet ended. GIL
// Relaxed: a hook that reads the old value records or omits one more allocation.
std::atomic<bool> g_recording{false};
std::atomic<uint64_t> g_untracked{0};  // relaxed: a count

BlockSizes& sizes() noexcept {
  static BlockSizes& all = *new BlockSizes;
  return all;
}

// Set while a hook runs: a domain that takes memory from another one is not recorded twice.
thread_local bool t_inside = false;
thread_local bool t_left_out = false;  // allocations of this thread are the profiler's own
thread_local int t_reached = 0;        // hooks entered while `t_inside` was set

class Inside {
 public:
  Inside() noexcept { t_inside = true; }
  ~Inside() { t_inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

bool recorded_here() noexcept {
  if (t_inside) {
    ++t_reached;
    return false;
  }
  return g_recording.load(std::memory_order_relaxed);
}

void record(const Site& site, uint64_t first, uint64_t second) noexcept {
  // CPython does not report the totals of its allocators: 0.
  const uint64_t words[3] = {second, 0, pack_device(0, 0, -1)};
  record_instant(site, first, words);
}

void record_block(int domain, const void* block, size_t size) noexcept {
  if (size == 0 || t_left_out) return;
  if (!sizes().add(block, size)) {
    g_untracked.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  record(kMemorySites[domain], static_cast<uint64_t>(reinterpret_cast<uintptr_t>(block)), size);
}

// Returns the block's size in bytes; 0 if it was not recorded. Call before the block is given back:
// afterwards another thread may receive the same address, and its record must come later.
size_t record_free(int domain, const void* block) noexcept {
  const size_t size = block == nullptr ? 0 : sizes().remove(block);
  if (size != 0)
    record(kMemorySites[domain], static_cast<uint64_t>(reinterpret_cast<uintptr_t>(block)),
           static_cast<uint64_t>(-static_cast<int64_t>(size)));
  return size;
}

void record_failure(int domain, size_t size) noexcept {
  record(kFailureSites[domain], size, 0);
}

template <int Domain>
void* hook_malloc(void*, size_t size) {
  const PyMemAllocatorEx& former = g_former[Domain];
  if (!recorded_here()) return former.malloc(former.ctx, size);
  const Inside inside;
  void* block = former.malloc(former.ctx, size);
  if (block != nullptr)
    record_block(Domain, block, size);
  else
    record_failure(Domain, size);
  return block;
}

template <int Domain>
void* hook_calloc(void*, size_t count, size_t size) {
  const PyMemAllocatorEx& former = g_former[Domain];
  if (!recorded_here()) return former.calloc(former.ctx, count, size);
  const Inside inside;
  void* block = former.calloc(former.ctx, count, size);
  if (block != nullptr)
    record_block(Domain, block, count * size);
  else
    record_failure(Domain, size != 0 && count > SIZE_MAX / size ? SIZE_MAX / 2 : count * size);
  return block;
}

template <int Domain>
void* hook_realloc(void*, void* block, size_t size) {
  const PyMemAllocatorEx& former = g_former[Domain];
  if (!recorded_here()) return former.realloc(former.ctx, block, size);
  const Inside inside;
  const size_t before = record_free(Domain, block);
  void* moved = former.realloc(former.ctx, block, size);
  if (moved != nullptr) {
    record_block(Domain, moved, size);
  } else {
    if (before != 0) record_block(Domain, block, before);  // the old block is still allocated
    record_failure(Domain, size);
  }
  return moved;
}

template <int Domain>
void hook_free(void*, void* block) {
  const PyMemAllocatorEx& former = g_former[Domain];
  if (!recorded_here()) return former.free(former.ctx, block);
  const Inside inside;
  record_free(Domain, block);
  former.free(former.ctx, block);
}

template <int Domain>
PyMemAllocatorEx hooks_before(const PyMemAllocatorEx& former) noexcept {
  return {former.ctx, hook_malloc<Domain>, hook_calloc<Domain>, hook_realloc<Domain>,
          hook_free<Domain>};
}

PyMemAllocatorDomain domain_at(int number) noexcept {
  constexpr PyMemAllocatorDomain kAll[] = {PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
  return kAll[number];
}

PyMemAllocatorEx current_of(int domain) noexcept {
  PyMemAllocatorEx current;
  PyMem_GetAllocator(domain_at(domain), &current);
  return current;
}

bool on_top(int domain) noexcept {
  constexpr void* (*kOwn[])(void*, size_t) = {hook_malloc<0>, hook_malloc<1>, hook_malloc<2>};
  return current_of(domain).malloc == kOwn[domain];
}

// Returns whether allocations of the domain reach its hook. Allocates one byte to find out: the mem
// and object domains pass large requests on to the raw domain, whose hook would count as reached.
bool is_reached(int domain) noexcept {
  if (!g_placed[domain]) return false;
  if (on_top(domain)) return true;
  const PyMemAllocatorEx current = current_of(domain);
  const Inside inside;
  t_reached = 0;
  void* block = current.malloc(current.ctx, 1);
  if (block == nullptr) return true;  // unknown: treat the hook as in place
  current.free(current.ctx, block);
  return t_reached != 0;
}

void place(int domain) noexcept {
  g_former[domain] = current_of(domain);
  PyMemAllocatorEx own = domain == 0   ? hooks_before<0>(g_former[0])
                         : domain == 1 ? hooks_before<1>(g_former[1])
                                       : hooks_before<2>(g_former[2]);
  PyMem_SetAllocator(domain_at(domain), &own);
  g_placed[domain] = true;
}

// Restores the allocator of the domain if its hook is on top; below another tool's allocator, the
// hook stays. Returns false if the hook is no longer reached.
bool take_away(int domain) noexcept {
  if (on_top(domain)) {
    PyMem_SetAllocator(domain_at(domain), &g_former[domain]);
    g_placed[domain] = false;
    return true;
  }
  if (is_reached(domain)) return true;
  g_placed[domain] = false;
  return false;
}

}  // namespace

void begin_allocations() noexcept {
  if (g_users++ != 0) return;
  g_untracked.store(0, std::memory_order_relaxed);
  for (int domain = 0; domain < kDomains; ++domain)
    if (!is_reached(domain)) place(domain);
  g_recording.store(true, std::memory_order_relaxed);
}

std::string end_allocations() {
  std::string lost;
  if (g_users == 0) return lost;
  const bool last = --g_users == 0;
  if (last) g_recording.store(false, std::memory_order_relaxed);
  for (int domain = 0; domain < kDomains; ++domain) {
    if (last ? take_away(domain) : is_reached(domain)) continue;
    lost += lost.empty() ? "" : ", ";
    lost += kDomainNames[domain];
  }
  if (last) sizes().clear();
  return lost;
}

bool leave_out_allocations(bool on) noexcept {
  return std::exchange(t_left_out, on);
}

uint64_t untracked_allocations() noexcept {
  return g_untracked.load(std::memory_order_relaxed);
}

void forget_allocations_in_child() noexcept {
  g_users = 0;
  g_recording.store(false, std::memory_order_relaxed);
  t_inside = t_left_out = false;
  sizes().forget_in_child();
  for (int domain = 0; domain < kDomains; ++domain)
    if (g_placed[domain]) take_away(domain);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
