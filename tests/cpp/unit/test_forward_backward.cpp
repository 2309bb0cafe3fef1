// SPDX-License-Identifier: Apache-2.0
// Links from forward ops to backward functions, on captures made by hand.
#include <sstream>
#include <string>
#include <vector>

#include "capture_builder.hpp"
#include "check.hpp"
#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/forward_backward.hpp"
#include "text_checks.hpp"

using namespace fastprof;
using fastprof_test::CaptureBuilder;
using text_checks::count_of;

namespace {

std::vector<uint64_t> op(int64_t sequence_nr, uint64_t forward_thread = 0) {
  const auto block = [](uint32_t count) { return detail_block_word(DetailType::op, count); };
  if (forward_thread == 0) return {2, block(1), static_cast<uint64_t>(sequence_nr)};
  return {5, block(3), static_cast<uint64_t>(sequence_nr), forward_thread, 0, 0};
}

struct Program {
  CaptureBuilder b;
  uint32_t any = b.site("op", EventKind::range, "cpu_op");
  uint32_t main = b.track(11, "main");
  size_t add(int64_t start, int64_t end, int64_t sequence_nr, uint64_t forward_thread = 0) {
    return b.row(any, start, end, op(sequence_nr, forward_thread), event_flag::detail);
  }
};

}  // namespace

TEST(the_last_forward_op_of_a_number_links) {
  Program p;
  const size_t matmul = p.add(10, 50, 7);
  const size_t mm = p.add(20, 40, 7);
  const size_t other = p.add(60, 70, 8);
  const size_t backward = p.add(100, 120, 7, 1);
  const ForwardBackwardLinks links(p.b.finish());
  CHECK(!links.empty());
  CHECK_EQ(links.at(matmul).id, 0u);
  CHECK_EQ(links.at(other).id, 0u);
  CHECK_EQ(links.at(mm).id, 1u);
  CHECK(links.at(mm).begins);
  CHECK_EQ(links.at(backward).id, 1u);
  CHECK(!links.at(backward).begins);
}

TEST(a_node_links_once_and_only_to_what_came_before) {
  Program p;
  const size_t early = p.add(5, 8, 3, 1);
  const size_t forward = p.add(10, 20, 3);
  const size_t first = p.add(30, 40, 3, 1);
  const size_t second = p.add(50, 60, 3, 1);
  const ForwardBackwardLinks links(p.b.finish());
  CHECK_EQ(links.at(early).id, 0u);
  CHECK_EQ(links.at(forward).id, links.at(first).id);
  CHECK_EQ(links.at(second).id, 0u);
}

TEST(threads_keep_their_numbers_apart) {
  Program p;
  const size_t here = p.add(10, 20, 3);
  const size_t backward_of_other = p.add(100, 120, 3, 2);
  p.b.track(12, "other");
  const size_t there = p.add(11, 21, 3);
  const size_t backward_of_main = p.add(90, 99, 3, 1);
  const ForwardBackwardLinks links(p.b.finish());
  CHECK_EQ(links.at(there).id, links.at(backward_of_other).id);
  CHECK_EQ(links.at(here).id, links.at(backward_of_main).id);
  CHECK(links.at(here).id != links.at(there).id);
}

TEST(no_backward_no_links) {
  Program p;
  p.add(10, 20, 3);
  p.add(30, 40, -1, 1);  // AccumulateGrad: a forward thread, no number
  p.b.row(p.any, 50, 60);
  CHECK(ForwardBackwardLinks(p.b.finish()).empty());
}

TEST(many_nodes_link_in_the_order_of_their_backward_functions) {
  constexpr int64_t kNodes = 300;
  Program p;
  for (int64_t n = 0; n < kNodes; ++n) p.add(n, n + 1, n);
  for (int64_t n = 0; n < kNodes; ++n) p.add(2000 + 2 * n, 2001 + 2 * n, n, 2);
  p.b.track(12, "other");
  for (int64_t n = 0; n < kNodes; ++n) p.add(n, n + 1, n);
  for (int64_t n = 0; n < kNodes; ++n) p.add(2001 + 2 * n, 2002 + 2 * n, n, 1);
  const ForwardBackwardLinks links(p.b.finish());
  const auto row = [](int64_t group, int64_t n) { return static_cast<size_t>(kNodes * group + n); };
  for (int64_t n = 0; n < kNodes; ++n) {
    const auto id = static_cast<uint64_t>(2 * n);
    CHECK_EQ(links.at(row(1, n)).id, id + 1);  // the first of each pair
    CHECK_EQ(links.at(row(2, n)).id, id + 1);
    CHECK_EQ(links.at(row(3, n)).id, id + 2);
    CHECK_EQ(links.at(row(0, n)).id, id + 2);
    CHECK(links.at(row(0, n)).begins && links.at(row(2, n)).begins);
    CHECK(!links.at(row(1, n)).begins && !links.at(row(3, n)).begins);
  }
}

TEST(of_ops_that_begin_together_the_last_row_links) {
  Program p;
  const size_t outer = p.add(10, 50, 7), inner = p.add(10, 40, 7);
  const size_t backward = p.add(60, 70, 7, 1);
  const ForwardBackwardLinks links(p.b.finish());
  CHECK_EQ(links.at(outer).id, 0u);
  CHECK_EQ(links.at(inner).id, links.at(backward).id);
  CHECK(!links.is_engine_row(outer));
  CHECK_EQ(links.node_inside(outer).sequence_nr, -1);
}

TEST(arrows_in_the_chrome_trace) {
  Program p;
  p.add(10, 20, 3);
  p.add(30, 40, 3, 1);
  std::ostringstream out;
  write_chrome_trace(p.b.finish(), out);
  CHECK_EQ(count_of(out.str(), "\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\""), 2u);
  CHECK_EQ(count_of(out.str(), "{\"ph\":\"s\",\"cat\":\"fwdbwd\""), 1u);
  CHECK_EQ(count_of(out.str(), "{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"fwdbwd\""), 1u);
  CHECK_EQ(count_of(out.str(), ",\"id\":1}"), 2u);
}
