// SPDX-License-Identifier: Apache-2.0
// What is recorded: arguments, marks, counters, flows, memory, async and moved ranges, names,
// threads.
#include <pthread.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr fp::Site range_site = site_of_range("moved");
constexpr fp::Site async_site = site_of_async("async");

fp::SessionOptions overwriting(uint64_t chunks) {
  fp::SessionOptions options;
  options.max_bytes = chunks * 65536;
  options.overflow = fp::OverflowPolicy::overwrite_oldest;
  return options;
}

double as_double(uint64_t word) {
  double value;
  std::memcpy(&value, &word, 8);
  return value;
}

enum class Small : uint8_t { one = 1, many = 200 };

}  // namespace

TEST(sites_say_where_they_are) {
  Running session;
  const int line = __LINE__ + 1;
  { FASTPROF_RANGE("here"); }
  { FASTPROF_FUNCTION(); }
  const fp::Capture& capture = session.stop();
  const fp::SiteInfo& site = capture.sites[capture.site[0]];
  CHECK_EQ(site.line, line);
  CHECK(site.file.find("test_recorder_records.cpp") != std::string::npos);
  CHECK_EQ(site.function, __func__);
  CHECK_EQ(site.category, "user_annotation");
  CHECK(site.scope == fp::RecordScope::USER_SCOPE);
  const fp::SiteInfo& function = capture.sites[capture.site[1]];
  CHECK_EQ(function.name, __func__);
  CHECK(function.scope == fp::RecordScope::FUNCTION);
}

TEST(arguments_of_all_types) {
  Running session;
  {
    const std::string text = "made at run time";
    const int* pointer = reinterpret_cast<const int*>(0x1234);
    FASTPROF_RANGE_ARGS("six", "i", -5, "u", std::numeric_limits<uint64_t>::max(), "f", 2.5f, "b",
                        true, "s", text, "p", pointer);
    FASTPROF_RANGE_ARGS("one", "d", std::numeric_limits<double>::quiet_NaN());
    FASTPROF_RANGE_ARGS("three", "e", Small::many, "c", "literal", "l",
                        std::numeric_limits<int64_t>::min());
    FASTPROF_RANGE("none");
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 4);
  const fp::SiteInfo& six = capture.sites[capture.site[0]];
  CHECK_EQ(six.arg_names.size(), 6);
  CHECK_EQ(six.arg_names[5], "p");
  CHECK(six.arg_types[0] == fp::ArgType::int64 && six.arg_types[1] == fp::ArgType::uint64 &&
        six.arg_types[2] == fp::ArgType::float64 && six.arg_types[3] == fp::ArgType::boolean &&
        six.arg_types[4] == fp::ArgType::string && six.arg_types[5] == fp::ArgType::pointer);
  const uint64_t* words = &capture.payload_words[capture.payload[0]];
  CHECK_EQ(static_cast<int64_t>(words[0]), -5);
  CHECK_EQ(words[1], UINT64_MAX);
  CHECK_EQ(as_double(words[2]), 2.5);
  CHECK_EQ(words[3], 1);
  CHECK_EQ(capture.strings.at(words[4]), "made at run time");
  CHECK_EQ(words[5], 0x1234);
  CHECK(std::isnan(as_double(capture.payload_words[capture.payload[1]])));
  words = &capture.payload_words[capture.payload[2]];
  CHECK_EQ(words[0], 200);
  CHECK_EQ(capture.strings.at(words[1]), "literal");
  CHECK_EQ(static_cast<int64_t>(words[2]), std::numeric_limits<int64_t>::min());
  CHECK_EQ(capture.payload[3], fp::kNoPayload);
  CHECK_EQ(parent_name(capture, 3), "three");
}

TEST(arguments_at_every_place_of_a_chunk) {
  Running session;
  constexpr int kCount = 20000;
  for (int i = 0; i < kCount; ++i) {
    FASTPROF_RANGE_ARGS("args", "i", i, "j", 2 * i, "k", 3 * i, "l", 4 * i);  // three units
    if (i % 3 == 0) {
      FASTPROF_RANGE("plain");
    }
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(count_named(capture, "args"), kCount);
  int next = 0, wrong = 0;
  for (const size_t row : rows_named(capture, "args")) {
    for (uint64_t k = 0; k < 4; ++k)
      if (capture.payload_words[capture.payload[row] + k] != static_cast<uint64_t>(next) * (k + 1))
        ++wrong;
    ++next;
  }
  CHECK_EQ(wrong, 0);
}

TEST(instants) {
  Running session;
  {
    FASTPROF_RANGE("around");
    FASTPROF_MARK("mark");
    FASTPROF_COUNTER("int", -7);
    FASTPROF_COUNTER("float", 0.125);
    FASTPROF_COUNTER("bool", false);
    FASTPROF_FLOW_BEGIN(0xFEDCBA9876543210u);
    FASTPROF_FLOW_END(0xFEDCBA9876543210u);
    fp::record_memory(reinterpret_cast<void*>(0x40), 128, 1000, 4000, 1, 3);
    fp::record_memory(reinterpret_cast<void*>(0x40), -128, 872, 4000, 0, -1);
    fp::record_out_of_memory(1 << 20, 5, 6, 1, 2);
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 10);
  for (size_t i = 1; i < capture.size(); ++i) {
    CHECK_EQ(capture.parent[i], 0);
    CHECK_EQ(capture.start_ns[i], capture.end_ns[i]);
    CHECK(finished(capture, i));
  }
  const auto word = [&](size_t row, size_t k) {
    return capture.payload_words[capture.payload[row] + k];
  };
  const auto site = [&](size_t row) -> const fp::SiteInfo& {
    return capture.sites[capture.site[row]];
  };
  CHECK(capture.kind[1] == fp::SiteKind::mark);
  CHECK_EQ(static_cast<int64_t>(word(2, 0)), -7);
  CHECK(site(2).arg_types.at(0) == fp::ArgType::int64);
  CHECK_EQ(as_double(word(3, 0)), 0.125);
  CHECK(site(3).arg_types.at(0) == fp::ArgType::float64);
  CHECK_EQ(word(4, 0), 0);
  CHECK(site(4).arg_types.at(0) == fp::ArgType::boolean);
  CHECK(capture.kind[5] == fp::SiteKind::flow_begin && capture.kind[6] == fp::SiteKind::flow_end);
  CHECK_EQ(word(5, 0), 0xFEDCBA9876543210u);
  CHECK_EQ(word(6, 0), 0xFEDCBA9876543210u);
  // Address, bytes and totals; then type and index of the device.
  const auto memory = [&](size_t row, size_t words) {
    std::vector<int64_t> all;
    for (size_t k = 0; k < words; ++k) all.push_back(static_cast<int64_t>(word(row, k)));
    all.insert(all.end(), {site(row).device_type, site(row).device_index});
    return all;
  };
  CHECK(memory(7, 4) == (std::vector<int64_t>{0x40, 128, 1000, 4000, 1, 3}));
  CHECK(memory(8, 4) == (std::vector<int64_t>{0x40, -128, 872, 4000, 0, -1}));
  CHECK(memory(9, 3) == (std::vector<int64_t>{1 << 20, 5, 6, 1, 2}));
}

TEST(neighbours_are_siblings_and_a_parent_holds_its_children) {
  Running session;
  for (int i = 0; i < 1000; ++i) {
    FASTPROF_RANGE("parent");
    { FASTPROF_RANGE("left"); }
    { FASTPROF_RANGE("right"); }
    {
      FASTPROF_RANGE("deep");
      FASTPROF_RANGE("deeper");
    }
  }
  const fp::Capture& capture = session.stop();
  int wrong = 0;
  for (size_t i = 0; i < capture.size(); ++i) {
    const std::string& name = name_of(capture, i);
    const std::string parent = parent_name(capture, i);
    const std::string expected = name == "parent" ? "" : name == "deeper" ? "deep" : "parent";
    if (parent != expected) ++wrong;
    if (capture.parent[i] >= 0) {
      const auto p = static_cast<size_t>(capture.parent[i]);
      if (capture.start_ns[i] < capture.start_ns[p] || capture.end_ns[i] > capture.end_ns[p])
        ++wrong;
    }
  }
  CHECK_EQ(wrong, 0);
}

TEST(async_work_that_ends_here_there_or_never) {
  Running session;
  const auto here = fp::begin_async(async_site);
  const auto there = fp::begin_async(async_site);
  const auto never = fp::begin_async(async_site);
  CHECK(bool(here) && bool(there) && bool(never));
  fp::end_async(here);
  std::thread([&] {
    fp::set_thread_name("ender");
    fp::end_async(there);
  }).join();
  session.stop();
  fp::end_async(never);  // no session is active
  const fp::Capture& capture = session.capture();
  fp::validate_capture(capture);
  CHECK_EQ(capture.size(), 3);
  CHECK(finished(capture, 0) && (capture.flags[0] & fp::event_flag::cross_thread_end) == 0);
  CHECK(finished(capture, 1) && (capture.flags[1] & fp::event_flag::cross_thread_end) != 0);
  CHECK(!finished(capture, 2));
  CHECK_EQ(capture.cross_thread_end_row.size(), 1);
  CHECK_EQ(capture.cross_thread_end_row.at(0), 1);
  CHECK_EQ(capture.tracks.at(capture.cross_thread_end_track.at(0)).name, "ender");
  CHECK(capture.end_ns[1] >= capture.start_ns[1]);
}

TEST(async_work_across_sessions) {
  fp::Session first, second;
  first.start();
  const auto work = fp::begin_async(async_site);
  second.start();
  first.stop();
  fp::end_async(work);
  second.stop();
  CHECK_EQ(first.capture().size(), 1);
  CHECK(!finished(first.capture(), 0));
  CHECK_EQ(second.capture().size(), 0);  // begun before it
}

TEST(moved_ranges_end_on_another_thread) {
  Running session;
  const auto outer = fp::begin_range(range_site);
  const auto same = fp::begin_range(range_site);
  fp::end_range(same);
  std::thread([&] { fp::end_range(outer); }).join();
  { FASTPROF_RANGE("next"); }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 3);
  CHECK((capture.flags[0] & fp::event_flag::cross_thread_end) != 0);
  CHECK(finished(capture, 0) && finished(capture, 1));
  CHECK_EQ(capture.cross_thread_end_row.size(), 1);
  CHECK_EQ(capture.parent[1], -1);  // a moved range is never a parent
  CHECK_EQ(capture.parent[2], -1);
}

TEST(many_moved_ranges_keep_their_ends) {
  Running session;
  constexpr size_t kCount = 5000;
  std::vector<fp::RangeHandle> handles;
  for (size_t i = 0; i < kCount; ++i) handles.push_back(fp::begin_range(range_site));
  std::thread even([&] {
    for (size_t i = 0; i < kCount; i += 2) fp::end_range(handles[i]);
  });
  std::thread odd([&] {
    for (size_t i = 1; i < kCount; i += 2) fp::end_range(handles[i]);
  });
  even.join();
  odd.join();
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), kCount);
  CHECK_EQ(capture.cross_thread_end_row.size(), kCount);
  size_t wrong = 0;
  for (size_t i = 0; i < kCount; ++i) {
    if (!finished(capture, i) || capture.cross_thread_end_row.at(i) != i) ++wrong;
    if (i >= 2 && capture.cross_thread_end_track[i] != capture.cross_thread_end_track[i % 2])
      ++wrong;
  }
  CHECK_EQ(wrong, 0);
  CHECK(capture.cross_thread_end_track[0] != capture.cross_thread_end_track[1]);
}

TEST(a_range_whose_chunk_was_recycled_ends_as_a_record_of_its_own) {
  Running session(overwriting(2));
  constexpr size_t kCount = 20000;
  {
    FASTPROF_RANGE("long");
    for (size_t i = 0; i < kCount; ++i) {
      FASTPROF_RANGE("short");
    }
  }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(count_named(capture, "long"), 1);
  const size_t row = rows_named(capture, "long").at(0);
  CHECK(finished(capture, row));
  CHECK_EQ((capture.flags[row] & fp::event_flag::cross_thread_end), 0);
  CHECK_EQ(row, 0);
  CHECK_EQ(parent_name(capture, capture.size() - 1), "long");
  // Counted once: as a row, no longer as overwritten.
  CHECK_EQ(capture.size() + capture.dropped_total(), kCount + 1);
}

TEST(async_ends_whose_begin_was_overwritten_stand_alone) {
  Running session(overwriting(2));
  constexpr size_t kAsync = 500, kCount = 20000;
  std::vector<fp::AsyncHandle> works;
  for (size_t i = 0; i < kAsync; ++i) works.push_back(fp::begin_async(async_site));
  for (size_t i = 0; i < kCount; ++i) {
    FASTPROF_RANGE("short");
  }
  std::thread([&] {
    for (const auto& work : works) fp::end_async(work);
  }).join();
  const fp::Capture& capture = session.stop();
  const auto rows = rows_named(capture, "async");
  CHECK_EQ(rows.size(), kAsync);
  CHECK_EQ(capture.cross_thread_end_row.size(), kAsync);
  for (const size_t row : rows)
    if (!finished(capture, row)) CHECK(false);
  CHECK_EQ(capture.size() + capture.dropped_total(), kCount + kAsync);
}

TEST(an_end_that_finds_no_room_is_no_event) {
  Running session(with(&Options::max_bytes, 65536));
  const auto work = fp::begin_async(async_site);
  constexpr size_t kCount = 5000;
  for (size_t i = 0; i < kCount; ++i) {
    FASTPROF_RANGE("short");
  }
  fp::end_async(work);
  const fp::Capture& capture = session.stop();
  CHECK_EQ(count_named(capture, "async"), 1);
  CHECK(!finished(capture, rows_named(capture, "async").at(0)));
  CHECK_EQ(dropped(capture, fp::DropCause::ends), 1);
  CHECK_EQ(capture.size() + capture.dropped_total(), kCount + 1);
}

TEST(ends_elsewhere_do_not_leak_into_thread_local_sessions) {
  Running wide;
  Running local(with(&Options::thread_local_only, true));
  std::thread([] {
    const auto work = fp::begin_async(async_site);
    const auto moved = fp::begin_range(range_site);
    std::thread([&] {
      fp::end_async(work);
      fp::end_range(moved);
    }).join();
  }).join();
  const auto mine = fp::begin_async(async_site);
  fp::end_async(mine);
  local.stop();
  wide.stop();
  CHECK_EQ(local.capture().size(), 1);
  CHECK(finished(local.capture(), 0));
  CHECK_EQ(wide.capture().size(), 3);
}

TEST(dynamic_names) {
  Running session;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "dyn " + std::to_string(i % 100);
    FASTPROF_RANGE_DYNAMIC(name);
  }
  { FASTPROF_RANGE_DYNAMIC(std::string("quote\" \\ \x01 \xF0\x9F\x94\xA5 \xFF")); }
  { FASTPROF_RANGE_DYNAMIC(""); }
  const std::string huge(60000, 'n');
  { FASTPROF_RANGE_DYNAMIC(huge); }
  { FASTPROF_RANGE_DYNAMIC(huge + "2"); }
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), 304);
  CHECK_EQ(count_named(capture, "dyn 7"), 3);
  CHECK_EQ(count_named(capture, "quote\" \\ \x01 \xF0\x9F\x94\xA5 \xFF"), 1);
  CHECK_EQ(count_named(capture, ""), 1);
  CHECK_EQ(count_named(capture, huge), 1);
  CHECK_EQ(count_named(capture, huge + "2"), 1);
}

TEST(names_by_many_threads_are_interned_once) {
  Running session;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 3000; ++i) {
        FASTPROF_RANGE_DYNAMIC("shared " + std::to_string(i));
      }
    });
  for (auto& thread : threads) thread.join();
  session.stop();
  CHECK_EQ(session.capture().size(), 12000);
  CHECK_EQ(session.capture().sites.size(), 3000);
}

TEST(thread_names) {
  Running session;
  std::thread([] {
    pthread_setname_np(pthread_self(), "kernel name");
    FASTPROF_MARK("a");
  }).join();
  std::thread([] {
    fp::set_thread_name("given");
    FASTPROF_MARK("b");
    fp::set_thread_name(std::string(200, 'z'));
  }).join();
  const fp::Capture& capture = session.stop();
  CHECK_EQ(capture.tracks.at(capture.track[rows_named(capture, "a").at(0)]).name, "kernel name");
  CHECK_EQ(capture.tracks.at(capture.track[rows_named(capture, "b").at(0)]).name,
           std::string(63, 'z'));
  CHECK(!capture.tracks.at(0).alive);
  CHECK(!capture.process_name.empty());
}

TEST(exceptions_end_ranges) {
  Running session;
  for (int i = 0; i < 100; ++i) {
    try {
      FASTPROF_RANGE("outer");
      FASTPROF_RANGE_ARGS("inner", "i", i);
      throw i;
    } catch (int) {
    }
  }
  session.stop();
  CHECK_EQ(session.capture().size(), 200);
  for (size_t i = 0; i < 200; ++i) CHECK(finished(session.capture(), i));
}
