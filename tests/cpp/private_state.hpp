// SPDX-License-Identifier: Apache-2.0
// A State of the test's own, which no thread records into: functions of the recorder's store run on
// it step by step, with times and numbers that the test chooses.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fastprof/fastprof.hpp>
#include <memory>

namespace private_state {

namespace fp = fastprof;

constexpr fp::Site range_site =
    fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, "range",
                  __FILE__, "", __LINE__);
constexpr fp::Site mark_site =
    fp::make_site(fp::SiteKind::mark, fp::category::mark, fp::RecordScope::USER_SCOPE, "mark",
                  __FILE__, "", __LINE__);

// Its slabs stay mapped, as those of a process do.
inline std::unique_ptr<fp::State> make_state(uint64_t max_chunks = 1000) {
  auto s = std::make_unique<fp::State>();
  s->pid = static_cast<uint64_t>(::getpid());
  s->max_chunks = max_chunks;
  return s;
}

// Fills in a session slot with id 10 + index and adds it to the live sessions.
inline fp::SessionSlot& begin_session(fp::State* s, unsigned index, uint64_t max_chunks = 100,
                                      fp::OverflowPolicy policy = fp::OverflowPolicy::drop_newest,
                                      uint32_t mask = fp::category::all) {
  fp::SessionSlot& slot = s->sessions[index];
  slot.id = 10 + index;
  slot.t0 = 0;
  slot.t1 = UINT64_MAX;
  slot.mask = mask;
  slot.live = 1;
  slot.policy = policy;
  slot.max_chunks = max_chunks;
  fp::enlist_session(s, index);
  return slot;
}

inline uintptr_t address(const void* p) {
  return reinterpret_cast<uintptr_t>(p);
}

// Number of elements of one of the State's lists.
template <class Node>
size_t length(const Node* list) {
  size_t count = 0;
  for (; list != nullptr; list = list->next) ++count;
  return count;
}

inline uint64_t dropped(const fp::SessionSlot& slot, fp::DropCause cause) {
  return slot.dropped[static_cast<size_t>(cause)];
}

// Writes a record without arguments and returns the next slot.
inline fp::Slot* put(fp::Slot* slot, uint64_t begin, uint64_t end,
                     const fp::Site& site = range_site, fp::RecordTag tag = fp::RecordTag::slot) {
  *slot = {begin, end, fp::site_word(&site, tag)};
  return slot + fp::record_units(slot);
}

// Gives a track its next chunk, which is current; records in it are valid from `open_ticks` on.
inline fp::Chunk* open_chunk(fp::State* s, fp::Track* track, uint64_t open_ticks = 100) {
  fp::Chunk* chunk = fp::take_chunk(s, false, true);
  if (chunk == nullptr) std::abort();
  fp::append_chunk(s, track, chunk);
  chunk->open_ticks = open_ticks;
  fp::blank_slot(fp::chunk_slots(chunk));
  return chunk;
}

// The same, filled with `count` ranges of one tick from open_ticks on, and closed.
inline fp::Chunk* full_chunk(fp::State* s, fp::Track* track, size_t count = 1,
                             uint64_t open_ticks = 100) {
  fp::Chunk* chunk = open_chunk(s, track, open_ticks);
  fp::Slot* slot = fp::chunk_slots(chunk);
  for (size_t i = 0; i < count; ++i) slot = put(slot, open_ticks + i, open_ticks + i + 1);
  fp::close_chunk(s, track, chunk, reinterpret_cast<uintptr_t>(slot));
  return chunk;
}

// Appends a range that has not ended to a full chunk.
inline void leave_open(fp::Chunk* chunk) {
  put(const_cast<fp::Slot*>(fp::closed_end(chunk)), chunk->open_ticks + 50, 0);
  chunk->used_bytes += static_cast<uint32_t>(sizeof(fp::Slot));
}

// While it lives, `s` is the process's recorder for this library, and its thread has no records.
class Elected {
 public:
  explicit Elected(fp::State* s)
      : recorder_(fp::g_recorder),
        module_(fp::own_module),
        leader_(fp::own_state.leader),
        block_(fp::thread_block()),
        was_(*block_) {
    *block_ = fp::ThreadBlock{};
    fp::g_recorder.state = s;
    s->thread_block = nullptr;
  }
  ~Elected() {
    fp::g_recorder = recorder_;
    fp::own_module = module_;
    fp::own_state.leader = leader_;
    *block_ = was_;
  }
  Elected(const Elected&) = delete;
  Elected& operator=(const Elected&) = delete;

 private:
  fp::CurrentRecorder recorder_;
  fp::Module module_;
  fp::State* leader_;
  fp::ThreadBlock* block_;
  fp::ThreadBlock was_;
};

}  // namespace private_state
