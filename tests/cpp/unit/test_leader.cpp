// SPDX-License-Identifier: Apache-2.0
// Electing and following a leader, and publishing what is recorded: with States of the test's own
// in place of the process's.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "private_state.hpp"
#include "process_changes.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;
using namespace process_changes;

namespace {

uint64_t hz_of(const char* value) {
  const Variable clock("FASTPROF_CLOCK", value);
  const fp::ForcedClock forced = fp::forced_clock();
  CHECK_EQ(forced.slow, forced.simulated_hz != 0);
  return forced.simulated_hz;
}

}  // namespace

TEST(the_clock_is_chosen_by_the_environment) {
  CHECK_EQ(hz_of("1"), 1);
  CHECK_EQ(hz_of("24000000"), 24000000);
  CHECK_EQ(hz_of("499999999"), 499999999);
  for (const char* ignored : {"500000000", "500000001", "0", "-1", "+1", " 1", "1 ", "24MHz", "",
                              "/1", ":1", "99999999999999999999"})
    CHECK_EQ(hz_of(ignored), 0);
  CHECK_EQ(hz_of(nullptr), 0);
  CHECK_EQ(hz_of("90"), 90);
  const Variable clock("FASTPROF_CLOCK", "slow");
  CHECK(fp::forced_clock().slow);
  CHECK_EQ(fp::forced_clock().simulated_hz, 0);
  CHECK_EQ(fp::kFastCounterHz, 500000000);
}

TEST(a_state_is_prepared_before_others_see_it_lead) {
  const auto s = make_state();
  s->pid = 0;
  {
    const Variable clock("FASTPROF_CLOCK", "1000");
    fp::prepare_to_lead(s.get());
  }
  CHECK(s->functions == &fp::leader_functions);
  CHECK_EQ(s->pid, static_cast<uint64_t>(::getpid()));
  CHECK_EQ(s->slow_clock, 1);
  CHECK_EQ(s->simulated_counter_hz, 1000);
  const Variable clock("FASTPROF_CLOCK", nullptr);
  fp::prepare_to_lead(s.get());
  CHECK_EQ(s->slow_clock, fp::tick_counter_usable() ? 0 : 1);
  CHECK_EQ(s->simulated_counter_hz, 0);
}

TEST(handlers_are_installed_once) {
  const auto s = make_state();
  s->exit_key_made = s->hooks_installed = 1;
  s->exit_key = 4711;
  fp::lead(s.get(), "");
  CHECK_EQ(s->exit_key, 4711);
  CHECK_EQ(s->exit_key_made, 1);
  CHECK_EQ(fp::own_state.exit_key_made, 1);
  CHECK_EQ(fp::own_state.hooks_installed, 1);
}

TEST(the_first_leader_that_can_be_followed_is_taken) {
  const auto first = make_state(), second = make_state(), third = make_state();
  fp::discovery::Found found{};
  CHECK(!fp::is_led(found));
  CHECK(fp::elected_leader(found) == nullptr);
  found.states[0] = first.get();
  found.states[1] = second.get();
  found.states[2] = third.get();
  found.count = 2;
  CHECK(!fp::is_led(found));
  CHECK(fp::elected_leader(found) == nullptr);
  third->leader = third.get();
  CHECK(!fp::is_led(found));  // is not among them
  CHECK(fp::elected_leader(found) == nullptr);
  second->leader = third.get();
  CHECK(fp::is_led(found));
  CHECK(fp::elected_leader(found) == third.get());
  third->size_bytes = 64;  // of a library that is older than the rules
  CHECK(fp::is_led(found));
  CHECK(fp::elected_leader(found) == nullptr);
  first->leader = second.get();
  CHECK(fp::elected_leader(found) == second.get());
}

namespace {
int joins = 0;
const fp::State* joined = nullptr;
}  // namespace

TEST(a_leader_lets_those_join_that_wait) {
  const auto leader = make_state(), waiting = make_state(), other = make_state();
  waiting->join = [](fp::State* s) {
    ++joins;
    joined = s;
  };
  fp::discovery::Found found{};
  found.states[0] = other.get();
  found.states[1] = waiting.get();
  found.states[2] = waiting.get();
  found.count = 2;
  joins = 0;
  fp::let_others_join(leader.get(), found);
  CHECK_EQ(joins, 1);
  CHECK(joined == leader.get());
}

TEST(joining_twice_changes_nothing) {
  const fp::Module* modules = fp::state()->modules;
  const fp::Module before = fp::own_module;
  CHECK(before.state == &fp::own_state);
  const auto other = make_state();
  fp::join(other.get(), fp::discovery::Found{});
  fp::join_later(other.get());
  fp::join_or_wait();
  fp::attach();
  CHECK(fp::state() == fp::own_state.leader);
  CHECK(fp::state()->modules == modules);
  CHECK(fp::own_module.next == before.next);
  CHECK(other->modules == nullptr);
}

TEST(a_library_that_joins_offers_its_thread_block) {
  enum Why { free_to_offer, is_static, recorded, forced };
  for (const Why why : {free_to_offer, is_static, recorded, forced}) {
    const auto leader = make_state();
    leader->functions = &fp::leader_functions;
    leader->tls_offset = 9;
    leader->tls_static = why == is_static ? 1 : 0;
    leader->recorded_once = why == recorded ? 1 : 0;
    leader->tls_forced_dynamic = why == forced ? 1 : 0;
    intptr_t earlier_offset = 0;
    uint32_t earlier_static = 0;
    fp::Module earlier{};
    earlier.tls_offset = &earlier_offset;
    earlier.tls_static = &earlier_static;
    leader->modules = &earlier;
    const Elected elected(leader.get());
    fp::own_module = fp::Module{};
    intptr_t offset = 0;
    const bool offers = fp::platform::probe_thread_block(offset) && why == free_to_offer;
    fp::discovery::Found found{};
    found.self_path = "";
    found.self_first = 1000;
    found.self_last = 2000;
    const uint64_t before = fp::ticks(leader.get());
    fp::join(leader.get(), found);
    CHECK(fp::own_state.leader == leader.get());
    CHECK(fp::state() == leader.get());
    CHECK(leader->modules == &fp::own_module && fp::own_module.next == &earlier);
    CHECK_EQ(fp::own_module.first, 1000);
    CHECK_EQ(fp::own_module.last, 2000);
    CHECK(fp::own_module.loaded_ticks >= before);
    CHECK(leader->thread_block == (offers ? &fp::own_thread_block : nullptr));
    CHECK_EQ(leader->tls_static, offers || why == is_static ? 1 : 0);
    CHECK_EQ(leader->tls_offset, offers ? offset : 9);
    CHECK_EQ(fp::g_recorder.tls_static, leader->tls_static);
    CHECK_EQ(fp::g_recorder.tls_offset, leader->tls_offset);
    // Those that joined earlier are told as well.
    CHECK_EQ(earlier_static, offers ? 1 : 0);
    CHECK_EQ(earlier_offset, offers ? offset : 0);

    if (!offers) continue;
    fp::leave();
    CHECK(leader->modules == &earlier);
    CHECK_EQ(leader->unload_epoch, 1);
    fp::own_module.state = nullptr;
    fp::leave();
    CHECK_EQ(leader->unload_epoch, 1);
  }
}

TEST(a_node_id_set_before_there_was_a_leader_counts) {
  const int64_t own = fp::own_state.node_id;
  const auto join_with = [&](int64_t leaders, int64_t before) {
    const auto leader = make_state();
    leader->functions = &fp::leader_functions;
    leader->tls_static = 1;
    leader->tls_offset = fp::g_recorder.tls_offset;
    leader->node_id = leaders;
    const Elected elected(leader.get());
    fp::own_module = fp::Module{};
    fp::own_state.node_id = before;
    fp::join(leader.get(), fp::discovery::Found{});
    fp::own_state.node_id = own;
    return leader->node_id;
  };
  CHECK_EQ(join_with(-1, 5), 5);
  CHECK_EQ(join_with(7, 5), 7);
  CHECK_EQ(join_with(0, 5), 0);
}

TEST(libraries_with_another_leader_are_listed) {
  CHECK(fp::libraries_of_other_abi().empty());
  fp::State* leader = fp::own_state.leader;
  const auto join = fp::own_state.join;
  const auto other = make_state();
  fp::own_state.leader = other.get();
  CHECK(fp::libraries_of_other_abi() == std::vector<std::string>{""});  // the executable
  fp::own_state.leader = nullptr;
  fp::own_state.join = nullptr;
  CHECK(fp::libraries_of_other_abi().empty());  // nobody uses it
  fp::own_state.join = &fp::join_later;
  CHECK(fp::libraries_of_other_abi() == std::vector<std::string>{""});
  fp::own_state.leader = leader;
  fp::own_state.join = join;
  CHECK(fp::libraries_of_other_abi().empty());
}

TEST(the_mask_is_what_live_sessions_ask_for) {
  const auto s = make_state(0);
  s->extra_mask = fp::mask_bit::callbacks;
  CHECK_EQ(fp::wanted_mask(s.get()), fp::mask_bit::callbacks);
  fp::SessionSlot& global =
      begin_session(s.get(), 0, 3, fp::OverflowPolicy::drop_newest, 0x3 | fp::kEndRecord);
  CHECK_EQ(fp::wanted_mask(s.get()), fp::mask_bit::callbacks | 0x3);
  fp::SessionSlot& local = s->sessions[63];
  local.local = local.wants_detail = local.wants_inputs = 1;
  begin_session(s.get(), 63, 4, fp::OverflowPolicy::overwrite_oldest, 0x8);
  CHECK_EQ(fp::wanted_mask(s.get()),
           fp::mask_bit::callbacks | 0x3 | fp::mask_bit::local | fp::mask_bit::detail);
  CHECK_EQ(s->session_bits, uint64_t{1} << 63 | 1);
  CHECK_EQ(s->keep_bits, 1);
  CHECK_EQ(s->local_bits, uint64_t{1} << 63);
  CHECK_EQ(s->max_chunks, 7);
  CHECK_EQ(s->detail_users, 1);
  CHECK_EQ(s->input_users, 1);
  fp::SessionSlot& spilling = begin_session(s.get(), 5, 1, fp::OverflowPolicy::spill_to_file, 0x10);
  CHECK_EQ(s->keep_bits, 1 | 1 << 5);
  CHECK_EQ(fp::wanted_mask(s.get()) & fp::category::all, 0x13);
  fp::delist_session(s.get(), 0);
  fp::delist_session(s.get(), 5);
  CHECK_EQ(s->session_bits, uint64_t{1} << 63);
  CHECK_EQ(s->keep_bits, 0);
  CHECK_EQ(s->max_chunks, 4);
  CHECK_EQ(s->detail_users, 1);
  CHECK_EQ(s->input_users, 1);
  fp::delist_session(s.get(), 63);
  CHECK_EQ(s->session_bits | s->local_bits | s->max_chunks, 0);
  CHECK_EQ(s->detail_users, 0);
  CHECK_EQ(s->input_users, 0);
  CHECK_EQ(global.max_chunks + spilling.max_chunks, 4);
}

TEST(the_mask_that_threads_see_may_send_them_the_slow_way) {
  const auto s = make_state(0);
  const auto publish = [&](uint32_t extra, uint32_t tls_static, uint32_t slow_clock) {
    s->extra_mask = extra;
    s->tls_static = tls_static;
    s->slow_clock = slow_clock;
    fp::publish_mask(s.get());
    CHECK_EQ(s->real_mask, extra);
    CHECK_EQ(fp::effective_mask(s.get()), extra);
    return s->mask;
  };
  CHECK_EQ(publish(0x3, 1, 0), 0x3);
  CHECK_EQ(publish(0x3, 0, 0), fp::mask_bit::dynamic);
  CHECK_EQ(publish(0x3, 1, 1), fp::mask_bit::dynamic);
  CHECK_EQ(publish(0, 0, 1), 0);
  CHECK_EQ(publish(0x3 | fp::mask_bit::callbacks, 0, 0),
           fp::mask_bit::dynamic | fp::mask_bit::callbacks);
  CHECK_EQ(publish(fp::mask_bit::callbacks, 1, 0), fp::mask_bit::callbacks);
}

TEST(recording_says_whether_this_thread_would_record) {
  const auto s = make_state(0);
  s->tls_static = 1;
  const Elected elected(s.get());
  CHECK(!fp::recording(fp::category::all));
  fp::set_mask_bit(fp::mask_bit::callbacks, true);
  CHECK_EQ(s->mask, fp::mask_bit::callbacks);
  CHECK(!fp::recording(fp::category::all));
  fp::set_mask_bit(fp::category::op, true);
  CHECK_EQ(s->mask, fp::mask_bit::callbacks | fp::category::op);
  CHECK(fp::recording(fp::category::op));
  CHECK(fp::recording(fp::category::op | fp::category::user));
  CHECK(!fp::recording(fp::category::user));
  fp::set_mask_bit(fp::category::op, false);
  CHECK_EQ(s->mask, fp::mask_bit::callbacks);
  fp::set_mask_bit(fp::mask_bit::local, true);
  CHECK(!fp::recording(fp::category::user));
  fp::thread_block()->mask = fp::category::user;
  CHECK(fp::recording(fp::category::user));
  CHECK(!fp::recording(fp::category::op));
  fp::set_mask_bit(fp::mask_bit::local, false);
  CHECK(!fp::recording(fp::category::user));  // the session has ended
  s->slow_clock = 1;
  fp::set_mask_bit(fp::category::op, true);
  CHECK_EQ(s->mask, fp::mask_bit::dynamic | fp::mask_bit::callbacks);
  CHECK(fp::recording(fp::category::op));
  CHECK(!fp::recording(fp::category::user));
  fp::set_mask_bit(fp::mask_bit::local, true);
  CHECK(fp::recording(fp::category::user));
}

TEST(the_barrier_is_exact_unless_forbidden) {
  const auto s = make_state();
  {
    const Variable forbid("FASTPROF_NO_MEMBARRIER", "");
    CHECK(!fp::process_barrier(s.get()));
    CHECK_EQ(s->membarrier, 2);
  }
  CHECK(!fp::process_barrier(s.get()));  // only the first call asks
  const Variable allow("FASTPROF_NO_MEMBARRIER", nullptr);
  s->membarrier = 0;
  const bool exact = fp::platform::register_fence();
  CHECK_EQ(fp::process_barrier(s.get()), exact);
  CHECK_EQ(s->membarrier, exact ? 1 : 2);
}

TEST(a_process_has_a_mark_of_its_own) {
  const uint64_t mark = fp::process_mark();
  CHECK_EQ(mark, static_cast<uint64_t>(::getpid()));
  CHECK_EQ(fp::process_mark(), mark);
  CHECK_EQ(in_child([&] {
             const uint64_t own = fp::process_mark();
             return own != mark && own == static_cast<uint64_t>(::getpid()) ? 0 : 1;
           }),
           0);
  // Without the page, the system is asked.
  uint64_t* page = fp::g_process_page;
  const uint32_t refused = fp::g_process_page_refused;
  CHECK(page != nullptr || refused != 0);
  fp::g_process_page = nullptr;
  fp::g_process_page_refused = 1;
  CHECK_EQ(fp::process_mark(), mark);
  CHECK(fp::g_process_page == nullptr);
  fp::g_process_page = page;
  fp::g_process_page_refused = refused;
}
