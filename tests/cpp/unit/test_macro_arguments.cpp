// SPDX-License-Identifier: Apache-2.0
// Expressions as arguments of the macros: temporaries live long enough, exceptions propagate out of
// the macro, and nothing is evaluated while nothing records.
#include <stdexcept>

#include "check.hpp"
#include "recorder_checks.hpp"

using recorder_checks::Running;

static int evaluations = 0;

static std::string long_name(int i) {
  ++evaluations;
  return std::string(100, 'a') + std::to_string(i);  // beyond any small-string buffer
}

static int throwing() {
  ++evaluations;
  throw std::out_of_range("from an argument");
}

static std::string throwing_name() {
  return std::to_string(throwing());
}

TEST(a_temporary_name_is_recorded_whole) {
  Running session;
  for (int i = 0; i < 3; ++i) {
    FASTPROF_RANGE_DYNAMIC(long_name(i));
    FASTPROF_RANGE_DYNAMIC(long_name(i) + "/inner");
  }
  session.stop();
  const fastprof::Summary summary = session.summary();
  CHECK_EQ(summary.size(), size_t{6});
  for (int i = 0; i < 3; ++i) {
    CHECK(summary.find(long_name(i)) != nullptr);
    CHECK(summary.find(long_name(i) + "/inner") != nullptr);
  }
}

TEST(names_of_every_string_kind) {
  Running session;
  {
    const std::string text = "string";
    const std::string_view view = "view and more";
    const char* pointer = "pointer";
    FASTPROF_RANGE_DYNAMIC(text);
    FASTPROF_RANGE_DYNAMIC(view.substr(0, 4));
    FASTPROF_RANGE_DYNAMIC(pointer);
  }
  session.stop();
  const fastprof::Summary summary = session.summary();
  CHECK(summary.find("string") != nullptr);
  CHECK(summary.find("view") != nullptr);
  CHECK(summary.find("pointer") != nullptr);
}

TEST(a_null_text_is_empty) {
  Running session;
  const char* unset = nullptr;
  const std::string_view empty;  // its data() is null
  fastprof::set_thread_name(empty);
  for (int i = 0; i < 2; ++i) {
    FASTPROF_RANGE_ARGS("null", "a", unset, "b", "text", "c", empty);
  }
  { FASTPROF_RANGE_DYNAMIC(empty); }
  { FASTPROF_RANGE_DYNAMIC(unset); }
  { FASTPROF_RANGE_ARGS("null", "a", nullptr); }
  session.stop();
  CHECK_EQ(session.events().size(), 5);
  CHECK_EQ(session.events()[0].arg_text(0), "");
  CHECK_EQ(session.events()[0].arg_text(1), "text");
  CHECK_EQ(session.events()[1].arg_text(2), "");
  CHECK_EQ(session.events()[2].name(), "");
  CHECK_EQ(session.events()[3].name(), "");
}

struct NoText {
  operator std::string_view() const { throw std::out_of_range("from a conversion"); }
};

TEST(what_a_conversion_to_text_throws_is_propagated) {
  Running session;
  CHECK_THROWS(std::out_of_range, [] { FASTPROF_RANGE_DYNAMIC(NoText()); }());
  CHECK_THROWS(std::out_of_range, [] { FASTPROF_RANGE_ARGS("x", "a", "known", "b", NoText()); }());
  CHECK_EQ(session.stop().size(), size_t{0});
}

TEST(what_an_expression_throws_comes_out) {
  Running session;
  {
    FASTPROF_RANGE("around");
    CHECK_THROWS(std::out_of_range, [] { FASTPROF_RANGE_DYNAMIC(throwing_name()); }());
    CHECK_THROWS(std::out_of_range, [] { FASTPROF_RANGE_ARGS("with", "a", 1, "b", throwing()); }());
    CHECK_THROWS(std::out_of_range, [] { FASTPROF_COUNTER("count", throwing()); }());
  }
  const fastprof::Capture& capture = session.stop();
  CHECK_EQ(capture.size(),
           size_t{1});  // "around" alone: a range whose arguments failed never began
  CHECK_EQ(session.dropped_events(), uint64_t{0});
}

TEST(nothing_is_evaluated_while_off) {
  evaluations = 0;
  FASTPROF_RANGE_DYNAMIC(long_name(1));
  FASTPROF_RANGE_DYNAMIC(throwing_name());
  FASTPROF_RANGE_ARGS("with", "a", throwing());
  FASTPROF_COUNTER("count", throwing());
  CHECK_EQ(evaluations, 0);
}

TEST(several_on_one_line) {
  Running session;
  // clang-format off
  { FASTPROF_RANGE("a"); FASTPROF_RANGE("b"); FASTPROF_RANGE_DYNAMIC("c"); [] { FASTPROF_RANGE("d"); }(); }
  // clang-format on
  const fastprof::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), size_t{4});
  for (size_t row = 1; row < capture.size(); ++row) CHECK_EQ(capture.parent[row], row - 1);
}

template <class T>
static void annotated(T value) {
  FASTPROF_RANGE_ARGS("typed", "value", value);
  FASTPROF_COUNTER("typed counter", value);
  FASTPROF_MARK("mark of a template");
}

inline void annotated_inline() {
  FASTPROF_MARK("mark of an inline function");
  FASTPROF_FLOW_BEGIN(7);
  FASTPROF_FLOW_END(7);
}

// Constants of one name in different functions, and in instances of one template, are different
// sites.
TEST(sites_of_one_name_stay_apart) {
  Running session;
  annotated(1);
  annotated(2.5);
  annotated(true);
  annotated_inline();
  FASTPROF_MARK("mark of a test");
  const fastprof::Capture& capture = session.stop();
  CHECK_EQ(capture.size(), size_t{13});
  CHECK_EQ(capture.sites.size(), size_t{13});
  std::string types;
  for (const fastprof::SiteInfo& site : capture.sites)
    if (site.name == "typed") types += std::to_string(static_cast<int>(site.arg_types.at(0))) + " ";
  const auto text = [](fastprof::ArgType type) {
    return std::to_string(static_cast<int>(type)) + " ";
  };
  CHECK_EQ(types, text(fastprof::ArgType::int64) + text(fastprof::ArgType::float64) +
                      text(fastprof::ArgType::boolean));
}
