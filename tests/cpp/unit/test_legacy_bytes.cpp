// SPDX-License-Identifier: Apache-2.0
// The byte formats: round trip, layout, and that neither truncated nor mutated bytes do harm.
#include <random>

#include "../../doubles/fake_device_stubs.hpp"
#include "../legacy_checks.hpp"
#include "fastprof/legacy/event_bytes.hpp"

using namespace fastprof;

namespace {

bool same(const LegacyEvent& a, const LegacyEvent& b) {
  return a.kind == b.kind && a.scope == b.scope && a.is_async == b.is_async && a.name == b.name &&
         a.node_id == b.node_id && a.device_index == b.device_index && a.thread_id == b.thread_id &&
         a.handle == b.handle && a.cpu_ns == b.cpu_ns && a.device_us == b.device_us &&
         a.cpu_memory_bytes == b.cpu_memory_bytes &&
         a.device_memory_bytes == b.device_memory_bytes && a.sequence_nr == b.sequence_nr &&
         a.forward_thread_id == b.forward_thread_id && a.flops == b.flops && a.shapes == b.shapes &&
         a.stack == b.stack && a.has_device_event() == b.has_device_event();
}

LegacyEvent full_event() {
  LegacyEvent event = make_event(LegacyEventKind::PushRange, std::string("a\"\n\0\xff", 5),
                                 0xFFFFFFFFFFFFFFFFu, 123456789, 7);
  event.scope = RecordScope::STATIC_RUNTIME_MODEL;
  event.is_async = true;
  event.is_remote = true;
  event.node_id = -5;
  event.device_index = 3;
  event.device_us = 77;
  event.cpu_memory_bytes = INT64_MIN;
  event.device_memory_bytes = INT64_MAX;
  event.sequence_nr = -2;
  event.forward_thread_id = 9;
  event.flops = 1ull << 63;
  event.shapes = {{2, 3}, {}, {-1}};
  event.stack = {"f.py(3): f", ""};
  return event;
}

LegacyEventLists sample() {
  LegacyEventLists lists(3);
  lists[0] = {full_event(), make_event(LegacyEventKind::PopRange, "", 4, 9)};
  lists[2] = {make_event(LegacyEventKind::Mark, "__start_profile", 0, 1),
              make_event(LegacyEventKind::MemoryAlloc, "", 0, 2),
              make_event(LegacyEventKind::OutOfMemory, "[OutOfMemory]", 0, 3)};
  return lists;
}

std::string error_of(std::string_view bytes) {
  LegacyEventLists lists(1);
  std::string error;
  if (try_decode_event_lists(bytes, &lists, &error)) return "(accepted)";
  CHECK(lists.empty());
  return error;
}

// Offsets into the bytes of a single event in a single list.
constexpr size_t kVersionAt = 8, kListsAt = 12, kPayloadAt = 16, kListAt = 24;
constexpr size_t kKindAt = 44, kScopeAt = 45, kBitsAt = 46;
constexpr size_t kDeviceIndexAt = 96, kDeviceUsAt = 100, kNameAt = 132;

std::string one_event() {
  return encode_event_lists({{full_event()}});
}

std::string patched(std::string bytes, size_t at, uint64_t value, int width) {
  for (int i = 0; i < width; ++i)
    bytes[at + static_cast<size_t>(i)] =
        static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  return bytes;
}

}  // namespace

TEST(lists_come_back_as_they_were_sent_and_remote) {
  const LegacyEventLists sent = sample();
  const LegacyEventLists received = decode_event_lists(encode_event_lists(sent));
  CHECK_EQ(received.size(), sent.size());
  for (size_t l = 0; l < sent.size() && l < received.size(); ++l) {
    CHECK_EQ(received[l].size(), sent[l].size());
    for (size_t e = 0; e < sent[l].size() && e < received[l].size(); ++e) {
      CHECK(same(sent[l][e], received[l][e]));
      CHECK(received[l][e].is_remote);
    }
  }
  CHECK(encode_event_lists(received) == encode_event_lists(sent));
  CHECK_EQ(decode_event_lists(encode_event_lists({})).size(), 0u);
  CHECK_EQ(decode_event_lists(encode_event_lists({{}, {}})).size(), 2u);
}

TEST(the_layout_is_the_documented_one) {
  const std::string bytes = one_event();
  CHECK(bytes.substr(0, 8) == "FPLEVT\r\n");
  CHECK_EQ(static_cast<int>(bytes[kVersionAt]), 1);
  CHECK_EQ(static_cast<int>(bytes[kListsAt]), 1);
  CHECK_EQ(static_cast<size_t>(static_cast<unsigned char>(bytes[kPayloadAt])), bytes.size() - 24);
  CHECK_EQ(static_cast<size_t>(static_cast<unsigned char>(bytes[kListAt])), bytes.size() - 32);
  CHECK_EQ(static_cast<int>(bytes[kKindAt]), 1);
  CHECK_EQ(static_cast<int>(bytes[kScopeAt]), 9);
  CHECK_EQ(static_cast<int>(bytes[kBitsAt]), 3);
  CHECK_EQ(static_cast<int>(bytes[kDeviceIndexAt]), 3);
  CHECK_EQ(static_cast<int>(bytes[kDeviceUsAt]), 77);
  CHECK_EQ(static_cast<int>(bytes[kNameAt]), 5);
  LegacyEvent bare = make_event(LegacyEventKind::Mark, "", 0, 1);
  CHECK_EQ(encode_event_lists({{bare}}).size(), 24u + 16u + 104u);
}

TEST(what_no_receiver_accepts_is_not_sent) {
  LegacyEvent event = make_event(LegacyEventKind::Mark, "bad", 0, 0);
  CHECK_MESSAGE(ValueError, "event 'bad' cannot be serialised: cpu_ns must be greater than 0",
                encode_event_lists({{event}}));
  event.cpu_ns = 1;
  event.is_remote = true;
  event.device_index = 0;
  CHECK_MESSAGE(ValueError, "needs device_us of 0 or more", encode_event_lists({{event}}));
}

TEST(every_truncation_is_refused) {
  const std::string good = encode_event_lists(sample());
  for (size_t length = 0; length < good.size(); ++length) {
    // A heap copy of exact size, so that a sanitizer sees a read past the end.
    const std::vector<char> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(length));
    const std::string error = error_of(std::string_view(cut.data(), cut.size()));
    CHECK(error.find("remote events: at byte ") == 0);
  }
}

TEST(random_mutations_are_refused_or_read_as_something_valid) {
  std::mt19937_64 random(20240117);
  const std::string bases[] = {encode_event_lists(sample()), one_event(),
                               encode_event_lists({{}, {}})};
  const uint64_t extremes[] = {0,          1,          0x7F,       0xFF, 0x7FFFFFFF,
                               0xFFFFFFFF, 1ull << 32, 1ull << 63, ~0ull};
  size_t accepted = 0, refused = 0;
  for (int round = 0; round < 100000; ++round) {
    std::string bytes = bases[random() % 3];
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits && !bytes.empty(); ++i) {
      const size_t at = random() % bytes.size();
      switch (random() % 6) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
          break;
        case 2:
          bytes.erase(at, 1 + random() % 9);
          break;
        case 3:
          bytes.insert(at, 1 + random() % 9, static_cast<char>(random()));
          break;
        case 4: {
          const uint64_t value = extremes[random() % 9];
          const size_t width = random() % 2 == 0 ? 4 : 8;
          if (at + width <= bytes.size())
            bytes = patched(bytes, at, value, static_cast<int>(width));
          break;
        }
        default:
          bytes.resize(at);
      }
    }
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const std::string_view view(exact.data(), exact.size());
    LegacyEventLists lists;
    std::string error;
    if (try_decode_event_lists(view, &lists, &error)) {
      ++accepted;
      // Accepted bytes are valid: writing them again gives the same bytes.
      CHECK(encode_event_lists(lists) == bytes);
    } else {
      ++refused;
      CHECK(lists.empty());
      CHECK(error.find("remote events: at byte ") == 0);
    }
  }
  CHECK(accepted > 2500);
  CHECK(refused > 2500);
}

TEST(more_bytes_than_are_accepted_are_refused) {
  const std::string bytes = one_event();
  LegacyEventLists lists;
  std::string error;
  CHECK(try_decode_event_lists(bytes, &lists, &error, bytes.size()) && lists.size() == 1);
  CHECK(!try_decode_event_lists(bytes, &lists, &error, bytes.size() - 1) && lists.empty());
  CHECK(error.find(" bytes are more than the ") != std::string::npos);
}

TEST(configurations_come_back_and_faults_are_refused) {
  ProfilerConfig config(ProfilerState::CUDA);
  config.with_flops = true;
  config.report_input_shapes = true;
  config.trace_id = "trace \xF0\x9F\x98\x80";
  const std::string bytes = encode_profiler_config(config);
  const ProfilerConfig back = decode_profiler_config(bytes);
  CHECK(back.state == config.state && back.with_flops && back.report_input_shapes);
  CHECK(!back.profile_memory && !back.with_stack && !back.with_modules);
  CHECK_EQ(back.trace_id, config.trace_id);
  CHECK_EQ(static_cast<int>(bytes[12]), 2);      // state
  CHECK_EQ(static_cast<int>(bytes[13]), 1 + 8);  // shapes and flops
  const ProfilerConfig last(ProfilerState::PRIVATEUSE1);
  CHECK(decode_profiler_config(encode_profiler_config(last)).state == ProfilerState::PRIVATEUSE1);
  CHECK(decode_profiler_config(patched(bytes, 13, 2, 1)).profile_memory);
  CHECK(decode_profiler_config(patched(bytes, 13, 4, 1)).with_stack);
  CHECK(decode_profiler_config(patched(bytes, 13, 16, 1)).with_modules);
  for (int bit = 0; bit < 5; ++bit)
    CHECK(encode_profiler_config(decode_profiler_config(patched(bytes, 13, 1ull << bit, 1))) ==
          patched(bytes, 13, 1ull << bit, 1));
  CHECK_MESSAGE(FormatError, "profiler configuration: at byte 13: unknown profiler state 6",
                decode_profiler_config(patched(bytes, 12, 6, 1)));
  CHECK_MESSAGE(FormatError, "unknown option bits 32",
                decode_profiler_config(patched(bytes, 13, 32, 1)));
  CHECK_MESSAGE(FormatError, "version 9 is newer", decode_profiler_config(patched(bytes, 8, 9, 4)));
  CHECK_MESSAGE(FormatError, "1 bytes follow", decode_profiler_config(bytes + "x"));
  for (size_t length = 0; length < bytes.size(); ++length)
    CHECK_THROWS(FormatError, decode_profiler_config(bytes.substr(0, length)));
  CHECK_MESSAGE(ValueError, "state KINETO cannot be serialised",
                encode_profiler_config(ProfilerConfig(ProfilerState::KINETO)));
}
