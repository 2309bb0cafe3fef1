// SPDX-License-Identifier: Apache-2.0
// Numbers that libraries of one ABI major and readers of backing files share, and what a State and
// a site contain before anything is recorded.
#include <cstring>
#include <string_view>

#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;

namespace {

// The value of an enumerator as others read it.
template <class Enum>
long long number(Enum value) {
  return static_cast<long long>(value);
}

}  // namespace

TEST(numbers_of_sites_and_records) {
  CHECK_EQ(number(fp::SiteKind::range), 0);
  CHECK_EQ(number(fp::SiteKind::async_range), 1);
  CHECK_EQ(number(fp::SiteKind::mark), 2);
  CHECK_EQ(number(fp::SiteKind::counter), 3);
  CHECK_EQ(number(fp::SiteKind::flow_begin), 4);
  CHECK_EQ(number(fp::SiteKind::flow_end), 5);
  CHECK_EQ(number(fp::SiteKind::memory), 6);
  CHECK_EQ(number(fp::SiteKind::out_of_memory), 7);
  CHECK_EQ(number(fp::SiteKind::session_membership), 8);
  CHECK_EQ(number(fp::ArgType::int64), 0);
  CHECK_EQ(number(fp::ArgType::uint64), 1);
  CHECK_EQ(number(fp::ArgType::float64), 2);
  CHECK_EQ(number(fp::ArgType::boolean), 3);
  CHECK_EQ(number(fp::ArgType::string), 4);
  CHECK_EQ(number(fp::ArgType::pointer), 5);
  CHECK_EQ(fp::kMaxArgs, 12);
  CHECK_EQ(fp::site_flag::reclaimable, 1);
  CHECK_EQ(fp::site_flag::end_only, 2);
  CHECK_EQ(alignof(fp::Site), 16);
  CHECK_EQ(number(fp::RecordTag::slot), 0);
  CHECK_EQ(number(fp::RecordTag::late), 1);
  CHECK_EQ(number(fp::RecordTag::cross_thread_end), 2);
  CHECK_EQ(number(fp::RecordTag::async_end), 3);
  CHECK_EQ(number(fp::RecordTag::detailed), 4);
  CHECK_EQ(fp::kTagMask, 15);
  CHECK_EQ(number(fp::DetailType::counters_begin), 1);
  CHECK_EQ(number(fp::DetailType::counters_end), 2);
  CHECK_EQ(number(fp::DetailType::cpp_stack), 3);
  CHECK_EQ(number(fp::DetailType::python_stack), 4);
  CHECK_EQ(number(fp::DetailType::op), 5);
  CHECK_EQ(number(fp::DetailType::op_inputs), 6);
  CHECK_EQ(number(fp::DetailType::json), 7);
  CHECK_EQ(number(fp::DetailType::nothing), 8);
  CHECK_EQ(number(fp::DetailType::modules), 9);
  CHECK_EQ(number(fp::DetailType::op_inputs_ref), 10);
  CHECK_EQ(number(fp::DetailType::overload), 11);
}

TEST(numbers_of_details) {
  CHECK_EQ(fp::kMaxCounters, 4);
  CHECK_EQ(fp::kMaxCppFrames, 128);
  CHECK_EQ(fp::counter_exclude::user, 1);
  CHECK_EQ(fp::counter_exclude::kernel, 2);
  CHECK_EQ(fp::counter_exclude::hypervisor, 4);
  CHECK_EQ(number(fp::StackMethod::unwind_tables), 0);
  CHECK_EQ(number(fp::StackMethod::frame_pointers), 1);
  CHECK_EQ(fp::detail_block_word(fp::DetailType::op, 3), 0x30005u);
  CHECK_EQ(fp::detail_block_word(fp::DetailType::json, 0xFFFF, 0x89ABCDEF), 0x89ABCDEFFFFF0007u);
}

TEST(numbers_of_the_state) {
  CHECK_EQ(fp::kChunkBytes, 65536);
  CHECK_EQ(fp::kSlabBytes, 2097152);
  CHECK_EQ(fp::kChunksPerSlab, 31);
  CHECK_EQ(fp::kMaxSessions, 64);
  CHECK_EQ(fp::kChunkCapacity, 2725);
  CHECK_EQ(number(fp::ChunkPlace::free), 0);
  CHECK_EQ(number(fp::ChunkPlace::current), 1);
  CHECK_EQ(number(fp::ChunkPlace::full), 2);
  CHECK_EQ(fp::mask_bit::local, 0x80000000u);
  CHECK_EQ(fp::mask_bit::dynamic, 0x40000000u);
  CHECK_EQ(fp::mask_bit::callbacks, 0x20000000u);
  CHECK_EQ(fp::mask_bit::detail, 0x10000000u);
  CHECK_EQ(fp::mask_bit::special, 0xF0000000u);
  CHECK_EQ(fp::kEndRecord, 0x80000000u);
  CHECK_EQ(fp::thread_flag::busy, 1);
  CHECK_EQ(fp::thread_flag::retired, 2);
  CHECK_EQ(fp::thread_flag::in_signal, 4);
  CHECK_EQ(number(fp::OverflowPolicy::drop_newest), 0);
  CHECK_EQ(number(fp::OverflowPolicy::overwrite_oldest), 1);
  CHECK_EQ(number(fp::OverflowPolicy::spill_to_file), 2);
  CHECK_EQ(fp::kMaxKnots, 2048);
  CHECK_EQ(fp::spill_state::active, 1);
  CHECK_EQ(fp::spill_state::failing, 2);
  CHECK_EQ(fp::spill_state::stalled, 4);
  CHECK_EQ(fp::spill_state::ending, 8);
}

TEST(numbers_of_backing_files) {
  CHECK_EQ(sizeof fp::kBackingMagic, 16);
  CHECK(std::memcmp(fp::kBackingMagic, "fastprof\2store\r\n", 16) == 0);
  CHECK_EQ(fp::kBackingFormat, 1);
  CHECK_EQ(fp::kDirectoryMagic, 0x46504431);
  CHECK_EQ(fp::kChunkMagic, 0x46504331);
  CHECK_EQ(fp::kSlabMagic, 0x46505331);
  CHECK_EQ(sizeof fp::BackingHeader::magic, 16);
  CHECK_EQ(offsetof(fp::BackingHeader, boot_id), 136);
  CHECK_EQ(offsetof(fp::BackingHeader, process_name), 176);
  CHECK_EQ(offsetof(fp::BackingHeader, reserved), 240);
  CHECK_EQ(offsetof(fp::FileSession, dropped), 32);
  CHECK_EQ(offsetof(fp::FileSession, reserved), 160);
  CHECK_EQ(fp::kFileKnots, 500);
  CHECK_EQ(fp::kFileSessionsAt, 4096);
  CHECK_EQ(fp::kKnotBanksAt, 16384);
  CHECK_EQ(fp::kFirstDirectoryAt, 65536);
  CHECK_EQ(number(fp::EntryType::site), 1);
  CHECK_EQ(number(fp::EntryType::text), 2);
  CHECK_EQ(number(fp::EntryType::module), 3);
  CHECK_EQ(number(fp::EntryType::metadata), 4);
  CHECK_EQ(number(fp::EntryType::stack), 5);
  CHECK_EQ(offsetof(fp::ChunkLabel, name), 32);
  CHECK_EQ(sizeof fp::ChunkLabel::name, 64);
}

// What a later library finds in a State that an earlier one left as it was made: 0 is "not set".
TEST(a_new_state_is_zero_but_for_what_is_listed) {
  const auto s = std::make_unique<fp::State>();
  CHECK(std::memcmp(s->magic, "fastprof\1state\r\n", 16) == 0);
  CHECK_EQ(s->size_bytes, sizeof(fp::State));
  CHECK_EQ(s->node_id, -1);
  CHECK_EQ(s->max_name_bytes, 67108864);
  CHECK_EQ(s->max_name_length, 65536);
  std::memset(s->magic, 0, sizeof s->magic);
  s->abi_major = s->abi_minor = 0;
  s->size_bytes = 0;
  s->node_id = 0;
  s->max_name_bytes = s->max_name_length = 0;
  std::memset(static_cast<void*>(&s->lock), 0, sizeof s->lock);  // the C library's
  std::memset(static_cast<void*>(&s->drain_lock), 0, sizeof s->drain_lock);
  const auto* bytes = reinterpret_cast<const unsigned char*>(s.get());
  size_t nonzero = 0;
  for (size_t i = 0; i < sizeof(fp::State); ++i) nonzero += bytes[i] != 0;
  CHECK_EQ(nonzero, 0);
}

TEST(category_names_of_sites) {
  const auto name = [](uint32_t mask) { return std::string_view(fp::default_category_name(mask)); };
  CHECK_EQ(name(fp::category::user), "user_annotation");
  CHECK_EQ(name(fp::category::op), "cpu_op");
  CHECK_EQ(name(fp::category::mark), "cpu_instant_event");
  CHECK_EQ(name(fp::category::memory), "cpu_instant_event");
  CHECK_EQ(name(fp::category::counter), "counter");
  CHECK_EQ(name(fp::category::flow), "flow");
  CHECK_EQ(name(fp::category::async), "user_annotation");
  CHECK_EQ(name(fp::category::python_call), "python_function");
  CHECK_EQ(name(fp::category::custom0), "user_annotation");
  CHECK_EQ(name(fp::category::user | fp::category::op), "user_annotation");
  CHECK_EQ(name(fp::category::async | fp::category::python_call), "user_annotation");
}

TEST(a_site_has_units_for_its_arguments) {
  const auto made = [](fp::SiteKind kind, uint8_t arguments) {
    return fp::make_site(kind, fp::category::memory, fp::RecordScope::FUNCTION, "n", "f", "g", 7,
                         arguments);
  };
  CHECK_EQ(made(fp::SiteKind::range, 0).arg_units, 0);
  CHECK_EQ(made(fp::SiteKind::range, 1).arg_units, 1);
  CHECK_EQ(made(fp::SiteKind::range, 3).arg_units, 1);
  CHECK_EQ(made(fp::SiteKind::range, 4).arg_units, 2);
  CHECK_EQ(made(fp::SiteKind::range, 12).arg_units, 4);
  CHECK_EQ(made(fp::SiteKind::memory, 0).arg_units, 1);
  CHECK_EQ(made(fp::SiteKind::out_of_memory, 0).arg_units, 1);
  const fp::Site plain = fp::make_site(fp::SiteKind::mark, fp::category::mark,
                                       fp::RecordScope::FUNCTION, "n", "f", "g", 7);
  CHECK_EQ(plain.arg_count, 0);
  CHECK(plain.arg_names == nullptr && plain.arg_types == nullptr);
  CHECK_EQ(plain.line, 7);
  CHECK_EQ(plain.color, 0);
  CHECK_EQ(plain.device_type, -1);
  CHECK_EQ(plain.device_index, -1);
  CHECK_EQ(plain.flags, 0);
  CHECK_EQ(std::string_view(fp::in_category(plain, "other").category_name), "other");
}

TEST(a_record_takes_its_slot_and_the_units_behind_it) {
  fp::Slot slots[8] = {};
  fp::Site site = range_site;
  const auto units = [&](fp::RecordTag tag, uint8_t arg_units, uint64_t detail_words) {
    site.arg_units = arg_units;
    slots[0].site = fp::site_word(&site, tag);
    // The DetailHeader is the first word behind the arguments; its upper half is reserved.
    reinterpret_cast<uint64_t*>(slots + 1)[arg_units * 3] = detail_words | uint64_t{5} << 32;
    return fp::record_units(slots);
  };
  CHECK_EQ(units(fp::RecordTag::slot, 0, 9), 1);
  CHECK_EQ(units(fp::RecordTag::slot, 4, 9), 5);
  CHECK_EQ(units(fp::RecordTag::late, 4, 9), 2);
  CHECK_EQ(units(fp::RecordTag::cross_thread_end, 4, 9), 2);
  CHECK_EQ(units(fp::RecordTag::async_end, 4, 9), 2);
  CHECK_EQ(units(fp::RecordTag::detailed, 0, 0), 2);
  CHECK_EQ(units(fp::RecordTag::detailed, 0, 2), 2);
  CHECK_EQ(units(fp::RecordTag::detailed, 0, 3), 3);
  CHECK_EQ(units(fp::RecordTag::detailed, 1, 2), 3);
  CHECK_EQ(units(fp::RecordTag::detailed, 2, 6), 6);
  // A tag that no version has: the reader goes on behind the slot.
  CHECK_EQ(units(static_cast<fp::RecordTag>(9), 4, 9), 1);
}

TEST(a_payload_fits_the_units_of_its_record) {
  using fp::payload_fits;
  using fp::SiteKind;
  CHECK(payload_fits(SiteKind::memory, 0, 1));
  CHECK(!payload_fits(SiteKind::memory, 0, 0));
  CHECK(!payload_fits(SiteKind::memory, 0, 2));
  CHECK(payload_fits(SiteKind::out_of_memory, 0, 1));
  CHECK(!payload_fits(SiteKind::out_of_memory, 0, 0));
  CHECK(payload_fits(SiteKind::counter, 1, 0));
  CHECK(!payload_fits(SiteKind::counter, 0, 1));
  CHECK(!payload_fits(SiteKind::counter, 2, 1));
  CHECK(payload_fits(SiteKind::range, 3, 1));
  CHECK(!payload_fits(SiteKind::range, 4, 1));
  CHECK(payload_fits(SiteKind::range, 0, 0));
  CHECK(!payload_fits(SiteKind::range, 1, 0));
}

TEST(task_words_hold_id_number_and_end) {
  CHECK_EQ((fp::TaskWord{3, 5, false}.packed()), 0x300000005u);
  CHECK_EQ((fp::TaskWord{3, 5, true}.packed()), 0x380000005u);
  CHECK_EQ(fp::TaskWord::kMaxNumber, 0x7FFFFFFFu);
  const fp::TaskWord word = fp::TaskWord::unpack(0xABCD00018000002Au);
  CHECK_EQ(word.id, 0xABCD0001u);
  CHECK_EQ(word.number, 42);
  CHECK(word.ended);
  CHECK(!fp::TaskWord::unpack(0x17FFFFFFFu).ended);
  CHECK_EQ(fp::TaskWord::unpack(0x17FFFFFFFu).number, 0x7FFFFFFFu);
  const fp::TaskWord none;
  CHECK_EQ(none.packed(), 0);
  // A task switch is a mark of this category alone.
  CHECK(fp::is_task_switch(&fp::task_switch_site));
  CHECK(!fp::is_task_switch(&mark_site));
  fp::Site site = fp::task_switch_site;
  site.kind = fp::SiteKind::range;
  CHECK(!fp::is_task_switch(&site));
  CHECK_EQ(fp::task_switch_site.line, 0);
}

TEST(a_thread_repeats_its_task_while_its_name_is_known) {
  const auto s = make_state();
  fp::Track track{};
  fp::Slot slots[2] = {};
  CHECK(fp::repeat_task(s.get(), &track, slots) == slots);
  CHECK_EQ(slots[0].begin, 0);
  const fp::Site named = fp::in_category(fp::task_switch_site, "mine");
  track.task_site = &named;
  track.task_word = 77;
  track.task_epoch = s->name_epoch = 4;
  CHECK(fp::repeat_task(s.get(), &track, slots) == slots + 1);
  CHECK(slots[0].begin != 0);
  CHECK_EQ(slots[0].end, 77);
  CHECK(fp::site_of(slots[0].site) == &named);
  s->name_epoch = 5;  // the name is gone
  CHECK(fp::repeat_task(s.get(), &track, slots) == slots + 1);
  CHECK_EQ(slots[0].end, 0);
  CHECK(fp::site_of(slots[0].site) == &fp::task_switch_site);
}

TEST(membership_is_of_a_session_not_of_its_slot) {
  const auto s = make_state();
  begin_session(s.get(), 3);  // id 13
  fp::Track track{};
  CHECK(!fp::belongs(s.get(), nullptr, 3));
  CHECK(!fp::belongs(s.get(), &track, 3));
  track.local_sessions = 1u << 3;
  CHECK(!fp::belongs(s.get(), &track, 3));  // the slot was another session's
  track.local_newest_id = 12;
  CHECK(!fp::belongs(s.get(), &track, 3));
  track.local_newest_id = 13;
  CHECK(fp::belongs(s.get(), &track, 3));
  CHECK(!fp::belongs(s.get(), &track, 2));
  CHECK(!fp::belongs(s.get(), &track, 4));
  CHECK_EQ(fp::live_local_sessions(s.get(), {1u << 3 | 1u << 4, 12}), 0);
  CHECK_EQ(fp::live_local_sessions(s.get(), {1u << 3 | 1u << 4, 13}), 8);
  s->sessions[3].live = 0;
  CHECK_EQ(fp::live_local_sessions(s.get(), {1u << 3, 13}), 0);
  const fp::LocalSessions none;
  CHECK_EQ(none.bits, 0);
  CHECK_EQ(none.newest_id, 0);

  CHECK_EQ(fp::membership_word(13, true), 27);
  CHECK_EQ(fp::membership_word(13, false), 26);
  fp::Slot slot{};
  fp::fill_membership(s.get(), &slot, 13, false);
  CHECK_EQ(slot.end, 26);
  CHECK(slot.begin != 0 && fp::site_of(slot.site) == &fp::membership_site);
  CHECK_EQ(fp::membership_site.line, 0);
  fp::MembershipWalk local(13, true), global(13, false);
  CHECK(!local.inside && global.inside);
  local.apply(fp::membership_word(12, true));
  CHECK(!local.inside);
  local.apply(fp::membership_word(13, true));
  CHECK(local.inside);
  local.apply(fp::membership_word(14, false));
  CHECK(local.inside);
  local.apply(fp::membership_word(13, false));
  CHECK(!local.inside);
}

TEST(a_leader_is_followed_if_it_has_what_this_library_uses) {
  const auto s = make_state();
  CHECK(fp::can_follow(*s));
  s->size_bytes = sizeof(fp::State) + 1;
  CHECK(fp::can_follow(*s));
  s->size_bytes = sizeof(fp::State) - 1;
  CHECK(!fp::can_follow(*s));
  s->abi_minor = 3;
  CHECK(fp::leader_has(s.get(), 2));
  CHECK(fp::leader_has(s.get(), 3));
  CHECK(!fp::leader_has(s.get(), 4));
}

TEST(steps_of_a_coarse_counter) {
  // 24 MHz: 41.67 ns a step. In 1/256 ns: 10666.67 a step, rounded down.
  CHECK_EQ(fp::counter_step(0, 24000000), 0);
  CHECK_EQ(fp::counter_step(41, 24000000), 0);
  CHECK_EQ(fp::counter_step(42, 24000000), 10666);
  CHECK_EQ(fp::counter_step(83, 24000000), 10666);
  CHECK_EQ(fp::counter_step(84, 24000000), 21333);
  CHECK_EQ(fp::counter_step(125, 24000000), 32000);
  CHECK_EQ(fp::counter_step(5000000042, 24000000), 1280000010666);
  CHECK_EQ(fp::counter_step(3999999999, 1), 768000000000);
}

TEST(slow_stamps_never_repeat) {
  const auto s = make_state();
  s->slow_clock = 1;
  s->simulated_counter_hz = 1;  // one step a second: neighbours read the same
  const uint64_t first = fp::slow_ticks(s.get());
  CHECK_EQ(first % (uint64_t{256} * 1000000000), 0);
  s->last_slow_ticks = first + (uint64_t{1} << 50);  // ahead of the clock
  CHECK_EQ(fp::ticks(s.get()), first + (uint64_t{1} << 50) + 1);
  CHECK_EQ(fp::ordered_ticks(s.get()), first + (uint64_t{1} << 50) + 2);
  s->simulated_counter_hz = 0;
  s->last_slow_ticks = 0;
  const int64_t before = fp::platform::monotonic_ns();
  const auto ns = static_cast<int64_t>(fp::slow_ticks(s.get()) >> 8);
  CHECK(ns >= before && ns <= fp::platform::monotonic_ns());
}
