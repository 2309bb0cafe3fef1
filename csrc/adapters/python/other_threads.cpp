// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/other_threads.hpp"

#include <pthread.h>

#include <algorithm>

#include "fastprof/platform/checked_copy.hpp"
#include "fastprof/platform/threads.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr size_t kMaxThreads = 1 << 16;  // a longer list is a torn one

#if PY_VERSION_HEX >= 0x030B0000
constexpr size_t kLastWord = offsetof(PyThreadState, datastack_top);
#else
constexpr size_t kLastWord = offsetof(PyThreadState, id);
#endif
constexpr size_t kExceptionItem = offsetof(PyThreadState, exc_state);
constexpr size_t kThreadBytes =
    std::max(kLastWord + sizeof(uint64_t), kExceptionItem + sizeof(_PyErr_StackItem));
constexpr size_t kMaxExceptionItems = 16;  // generators that run inside of one another
#if PY_VERSION_HEX >= 0x030C0000
constexpr size_t kRaised = offsetof(PyThreadState, current_exception);
#else
constexpr size_t kRaised = offsetof(PyThreadState, curexc_type);
#endif

}  // namespace

void OtherThreads::learn_kernel_ids(uintptr_t pthread, uint32_t tid) noexcept {
#if PY_VERSION_HEX < 0x030B0000 && !FASTPROF_DARWIN  // of glibc and musl
  const auto own = reinterpret_cast<const char*>(::pthread_self());
  const uint32_t own_tid = platform::thread_id();
  if (own_tid == tid) return;
  for (size_t offset = 0; offset < 1024 && tid_offset_ == 0; offset += 4)
    if (load_at<uint32_t>(own, offset) == own_tid &&
        load_at<uint32_t>(reinterpret_cast<const char*>(pthread), offset) == tid)
      tid_offset_ = offset;
#else
  (void)pthread;
  (void)tid;
#endif
}

ThreadWords OtherThreads::words_of(int pid, uintptr_t address, const char* copy) const noexcept {
  ThreadWords words{};
  words.address = address;
  words.id = load_at<uint64_t>(copy, offsetof(PyThreadState, id));
#if PY_VERSION_HEX >= 0x030D0000
  words.frame_word = address + offsetof(PyThreadState, current_frame);
#elif PY_VERSION_HEX >= 0x030B0000
  const auto cframe = load_at<uintptr_t>(copy, offsetof(PyThreadState, cframe));
  words.frame_word = cframe == 0 ? 0 : cframe + offsetof(_PyCFrame, current_frame);
#else
  words.frame_word = address + offsetof(PyThreadState, frame);
#endif
#if PY_VERSION_HEX >= 0x030B0000
  words.stack_chunk = load_at<uintptr_t>(copy, offsetof(PyThreadState, datastack_chunk));
  words.stack_top = load_at<uintptr_t>(copy, offsetof(PyThreadState, datastack_top));
  words.tid = load_at<uint32_t>(copy, offsetof(PyThreadState, native_thread_id));
#else
  const auto pthread = load_at<uintptr_t>(copy, offsetof(PyThreadState, thread_id));
  if (tid_offset_ != 0) {
    const platform::MemoryPiece piece = {pthread + tid_offset_, &words.tid, sizeof words.tid};
    if (platform::copy_pieces(pid, &piece, 1) != 1) words.tid = 0;
  }
#endif
  words.has_exception = has_exception(pid, address, copy);
#if PY_VERSION_HEX >= 0x030D0000
  const auto status =
      load_at<decltype(PyThreadState::_status)>(copy, offsetof(PyThreadState, _status));
  words.has_gil = status.holds_gil != 0;
#elif PY_VERSION_HEX >= 0x030C0000
  const auto status =
      load_at<decltype(PyThreadState::_status)>(copy, offsetof(PyThreadState, _status));
  words.has_gil = status.active != 0;
#else
  words.has_gil = reinterpret_cast<uintptr_t>(_PyThreadState_UncheckedGet()) == address;
#endif
  return words;
}

// A generator has an item of its own while it runs; that of its caller follows.
bool OtherThreads::has_exception(int pid, uintptr_t address, const char* copy) const noexcept {
  if (load_at<uintptr_t>(copy, kRaised) != 0) return true;
  auto at = load_at<uintptr_t>(copy, offsetof(PyThreadState, exc_info));
  for (size_t i = 0; at != 0 && i < kMaxExceptionItems; ++i) {
    char own[sizeof(_PyErr_StackItem)];
    const char* item = copy + kExceptionItem;
    if (at != address + kExceptionItem) {
      const platform::MemoryPiece piece = {at, own, sizeof own};
      if (platform::copy_pieces(pid, &piece, 1) != 1) return false;
      item = own;
    }
    const auto value = load_at<uintptr_t>(item, offsetof(_PyErr_StackItem, exc_value));
    if (value != 0 && value != reinterpret_cast<uintptr_t>(Py_None)) return true;
    at = load_at<uintptr_t>(item, offsetof(_PyErr_StackItem, previous_item));
  }
  return false;
}

bool OtherThreads::read(int pid) {
  const auto head =
      reinterpret_cast<uintptr_t>(PyInterpreterState_ThreadHead(PyInterpreterState_Main()));
  if (addresses_.empty() || addresses_[0] != head) return walk(pid, head);
  // The list of the last time, in one system call for 64 threads.
  const size_t count = addresses_.size();
  copies_.resize(count * kThreadBytes);
  std::vector<platform::MemoryPiece> pieces(count);
  for (size_t i = 0; i < count; ++i)
    pieces[i] = {addresses_[i], &copies_[i * kThreadBytes], kThreadBytes};
  if (platform::copy_pieces(pid, pieces.data(), count) != count) return walk(pid, head);
  threads_.clear();
  for (size_t i = 0; i < count; ++i) {
    const char* copy = &copies_[i * kThreadBytes];
    const uintptr_t next = i + 1 < count ? addresses_[i + 1] : 0;
    if (load_at<uintptr_t>(copy, offsetof(PyThreadState, next)) != next) return walk(pid, head);
    threads_.push_back(words_of(pid, addresses_[i], copy));
  }
  return true;
}

bool OtherThreads::walk(int pid, uintptr_t head) {
  threads_.clear();
  addresses_.clear();
  char copy[kThreadBytes];
  for (uintptr_t at = head; at != 0;) {
    const platform::MemoryPiece piece = {at, copy, sizeof copy};
    const bool copied = at % alignof(PyThreadState) == 0 && platform::copy_pieces(pid, &piece, 1);
    if (!copied || addresses_.size() == kMaxThreads ||
        load_at<PyInterpreterState*>(copy, offsetof(PyThreadState, interp)) !=
            PyInterpreterState_Main()) {
      threads_.clear();
      addresses_.clear();
      return false;
    }
    addresses_.push_back(at);
    threads_.push_back(words_of(pid, at, copy));
    at = load_at<uintptr_t>(copy, offsetof(PyThreadState, next));
  }
  return true;
}

bool read_stack_top(int pid, const ThreadWords& thread, uintptr_t* chunk, uintptr_t* top) noexcept {
#if PY_VERSION_HEX >= 0x030B0000
  const platform::MemoryPiece pieces[] = {
      {thread.address + offsetof(PyThreadState, datastack_chunk), chunk, sizeof *chunk},
      {thread.address + offsetof(PyThreadState, datastack_top), top, sizeof *top}};
  return platform::copy_pieces(pid, pieces, 2) == 2;
#else
  (void)pid;
  *chunk = thread.stack_chunk;
  *top = thread.stack_top;
  return true;
#endif
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
