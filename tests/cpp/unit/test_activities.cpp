// SPDX-License-Identifier: Apache-2.0
// Activities of devices: rows beside those of threads, links to the ranges that launched them, what
// belongs to a thread-local session, traces, and what is refused.
#include <sstream>

#include "fastprof/export/chrome_trace.hpp"
#include "fastprof/export/perfetto_trace.hpp"
#include "fastprof/recorder/state/ticks.hpp"
#include "fastprof/session/activities.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

uint64_t now() {
  return fp::ticks(fp::state());
}

// What a device did: calls of `thread`, and kernels on stream 7 of device 0.
struct FakeDevice {
  fp::Activities found;

  explicit FakeDevice(int64_t thread = ::gettid()) {
    found.places.resize(2);
    found.places[0].id = thread;
    found.places[1].device_index = 0;
    found.places[1].id = 7;
    found.places[1].name = "stream 7";
    found.sites.resize(2);
    for (size_t i = 0; i < 2; ++i) {
      fp::SiteInfo& site = found.sites[i];
      site.name = i == 0 ? "launch" : "kernel";
      site.category = i == 0 ? "cuda_runtime" : "kernel";
      site.mask = i == 0 ? fp::category::runtime : fp::category::device;
      site.arg_names = {"correlation"};
      site.arg_types = {fp::ArgType::int64};
      site.device_type = i == 0 ? -1 : 1;
      site.device_index = i == 0 ? -1 : 0;
    }
    found.texts = {"{\"grid\":[1,2,3]}"};
  }
  void add(uint32_t site, uint64_t begin, uint64_t end, uint32_t correlation) {
    fp::Activity activity;
    activity.begin = begin;
    activity.end = end;
    activity.correlation = correlation;
    activity.site = activity.place = site;
    if (site == 1) activity.text = 0;
    activity.words = found.words.size();
    found.words.push_back(correlation);
    found.rows.push_back(activity);
  }
  // A call now, and a kernel `later` ticks behind it.
  void launch(uint32_t correlation, uint64_t later = 1000) {
    const uint64_t begin = now();
    add(0, begin, now(), correlation);
    add(1, begin + later, begin + later + 500, correlation);
  }
};

std::string name_or(const fp::Capture& capture, int32_t row) {
  return row < 0 ? "-" : name_of(capture, static_cast<size_t>(row));
}

// "name: call, range" of each link.
std::vector<std::string> links(const fp::Capture& capture) {
  std::vector<std::string> all;
  for (const fp::DeviceLink& link : capture.device_links)
    all.push_back(name_of(capture, link.row) + ": " + name_or(capture, link.call) + ", " +
                  name_or(capture, link.range));
  return all;
}

// A launch in a range.
fp::Capture recorded_launch() {
  FakeDevice device;
  Running session;
  {
    FASTPROF_RANGE("range");
    device.launch(5);
  }
  session.add_activities(std::move(device.found));
  session.stop();
  return session.take_capture();
}

}  // namespace

TEST(work_is_linked_to_the_innermost_range_of_its_call) {
  FakeDevice device;
  Running session;
  {
    FASTPROF_RANGE("outer");
    {
      FASTPROF_RANGE("inner");
      device.launch(1);
    }
    device.launch(2, 5000);
  }
  device.launch(3, 9000);
  session.add_activities(std::move(device.found));
  const fp::Capture& capture = session.stop();
  CHECK(links(capture) == (std::vector<std::string>{"launch: -, inner", "launch: -, outer",
                                                    "launch: -, -", "kernel: launch, inner",
                                                    "kernel: launch, outer", "kernel: launch, -"}));
  fp::validate_capture(capture);
  // Calls nest like ranges and are the children of them; work has no parent.
  for (const fp::DeviceLink& link : capture.device_links) {
    const bool call = link.call < 0;
    CHECK(capture.parent[link.row] == (call ? link.range : fp::kNoParent));
    CHECK(capture.tracks[capture.track[link.row]].is_device() != call);
  }
}

TEST(calls_of_other_threads_are_not_in_a_thread_local_session) {
  FakeDevice here, there(1);
  Running session(with(&Options::thread_local_only, true));
  {
    FASTPROF_RANGE("mine");
    here.launch(1);
  }
  const uint64_t begin = now();
  here.add(1, begin, begin + 10, 77);  // of no known thread
  there.launch(9);
  // Both in one batch, as a backend has them.
  const auto places = static_cast<uint32_t>(here.found.places.size());
  here.found.places.push_back(there.found.places[0]);
  for (fp::Activity row : there.found.rows) {
    if (row.place == 0) row.place = places;
    row.words = here.found.words.size();
    here.found.words.push_back(9);
    here.found.rows.push_back(row);
  }
  session.add_activities(std::move(here.found));
  CHECK(links(session.stop()) ==
        (std::vector<std::string>{"launch: -, mine", "kernel: launch, mine"}));
}

TEST(traces_have_arrows_and_ids) {
  const fp::Capture capture = recorded_launch();
  std::ostringstream text, binary;
  fp::write_chrome_trace(capture, text);
  fp::write_perfetto_trace(capture, binary);
  const std::string trace = text.str();
  for (const char* part :
       {"\"grid\":[1,2,3]", "\"correlation\":5", "\"labels\":\"GPU 0\"", "\"pid\":0,\"tid\":7",
        "\"ph\":\"s\",\"cat\":\"ac2g\"", "\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"ac2g\""})
    CHECK(trace.find(part) != std::string::npos);
  CHECK(binary.str().find("GPU 0") != std::string::npos);
}

TEST(what_does_not_fit_is_refused) {
  fp::Session session;
  const auto refused = [&session](auto&& spoil) {
    FakeDevice device;
    device.launch(1);
    spoil(device.found);
    try {
      session.add_activities(std::move(device.found));
    } catch (const fp::ValueError&) {
      return true;
    } catch (const fp::StateError&) {
      return !session.running();
    }
    return false;
  };
  CHECK(refused([](fp::Activities&) {}));  // it does not run
  session.start();
  CHECK(refused([](fp::Activities& a) { a.rows[0].site = 9; }));
  CHECK(refused([](fp::Activities& a) { a.rows[0].place = 9; }));
  CHECK(refused([](fp::Activities& a) { a.rows[0].place = 1; }));
  CHECK(refused([](fp::Activities& a) { a.rows[1].text = 9; }));
  CHECK(refused([](fp::Activities& a) { a.rows[0].words = 9; }));
  CHECK(refused([](fp::Activities& a) { a.rows[0].begin = 0; }));
  CHECK(refused([](fp::Activities& a) { a.rows[0].end = UINT64_MAX; }));
  CHECK(refused([](fp::Activities& a) { a.sites[0].kind = fp::EventKind::mark; }));
  CHECK(refused([](fp::Activities& a) { a.sites[0].arg_types[0] = fp::ArgType::string; }));
  CHECK(!refused([](fp::Activities&) {}));
  session.stop();
}
