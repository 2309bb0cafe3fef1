// SPDX-License-Identifier: Apache-2.0
#include "bindings/stack_table.hpp"

#include <algorithm>
#include <new>

FASTPROF_NAMESPACE_BEGIN
namespace bindings {
namespace {

constexpr size_t kMaxStacks = size_t{1} << 20;

// Made when the module is loaded, not in the function: a forked child would wait for ever for a
// static variable of a function that another thread was initialising.
StackTable& g_stack_table = *new StackTable;

}  // namespace

StackTable& stack_table() {
  return g_stack_table;
}

// Sums an independent hash of each frame, so that the frames are mixed in parallel.
uint64_t StackTable::hash(const PythonFrame* frames, uint32_t count) noexcept {
  uint64_t sum = count;
  uint64_t place = 0;
  for (uint32_t i = 0; i < count; ++i) {
    place += 0x9E3779B97F4A7C15u;
    const uint64_t offset = static_cast<uint64_t>(frames[i].offset) * 0xA0761D6478BD642Fu;
    const uint64_t mixed =
        ((reinterpret_cast<uintptr_t>(frames[i].code) ^ offset) + place) * 0xD6E8FEB86659FD93u;
    sum += mixed ^ mixed >> 32;
  }
  const uint64_t h = (sum ^ sum >> 32) * 0xE7037ED1A0B428DBu;
  return h ^ h >> 29;
}

uint64_t StackTable::find(uint64_t hash, const PythonFrame* frames, uint32_t count) const noexcept {
  if (slots_.empty()) return 0;
  for (size_t i = hash;; ++i) {
    const uint32_t index = slots_[i & (slots_.size() - 1)];
    if (index == 0) return 0;
    const KnownStack& stack = known_[index - 1];
    if (stack.hash != hash || stack.count != count) continue;
    const PythonFrame* at = frames_.data() + stack.first;
    if (std::equal(frames, frames + count, at, [](const PythonFrame& a, const PythonFrame& b) {
          return a.code == b.code && a.offset == b.offset;
        }))
      return generation_ << 32 | index;
  }
}

uint64_t StackTable::add(uint64_t hash, const PythonFrame* frames, uint32_t count) noexcept {
  if (known_.size() >= kMaxStacks) return 0;
  try {
    if (known_.size() * 2 >= slots_.size()) grow();
    const auto first = static_cast<uint32_t>(frames_.size());
    frames_.insert(frames_.end(), frames, frames + count);
    known_.push_back({hash, first, count});
  } catch (const std::bad_alloc&) {
    return 0;
  }
  for (uint32_t i = 0; i < count; ++i) Py_XINCREF(frames[i].code);
  size_t i = hash;
  while (slots_[i & (slots_.size() - 1)] != 0) ++i;
  const auto index = static_cast<uint32_t>(known_.size());
  slots_[i & (slots_.size() - 1)] = index;
  return generation_ << 32 | index;
}

void StackTable::grow() {
  std::vector<uint32_t> slots(std::max<size_t>(1024, slots_.size() * 4), 0);
  for (size_t k = 0; k < known_.size(); ++k) {
    size_t i = known_[k].hash;
    while (slots[i & (slots.size() - 1)] != 0) ++i;
    slots[i & (slots.size() - 1)] = static_cast<uint32_t>(k + 1);
  }
  slots_.swap(slots);
}

std::vector<PythonFrame> StackTable::frames_of(uint64_t id) const {
  const uint64_t index = id & 0xFFFFFFFFu;
  if (id >> 32 != generation_ || index == 0 || index > known_.size()) return {};
  const KnownStack& stack = known_[index - 1];
  const auto first = frames_.begin() + stack.first;
  return {first, first + stack.count};
}

std::vector<PythonFrame> StackTable::clear() {
  std::vector<PythonFrame> released;
  released.swap(frames_);
  known_ = {};
  slots_ = {};
  store_relaxed(&generation_, generation_ + 1);
  return released;
}

void StackTable::renew_lock() noexcept {
  new (&lock_) std::mutex;
}

}  // namespace bindings
FASTPROF_NAMESPACE_END
