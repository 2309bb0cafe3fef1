// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/other_threads.hpp"

#include <Python.h>
#include <pthread.h>

#include <algorithm>

#include "fastprof/platform/threads.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr size_t kMaxThreads = 1 << 16;    // a longer list is a torn one
constexpr size_t kMaxExceptionItems = 16;  // generators that run inside of one another
constexpr size_t kWord = sizeof(uintptr_t);

// Number of bytes of a thread state that contain all that is read of it.
size_t thread_bytes(const Layout& layout) noexcept {
  const size_t frame = layout.c_frame == kAbsent ? layout.frame : layout.c_frame;
  size_t last = std::max({layout.next, layout.interpreter, layout.id, layout.pthread, frame});
  for (const size_t each :
       {layout.kernel_id, layout.gil_word, layout.raised, layout.exception_info})
    if (each != kAbsent) last = std::max(last, each);
  if (layout.stack_chunk != kAbsent) last = std::max(last, layout.stack_chunk + kWord);
  if (layout.exception_item != kAbsent)
    last = std::max(last,
                    layout.exception_item + std::max(layout.item_exception, layout.previous_item));
  return last + kWord;
}

}  // namespace

OtherThreads::OtherThreads(const Interpreter& interpreter)
    : interpreter_(interpreter),
      layout_(interpreter.layout),
      thread_bytes_(thread_bytes(interpreter.layout)) {}

void OtherThreads::learn_kernel_ids(uintptr_t pthread, uint32_t tid) noexcept {
#if !FASTPROF_DARWIN  // of glibc and musl
  if (layout_.kernel_id != kAbsent) return;
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

ThreadWords OtherThreads::words_of(uintptr_t address, const char* copy) const noexcept {
  ThreadWords words{};
  words.address = address;
  words.id = load_at<uint64_t>(copy, layout_.id);
  words.frame_word = address + layout_.frame;
  if (layout_.c_frame != kAbsent) {
    const auto c_frame = load_at<uintptr_t>(copy, layout_.c_frame);
    words.frame_word = c_frame == 0 ? 0 : c_frame + layout_.frame;
  }
  if (layout_.stack_chunk != kAbsent) {
    words.stack_chunk = load_at<uintptr_t>(copy, layout_.stack_chunk);
    words.stack_top = load_at<uintptr_t>(copy, layout_.stack_chunk + kWord);
  }
  if (layout_.kernel_id != kAbsent) {
    words.tid = load_at<uint32_t>(copy, layout_.kernel_id);
  } else if (tid_offset_ != 0) {
    const auto pthread = load_at<uintptr_t>(copy, layout_.pthread);
    if (!interpreter_.copy(pthread + tid_offset_, &words.tid, sizeof words.tid)) words.tid = 0;
  }
  words.has_exception = has_exception(address, copy);
  words.has_gil = layout_.gil_word == kAbsent
                      ? gil_holder_ == address
                      : (load_at<uint32_t>(copy, layout_.gil_word) & layout_.gil_mask) != 0;
  return words;
}

// A generator has an item of its own while it runs; that of its caller follows.
bool OtherThreads::has_exception(uintptr_t address, const char* copy) const noexcept {
  if (layout_.raised == kAbsent) return false;
  if (load_at<uintptr_t>(copy, layout_.raised) != 0) return true;
  auto at = load_at<uintptr_t>(copy, layout_.exception_info);
  for (size_t i = 0; at != 0 && i < kMaxExceptionItems; ++i) {
    char own[4 * kWord];
    const char* item = copy + layout_.exception_item;
    if (layout_.exception_item == kAbsent || at != address + layout_.exception_item) {
      if (!interpreter_.copy(at, own,
                             std::max(layout_.item_exception, layout_.previous_item) + kWord))
        return false;
      item = own;
    }
    const auto value = load_at<uintptr_t>(item, layout_.item_exception);
    if (value != 0 && value != interpreter_.none) return true;
    at = load_at<uintptr_t>(item, layout_.previous_item);
  }
  return false;
}

bool OtherThreads::read() {
  uintptr_t head = 0;
  if (interpreter_.threads_head == 0) {
    head = reinterpret_cast<uintptr_t>(PyInterpreterState_ThreadHead(PyInterpreterState_Main()));
  } else if (!interpreter_.copy(interpreter_.threads_head, &head, sizeof head)) {
    return false;
  }
  if (layout_.gil_word == kAbsent) {
    gil_holder_ = 0;
    if (interpreter_.gil_holder != 0)
      interpreter_.copy(interpreter_.gil_holder, &gil_holder_, sizeof gil_holder_);
#if PY_VERSION_HEX < 0x030C0000
    else if (interpreter_.is_own)
      gil_holder_ = reinterpret_cast<uintptr_t>(_PyThreadState_UncheckedGet());
#endif
  }
  if (addresses_.empty() || addresses_[0] != head) return walk(head);
  // The list of the last time, in one system call for 64 threads.
  const size_t count = addresses_.size();
  copies_.resize(count * thread_bytes_);
  std::vector<platform::MemoryPiece> pieces(count);
  for (size_t i = 0; i < count; ++i)
    pieces[i] = {addresses_[i], &copies_[i * thread_bytes_], thread_bytes_};
  if (platform::copy_pieces(interpreter_.pid, pieces.data(), count) != count) return walk(head);
  threads_.clear();
  for (size_t i = 0; i < count; ++i) {
    const char* copy = &copies_[i * thread_bytes_];
    const uintptr_t next = i + 1 < count ? addresses_[i + 1] : 0;
    if (load_at<uintptr_t>(copy, layout_.next) != next) return walk(head);
    threads_.push_back(words_of(addresses_[i], copy));
  }
  return true;
}

bool OtherThreads::walk(uintptr_t head) {
  threads_.clear();
  addresses_.clear();
  copies_.resize(std::max(copies_.size(), thread_bytes_));
  char* const copy = copies_.data();
  for (uintptr_t at = head; at != 0;) {
    const bool copied = at % kWord == 0 && interpreter_.copy(at, copy, thread_bytes_);
    if (!copied || addresses_.size() == kMaxThreads ||
        load_at<uintptr_t>(copy, layout_.interpreter) != interpreter_.state) {
      threads_.clear();
      addresses_.clear();
      return false;
    }
    addresses_.push_back(at);
    threads_.push_back(words_of(at, copy));
    at = load_at<uintptr_t>(copy, layout_.next);
  }
  return true;
}

bool read_stack_top(const Interpreter& interpreter, const ThreadWords& thread, uintptr_t* chunk,
                    uintptr_t* top) noexcept {
  if (interpreter.layout.stack_chunk == kAbsent) {
    *chunk = thread.stack_chunk;
    *top = thread.stack_top;
    return true;
  }
  uintptr_t words[2] = {};
  if (!interpreter.copy(thread.address + interpreter.layout.stack_chunk, words, sizeof words))
    return false;
  *chunk = words[0];
  *top = words[1];
  return true;
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
