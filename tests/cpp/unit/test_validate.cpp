// SPDX-License-Identifier: Apache-2.0
// validate_capture: names the row and what is wrong with it. Other tests trust it to notice.
#include <cstdio>
#include <functional>
#include <string>

#include "../check.hpp"
#include "capture_builder.hpp"
#include "fastprof/capture/validate.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;

namespace {

// Two tracks of a range and one inside, and a mark.
Capture good() {
  CaptureBuilder b;
  const uint32_t range = b.site("range"), mark = b.site("mark", EventKind::mark);
  for (int64_t tid : {7, 8}) {
    b.track(tid, "thread");
    b.row(range, 10, 100);
    b.row(range, 20, 50);
    b.instant(mark, 60);
  }
  return b.finish();
}

// What is said of the capture after a change; "" if nothing is.
std::string said_of(const std::function<void(Capture&)>& change) {
  Capture capture = good();
  change(capture);
  try {
    validate_capture(capture);
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::function<void(Capture&)>& change, const std::string& row,
          const std::string& what) {
  const std::string said = said_of(change);
  const bool found =
      said.find("row " + row) != std::string::npos && said.find(what) != std::string::npos;
  if (!found) std::fprintf(stderr, "said: %s\n", said.c_str());
  return found;
}

}  // namespace

TEST(a_good_capture_is_accepted) {
  CHECK_EQ(said_of([](Capture&) {}), std::string());
  // Rows that begin together, and the earliest that a child can begin, are in order.
  CHECK_EQ(said_of([](Capture& c) { c.start_ns[1] = c.start_ns[0]; }), std::string());
  CHECK_EQ(said_of([](Capture& c) { c.parent[5] = kNoParent; }), std::string());
}

TEST(indices_must_exist) {
  CHECK(says([](Capture& c) { c.site[2] = 2; }, "2", "invalid site index"));
  CHECK(says([](Capture& c) { c.track[5] = 2; }, "5", "no such track"));
}

TEST(rows_come_by_track_and_then_by_start) {
  CHECK(says([](Capture& c) { c.track[5] = 0; }, "5", "ascending track"));
  CHECK(says([](Capture& c) { c.start_ns[1] = c.start_ns[0] - 1; }, "1", "order of their starts"));
  CHECK(says([](Capture& c) { c.start_ns[5] = c.start_ns[4] - 1; }, "5", "order of their starts"));
}

TEST(a_parent_is_an_earlier_row_of_the_same_track) {
  CHECK(says([](Capture& c) { c.parent[1] = 1; }, "1", "earlier row"));
  CHECK(says([](Capture& c) { c.parent[1] = 2; }, "1", "earlier row"));
  CHECK(says([](Capture& c) { c.parent[1] = kNoParent - 1; }, "1", "earlier row"));
  CHECK(says([](Capture& c) { c.parent[4] = 0; }, "4", "on another track"));
  CHECK(says([](Capture& c) { c.parent[4] = 2; }, "4", "on another track"));
}

TEST(columns_have_one_length) {
  const auto refused = [](const std::function<void(Capture&)>& change) {
    const std::string said = said_of(change);
    return said == "the columns of a capture must have one length";
  };
  CHECK(refused([](Capture& c) { c.start_ns.pop_back(); }));
  CHECK(refused([](Capture& c) { c.end_ns.pop_back(); }));
  CHECK(refused([](Capture& c) { c.site.pop_back(); }));
  CHECK(refused([](Capture& c) { c.track.pop_back(); }));
  CHECK(refused([](Capture& c) { c.parent.pop_back(); }));
  CHECK(refused([](Capture& c) { c.payload.pop_back(); }));
  CHECK(refused([](Capture& c) { c.kind.pop_back(); }));
  CHECK(refused([](Capture& c) { c.flags.pop_back(); }));
}

TEST(ends_on_other_tracks_have_a_row_and_a_track) {
  const auto said = [](std::vector<uint32_t> rows, std::vector<uint32_t> tracks) {
    return said_of([&](Capture& c) {
      c.cross_thread_end_row = rows;
      c.cross_thread_end_track = tracks;
    });
  };
  CHECK_EQ(said({0, 5}, {1, 1}), std::string());
  CHECK_EQ(said({0, 5}, {1}),
           "cross_thread_end_row and cross_thread_end_track must have one length");
  CHECK_EQ(said({0, 6}, {1, 1}), "cross_thread_end_row 1 refers to an invalid row or track");
  CHECK_EQ(said({0, 5}, {1, 2}), "cross_thread_end_row 1 refers to an invalid row or track");
}

TEST(a_site_names_its_arguments) {
  const auto said = [](size_t names, size_t types) {
    return said_of([&](Capture& c) {
      c.sites[1].arg_names.resize(names);
      c.sites[1].arg_types.resize(types);
    });
  };
  CHECK_EQ(said(2, 2), std::string());
  CHECK_EQ(said(3, 2), std::string());
  CHECK_EQ(said(1, 2), "site 1 has fewer argument names than types");
}

TEST(payloads_and_details_are_whole) {
  const auto said = [](uint32_t payload, std::vector<uint64_t> words, bool detail) {
    return said_of([&](Capture& c) {
      c.sites[1].arg_names = {"a", "b"};
      c.sites[1].arg_types = {ArgType::int64, ArgType::int64};
      c.payload_words.assign(words.begin(), words.end());
      c.payload[5] = payload;
      if (detail) c.flags[5] |= event_flag::detail;
    });
  };
  const std::string payload = "capture row 5: its payload is truncated",
                    details = "capture row 5: its details are truncated",
                    inputs = "capture row 5: its details refer to missing inputs";
  CHECK_EQ(said(kNoPayload, {}, false), std::string());
  CHECK_EQ(said(1, {0, 1, 2}, false), std::string());
  CHECK_EQ(said(2, {0, 1, 2}, false), payload);
  CHECK_EQ(said(3, {0, 1, 2}, false), payload);
  CHECK_EQ(said(4, {0, 1, 2}, false), payload);
  CHECK_EQ(said(1, {0, 1, 2}, true), details);  // without a header
  CHECK_EQ(said(1, {0, 1, 2, 0}, true), std::string());
  CHECK_EQ(said(1, {0, 1, 2, 1}, true), details);  // of a word that is not there
  CHECK_EQ(said(1, {0, 1, 2, 1, 0}, true), std::string());
  const uint64_t shared = detail_block_word(DetailType::op_inputs, 0);
  CHECK_EQ(said(1, {shared, 1, 2, 1, shared_block_word(0)}, true), std::string());
  CHECK_EQ(said(1, {shared, 1, 2, 1, shared_block_word(1)}, true), inputs);
  CHECK_EQ(said(1, {shared, 1, 2, 2, shared_block_word(1), shared_block_word(0)}, true), inputs);
}

TEST(a_mark_that_ends_elsewhere_is_no_range_that_nests) {
  Capture capture = good();
  CHECK(is_nesting_range(capture, 0) && !is_nesting_range(capture, 2));
  capture.flags[0] |= event_flag::cross_thread_end;
  CHECK(!is_nesting_range(capture, 0));
  capture.kind[1] = EventKind::async_range;
  CHECK(!is_nesting_range(capture, 1));
}

TEST(a_row_is_what_its_site_says) {
  CHECK(says([](Capture& c) { c.kind[2] = EventKind::range; }, "2", "kind is not its site's"));
  CHECK(says([](Capture& c) { c.flags[0] |= event_flag::detail; }, "0", "no payload"));
}
