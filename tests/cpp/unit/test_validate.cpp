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

TEST(a_row_is_what_its_site_says) {
  CHECK(says([](Capture& c) { c.kind[2] = EventKind::range; }, "2", "kind is not its site's"));
  CHECK(says([](Capture& c) { c.flags[0] |= event_flag::detail; }, "0", "no payload"));
}
