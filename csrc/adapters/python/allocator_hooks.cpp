// SPDX-License-Identifier: Apache-2.0
// Hooks of CPython's allocators: see allocator_hooks.hpp. There is one set of functions per domain,
// and a hook keeps the context pointer of the allocator that it wraps: PyMem_SetAllocator() copies
// a struct word by word while threads without the GIL may allocate in the raw domain, so any
// mixture of old and new words must work.
#include "adapters/python/allocator_hooks.hpp"

#include <atomic>
#include <utility>

#include "adapters/python/allocation_sampler.hpp"
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
// The label says that a record stands for many blocks (is_sampled() in model/memory_rows.py).
constexpr Site kSampledSites[kDomains] = {memory_of("python:raw (sampled)"),
                                          memory_of("python:mem (sampled)"),
                                          memory_of("python:object (sampled)")};
constexpr Site kFailureSites[kDomains] = {failure_of("python:raw"), failure_of("python:mem"),
                                          failure_of("python:object")};

PyMemAllocatorEx g_former[kDomains];
bool g_placed[kDomains] = {};  // whether a hook is in place, on top or below another tool's. GIL
uint64_t g_users = 0;          // begin_allocations() calls not yet ended. GIL
uint64_t g_exact_users = 0;    // those of them that asked for every block. GIL
// off: hooks only forward. sampled_after_exact: as sampled, but the table may contain blocks that
// are missing from its filter, because they were recorded in exact mode.
enum class Mode : uint8_t { off, sampled, sampled_after_exact, exact };
// Relaxed: a hook that reads the old value records or omits one more allocation.
std::atomic<Mode> g_mode{Mode::off};
std::atomic<uint64_t> g_untracked{0};  // relaxed: a count

BlockSizes& sizes() noexcept {
  static BlockSizes& all = *new BlockSizes;
  return all;
}

struct ThreadState {
  AllocationSampler sampler;
  bool inside = false;    // in a hook: a domain that takes memory from another one is recorded once
  bool left_out = false;  // allocations of this thread are the profiler's own
  int reached = 0;        // hooks entered while `inside` was set
};
thread_local ThreadState t_state;

// While it exists, hooks of this thread leave their fast path, and then only forward.
class Inside {
 public:
  explicit Inside(ThreadState& thread) noexcept : thread_(thread), sampler_(thread.sampler) {
    thread_.inside = true;
    thread_.sampler.exhaust();
  }
  ~Inside() {
    thread_.inside = false;
    thread_.sampler = sampler_;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  ThreadState& thread_;
  const AllocationSampler sampler_;
};

uint64_t address_of(const void* block) noexcept {
  return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(block));
}

// CPython does not report the totals of its allocators: the first is 0, or for a sampled block its
// own size, from which the error of sums follows (model/memory_rows.py).
void record(const Site& site, uint64_t first, uint64_t second, uint64_t own_size) noexcept {
  const uint64_t words[3] = {second, own_size, pack_device(0, 0, -1)};
  record_instant(site, first, words);
}

void record_change(int domain, const void* block, const BlockSizes::Block& of,
                   bool freed) noexcept {
  const uint64_t bytes = freed ? 0 - static_cast<uint64_t>(of.bytes) : of.bytes;
  record(of.sampled ? kSampledSites[domain] : kMemorySites[domain], address_of(block), bytes,
         of.sampled ? of.own_size : 0);
}

void record_block(int domain, const void* block, const BlockSizes::Block& of,
                  const ThreadState& thread) noexcept {
  if (of.bytes == 0 || thread.left_out) return;
  if (sizes().add(block, of))
    record_change(domain, block, of, false);
  else
    g_untracked.fetch_add(1, std::memory_order_relaxed);
}

// Records the free of a block. Returns the block, with 0 bytes if its allocation was not recorded.
// Call before the block is given back: afterwards another thread may receive the same address, and
// its record must come later.
BlockSizes::Block record_free(int domain, const void* block) noexcept {
  if (block == nullptr) return {};
  const BlockSizes::Block found = sizes().remove(block);
  if (found.bytes != 0) record_change(domain, block, found, true);
  return found;
}

// Returns whether the block was certainly not recorded. Without a lock: one load of a filter.
bool is_unrecorded(Mode mode, const void* block) noexcept {
  return mode == Mode::off || (mode == Mode::sampled && !BlockSizes::may_be_sampled(block));
}

void record_failure(int domain, size_t size) noexcept {
  record(kFailureSites[domain], size, 0, 0);
}

Mode mode_now() noexcept {
  return g_mode.load(std::memory_order_relaxed);
}

// Returns the thread's state if the hook is to record its allocations, else null.
ThreadState* entered(Mode mode) noexcept {
  ThreadState& thread = t_state;
  if (thread.inside) {
    ++thread.reached;
    return nullptr;
  }
  return mode == Mode::off ? nullptr : &thread;
}

// Calls `get`, which allocates `size` bytes below the hook, and records the block: each one in
// exact mode, else with a probability that grows with its size.
template <int Domain, class Get>
void* allocate(ThreadState& thread, Mode mode, size_t size, const Get& get) noexcept {
  const bool exact = mode == Mode::exact;
  const bool chosen = exact || thread.sampler.takes(size);
  const Inside inside(thread);
  void* block = get();
  if (block == nullptr)
    record_failure(Domain, size);
  else if (chosen)
    record_block(Domain, block,
                 exact ? BlockSizes::Block{size, size, false}
                       : BlockSizes::Block{scaled_size(size), size, true},
                 thread);
  return block;
}

// Returns whether forwarding suffices for an allocation: true for most small ones while a sample is
// recorded. If false, nothing has changed. Blocks of up to kSmall bytes are not taken from another
// domain, whose hook would count them again. A forwarded allocation that fails is not recorded.
constexpr size_t kSmall = 256;
FASTPROF_ALWAYS_INLINE bool is_passed_by(size_t size) noexcept {
  const Mode mode = mode_now();
  return FASTPROF_LIKELY((mode == Mode::sampled || mode == Mode::sampled_after_exact) &&
                         size <= kSmall) &&
         FASTPROF_LIKELY(t_state.sampler.passes(size));
}

template <int Domain>
FASTPROF_NOINLINE void* slow_malloc(size_t size) noexcept {
  const PyMemAllocatorEx& former = g_former[Domain];
  const Mode mode = mode_now();
  ThreadState* thread = entered(mode);
  if (thread == nullptr) return former.malloc(former.ctx, size);
  return allocate<Domain>(*thread, mode, size,
                          [&]() noexcept { return former.malloc(former.ctx, size); });
}

template <int Domain>
void* hook_malloc(void*, size_t size) {
  const PyMemAllocatorEx& former = g_former[Domain];
  if (is_passed_by(size)) return former.malloc(former.ctx, size);
  return slow_malloc<Domain>(size);
}

template <int Domain>
FASTPROF_NOINLINE void* slow_calloc(size_t count, size_t size) noexcept {
  const PyMemAllocatorEx& former = g_former[Domain];
  const Mode mode = mode_now();
  ThreadState* thread = entered(mode);
  if (thread == nullptr) return former.calloc(former.ctx, count, size);
  const size_t whole = size != 0 && count > SIZE_MAX / size ? SIZE_MAX / 2 : count * size;
  return allocate<Domain>(*thread, mode, whole,
                          [&]() noexcept { return former.calloc(former.ctx, count, size); });
}

template <int Domain>
void* hook_calloc(void*, size_t count, size_t size) {
  const PyMemAllocatorEx& former = g_former[Domain];
  if (count <= kSmall && size <= kSmall && is_passed_by(count * size))
    return former.calloc(former.ctx, count, size);
  return slow_calloc<Domain>(count, size);
}

template <int Domain>
FASTPROF_NOINLINE void* slow_realloc(void* block, size_t size) noexcept {
  const PyMemAllocatorEx& former = g_former[Domain];
  const Mode mode = mode_now();
  ThreadState* thread = entered(mode);
  if (thread == nullptr) return former.realloc(former.ctx, block, size);
  const BlockSizes::Block before =
      is_unrecorded(mode, block) ? BlockSizes::Block{} : record_free(Domain, block);
  void* moved = allocate<Domain>(
      *thread, mode, size, [&]() noexcept { return former.realloc(former.ctx, block, size); });
  // The old block is still allocated.
  if (moved == nullptr) record_block(Domain, block, before, *thread);
  return moved;
}

// A realloc is a free and an allocation, whether the block moves or not: the sampler chooses anew.
template <int Domain>
void* hook_realloc(void*, void* block, size_t size) {
  const PyMemAllocatorEx& former = g_former[Domain];
  if (is_unrecorded(mode_now(), block) && is_passed_by(size))
    return former.realloc(former.ctx, block, size);
  return slow_realloc<Domain>(block, size);
}

template <int Domain>
FASTPROF_NOINLINE void slow_free(void* block) noexcept {
  const PyMemAllocatorEx& former = g_former[Domain];
  ThreadState* thread = entered(mode_now());
  if (thread == nullptr) return former.free(former.ctx, block);
  const Inside inside(*thread);
  record_free(Domain, block);
  former.free(former.ctx, block);
}

template <int Domain>
void hook_free(void*, void* block) {
  const PyMemAllocatorEx& former = g_former[Domain];
  if (is_unrecorded(mode_now(), block)) return former.free(former.ctx, block);
  slow_free<Domain>(block);
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
  ThreadState& thread = t_state;
  const Inside inside(thread);
  thread.reached = 0;
  void* block = current.malloc(current.ctx, 1);
  if (block == nullptr) return true;  // unknown: treat the hook as in place
  current.free(current.ctx, block);
  return thread.reached != 0;
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

// Sets the mode that the users request: exact if any user requests it; recordings of the others
// then contain every block, too. With the GIL.
void set_mode() noexcept {
  const Mode before = mode_now();
  Mode mode = Mode::off;
  if (g_exact_users != 0)
    mode = Mode::exact;
  else if (g_users != 0)
    mode = before == Mode::exact || before == Mode::sampled_after_exact ? Mode::sampled_after_exact
                                                                        : Mode::sampled;
  g_mode.store(mode, std::memory_order_relaxed);
}

}  // namespace

void begin_allocations(bool exact) noexcept {
  g_exact_users += exact ? 1 : 0;
  if (g_users++ != 0) return set_mode();
  g_untracked.store(0, std::memory_order_relaxed);
  for (int domain = 0; domain < kDomains; ++domain)
    if (!is_reached(domain)) place(domain);
  set_mode();
}

std::string end_allocations(bool exact) {
  std::string lost;
  if (g_users == 0) return lost;
  g_exact_users -= exact && g_exact_users != 0 ? 1 : 0;
  const bool last = --g_users == 0;
  set_mode();
  for (int domain = 0; domain < kDomains; ++domain) {
    if (last ? take_away(domain) : is_reached(domain)) continue;
    lost += lost.empty() ? "" : ", ";
    lost += kDomainNames[domain];
  }
  if (last) sizes().clear();
  return lost;
}

bool leave_out_allocations(bool on) noexcept {
  return std::exchange(t_state.left_out, on);
}

uint64_t untracked_allocations() noexcept {
  return g_untracked.load(std::memory_order_relaxed);
}

void forget_allocations_in_child() noexcept {
  g_users = g_exact_users = 0;
  set_mode();
  t_state = ThreadState{};  // also a random sequence of the child's own
  sizes().forget_in_child();
  for (int domain = 0; domain < kDomains; ++domain)
    if (g_placed[domain]) take_away(domain);
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
