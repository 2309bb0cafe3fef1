// SPDX-License-Identifier: Apache-2.0
// Forking: what is locked meanwhile, and what is left of the recorder in the child. fork_child()
// runs in this process, on a State of the test's own.
#include <thread>

#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;

TEST(forking_keeps_other_threads_out_and_restores_what_it_changed) {
  const auto s = make_state();
  const Elected elected(s.get());
  fp::ThreadBlock* block = fp::thread_block();
  for (const uint32_t busy : {0u, fp::thread_flag::busy}) {
    block->limit = 4096;
    block->flags = busy | fp::thread_flag::retired;
    fp::fork_prepare();
    CHECK_EQ(block->limit, 0);
    CHECK_EQ(block->flags, fp::thread_flag::busy | fp::thread_flag::retired);
    int held = 0;
    std::thread([&] {
      held += ::pthread_mutex_trylock(&s->lock) != 0;
      held += ::pthread_mutex_trylock(&s->drain_lock) != 0;
    }).join();
    CHECK_EQ(held, 2);
    fp::fork_parent();
    CHECK_EQ(block->limit, 4096);
    CHECK_EQ(block->flags, busy | fp::thread_flag::retired);
    CHECK_EQ(::pthread_mutex_trylock(&s->lock), 0);
    CHECK_EQ(::pthread_mutex_trylock(&s->drain_lock), 0);
    ::pthread_mutex_unlock(&s->lock);
    ::pthread_mutex_unlock(&s->drain_lock);
  }
}

TEST(sessions_that_follow_a_fork_start_again_empty) {
  const auto s = make_state(0);
  uint64_t in_file[fp::kMaxDropCauses] = {};
  for (const unsigned i : {0u, 1u, 62u, 63u}) {
    fp::SessionSlot& slot = s->sessions[i];
    slot.wants_detail = slot.wants_inputs = 1;
    slot.follows_fork = i % 2 == 1;
    slot.local = i == 63;
    begin_session(s.get(), i, 5,
                  i == 1 ? fp::OverflowPolicy::overwrite_oldest : fp::OverflowPolicy::drop_newest);
    slot.pinned_chunks = 3;
    slot.pid = 1;
    slot.dropped_in_file = in_file;
    for (uint64_t& count : slot.dropped) count = 9;
  }
  s->sessions[7].id = 17;  // has stopped, but was not released yet
  s->sessions[7].follows_fork = 1;
  CHECK_EQ(fp::follow_sessions(s.get()), uint64_t{1} << 63 | 2);
  CHECK_EQ(s->session_bits, uint64_t{1} << 63 | 2);
  CHECK_EQ(s->keep_bits, uint64_t{1} << 63);
  CHECK_EQ(s->local_bits, uint64_t{1} << 63);
  CHECK_EQ(s->max_chunks, 10);
  CHECK_EQ(s->detail_users, 2);
  CHECK_EQ(s->input_users, 2);
  for (const unsigned i : {0u, 7u, 62u}) {
    CHECK_EQ(s->sessions[i].id, 0);
    CHECK_EQ(s->sessions[i].live, 0);
  }
  for (const unsigned i : {1u, 63u}) {
    const fp::SessionSlot& slot = s->sessions[i];
    CHECK_EQ(slot.id, 10 + i);
    CHECK_EQ(slot.pid, static_cast<uint32_t>(::getpid()));
    CHECK_EQ(slot.pinned_chunks, 0);
    CHECK(slot.dropped_in_file == nullptr);
    CHECK(slot.t0 != 0 && slot.t0 <= fp::ordered_ticks(s.get()));
    for (const uint64_t count : slot.dropped) CHECK_EQ(count, 0);
  }
}

TEST(a_child_has_an_empty_recorder) {
  const auto s = make_state(0);
  const Elected elected(s.get());
  s->pid = 1;
  s->tls_static = 1;
  s->extra_mask = fp::mask_bit::callbacks;
  s->prefault_running = 1;
  fp::ThreadBlock* block = fp::thread_block();
  block->flags = fp::thread_flag::retired;
  fp::Track* track = fp::leader_track(s.get(), block);
  block->mask = 3;
  block->cursor = block->limit = 4096;
  fp::free_track(s.get(), fp::new_track(s.get()));
  fp::give_chunk(s.get(), full_chunk(s.get(), track));
  const fp::Chunk* chunk = full_chunk(s.get(), track);
  const fp::BlankSlab ready = fp::take_blank(s.get());
  fp::init_slab(s.get(), ready);
  fp::add_ready(s.get(), ready.slab);
  begin_session(s.get(), 0);
  fp::fork_prepare();
  fp::fork_child();
  CHECK_EQ(s->pid, static_cast<uint64_t>(::getpid()));
  CHECK_EQ(s->fork_count, 1);
  CHECK_EQ(s->session_epoch, 1);
  CHECK_EQ(s->session_bits, 0);
  CHECK(s->slabs == nullptr && s->carving == nullptr && s->ready == nullptr);
  CHECK(s->blank_slabs == nullptr && s->free_chunks == nullptr);
  CHECK(s->tracks == nullptr && s->free_tracks == nullptr);
  CHECK_EQ(s->chunk_count, 0);
  CHECK_EQ(s->free_count, 0);
  CHECK_EQ(s->ready_count, 0);
  CHECK_EQ(s->prefault_running, 0);
  CHECK_EQ(block->cursor, 0);
  CHECK_EQ(block->limit, 0);
  CHECK_EQ(block->mask, 0);
  CHECK_EQ(block->flags, fp::thread_flag::retired);
  CHECK(block->track == nullptr);
  CHECK_EQ(s->mask, fp::mask_bit::callbacks);
  // The kernel has zeroed the slabs in the child; that is not done again.
  if (fp::platform::kWipesInChildren) CHECK_EQ(fp::slab_of(chunk)->magic, fp::kSlabMagic);
  CHECK_EQ(::pthread_mutex_trylock(&s->lock), 0);
  CHECK_EQ(::pthread_mutex_trylock(&s->drain_lock), 0);
  ::pthread_mutex_unlock(&s->lock);
  ::pthread_mutex_unlock(&s->drain_lock);
}

TEST(the_forking_thread_keeps_its_primitives_and_its_sessions) {
  enum Kept { nothing, primitives, sessions };
  for (const Kept kept : {nothing, primitives, sessions}) {
    const auto s = make_state(0);
    const Elected elected(s.get());
    s->functions = &fp::leader_functions;
    for (const unsigned i : {2u, 3u}) {
      s->sessions[i].local = 1;
      s->sessions[i].follows_fork = i == 3;
      begin_session(s.get(), i, 5, fp::OverflowPolicy::drop_newest, 1u << i);
    }
    fp::ThreadBlock* block = fp::thread_block();
    fp::Track* track = fp::leader_track(s.get(), block);
    auto* own = reinterpret_cast<fp::ThreadPrimitives*>(&track->reserved);
    if (kept == primitives) track->primitives = own;
    if (kept == sessions) track->local_sessions = 1u << 2 | 1u << 3;
    track->local_newest_id = 13;
    fp::fork_prepare();
    fp::fork_child();
    CHECK_EQ(s->session_bits, 8);
    const fp::Track* after = block->track;
    CHECK_EQ(after != nullptr, kept != nothing);
    CHECK(s->tracks == after);
    if (after == nullptr) continue;
    CHECK(after != track);
    CHECK(after->primitives == (kept == primitives ? own : nullptr));
    CHECK_EQ(after->local_sessions, kept == sessions ? 8 : 0);
    CHECK_EQ(after->local_newest_id, 13);
    CHECK_EQ(block->mask, kept == sessions ? 8 : 0);
  }
}

TEST(a_child_whose_parent_has_no_leader_registers_nobody) {
  const auto s = make_state(0);
  const Elected elected(s.get());
  fp::ThreadBlock* block = fp::thread_block();
  fp::leader_track(s.get(), block)->primitives =
      reinterpret_cast<fp::ThreadPrimitives*>(s->reserved);
  fp::fork_prepare();
  fp::fork_child();
  CHECK(block->track == nullptr);
  CHECK(s->tracks == nullptr);
}
