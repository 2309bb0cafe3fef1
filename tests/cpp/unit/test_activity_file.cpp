// SPDX-License-Identifier: Apache-2.0
// Activity files: portions of several backends, files that end with a part of one, damaged ones;
// the work of a process that was killed, in what is recovered of it.
#include <csignal>
#include <fstream>
#include <memory>
#include <random>

#include "backing_file_checks.hpp"
#include "core/activity_file.hpp"
#include "fastprof/capture/merge_captures.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/recorder/state/ticks.hpp"
#include "fastprof/recover.hpp"
#include "fastprof/session/activities.hpp"
#include "recorder_checks.hpp"
#include "text_checks.hpp"

using namespace recorder_checks;

namespace {

// A call of thread `thread` and a kernel on stream `queue`; names end with `suffix`.
fp::Activities work(const std::string& suffix, uint32_t correlation, int64_t queue = 7,
                    int64_t thread = 5, uint64_t begin = 1000) {
  fp::Activities made;
  made.places.resize(2);
  made.places[0].id = thread;
  made.places[1] = {0, queue, "stream " + std::to_string(queue), ""};
  made.sites.resize(2);
  for (size_t i = 0; i < 2; ++i) {
    fp::SiteInfo& site = made.sites[i];
    site.name = (i == 0 ? "launch " : "kernel ") + suffix;
    site.category = i == 0 ? "cuda_runtime" : "kernel";
    site.mask = i == 0 ? fp::category::runtime : fp::category::device;
    site.arg_names = {"correlation"};
    site.arg_types = {fp::ArgType::int64};
    site.device_index = i == 0 ? -1 : 0;
    made.rows.push_back({begin, begin + 10, correlation, static_cast<uint32_t>(i),
                         static_cast<uint32_t>(i), i == 0 ? fp::kNoPayload : 0, i});
    made.words.push_back(correlation);
  }
  made.texts = {"{\"of\":\"" + suffix + "\"}"};
  made.dropped = 1;
  return made;
}

// "launch a 5 1" of each row: name, place, correlation, with the text if there is one.
std::vector<std::string> rows(const fp::Activities& all) {
  std::vector<std::string> found;
  for (const fp::Activity& row : all.rows)
    found.push_back(all.sites[row.site].name + ' ' + std::to_string(all.places[row.place].id) +
                    ' ' + std::to_string(all.words[row.words]) +
                    (row.text == fp::kNoPayload ? "" : ' ' + all.texts[row.text]));
  return found;
}

std::string path_of(const char* name) {
  const std::string path = "/tmp/fastprof-" + std::to_string(::getpid()) + "-" + name;
  ::unlink(path.c_str());
  return path;
}

void put_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

constexpr uint64_t kAny = uint64_t{1} << 40;

}  // namespace

TEST(portions_of_a_backend_become_one) {
  const std::string path = path_of("portions");
  {
    fp::devices::ActivityFileWriter file(path);
    file.add("CUDA", work("a", 1));
    file.add("npu", work("n", 1));
    CHECK(!fp::devices::activity_file_ended(path));
    file.add("CUDA", fp::Activities{});  // nothing to say
    fp::Activities more = work("b", 2, 8);
    fp::devices::append_activities(more, work("a", 3));
    file.add("CUDA", more);
    file.finish();
    CHECK(file.problem().empty());
  }
  CHECK(fp::devices::activity_file_ended(path));
  const fp::devices::ActivityFile read = fp::devices::read_activity_file(path, kAny);
  CHECK(read.ended);
  CHECK_EQ(read.damaged_bytes, 0u);
  CHECK_EQ(read.of_backends.size(), 2u);
  const fp::Activities& cuda = read.of_backends[0];
  const std::vector<std::string> expected = {"launch a 5 1", "kernel a 7 1 {\"of\":\"a\"}",
                                             "launch b 5 2", "kernel b 8 2 {\"of\":\"b\"}",
                                             "launch a 5 3", "kernel a 7 3 {\"of\":\"a\"}"};
  CHECK(rows(cuda) == expected);
  CHECK_EQ(cuda.sites.size(), 4u);
  CHECK_EQ(cuda.places.size(), 3u);
  CHECK_EQ(cuda.dropped, 3u);
  CHECK_EQ(read.of_backends[1].rows.size(), 2u);
  CHECK_THROWS(fp::IoError, std::make_unique<fp::devices::ActivityFileWriter>(path));  // exists
  CHECK_THROWS(fp::IoError, fp::devices::read_activity_file(path, 10));
  ::unlink(path.c_str());
  CHECK_THROWS(fp::IoError, fp::devices::read_activity_file(path, kAny));
  CHECK(!fp::devices::activity_file_ended(path));
}

TEST(a_part_of_a_portion_is_left_out) {
  const std::string path = path_of("cut");
  {
    fp::devices::ActivityFileWriter file(path);
    file.add("CUDA", work("a", 1));
  }
  const std::string whole = text_checks::contents(path);
  ::unlink(path.c_str());
  for (size_t left = 1; left < whole.size(); left += 7) {
    put_bytes(path, whole + whole.substr(0, left));
    const fp::devices::ActivityFile read = fp::devices::read_activity_file(path, kAny);
    CHECK(!read.ended);
    CHECK_EQ(read.damaged_bytes, left);
    CHECK_EQ(read.of_backends.size(), 1u);
    CHECK_EQ(read.of_backends[0].rows.size(), 2u);
  }
  ::unlink(path.c_str());
}

// Contents that were changed together with their checksum: whatever is read is consistent.
TEST(untrusted_contents_are_checked) {
  const std::string path = path_of("damaged");
  {
    fp::devices::ActivityFileWriter file(path);
    file.add("CUDA", work("a", 1));
  }
  const std::string whole = text_checks::contents(path);
  std::mt19937 random(1);
  size_t accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = whole;
    for (int change = 0; change < 2; ++change) {
      const size_t at = 24 + random() % (bytes.size() - 24);
      bytes[at] = static_cast<char>(random() % 3 == 0 ? 0xFF : random());
    }
    uint64_t sum = 14695981039346656037u;
    for (size_t i = 24; i < bytes.size(); ++i)
      sum = (sum ^ static_cast<uint8_t>(bytes[i])) * 1099511628211u;
    bytes.replace(16, 8, reinterpret_cast<const char*>(&sum), 8);
    put_bytes(path, bytes);
    const fp::devices::ActivityFile read = fp::devices::read_activity_file(path, kAny);
    for (const fp::Activities& each : read.of_backends) {
      fp::check_activities(each);
      ++accepted;
    }
  }
  CHECK(accepted > 400 && accepted < 3900);  // changed texts and numbers are as valid as before
  ::unlink(path.c_str());
}

TEST(work_of_a_killed_process_is_recovered_with_its_ranges) {
  const std::string records = path_of("records"), devices = path_of("devices");
  const int signal = backing_file_checks::killed([&] {
    fp::SessionOptions options;
    options.backing_file = records;
    options.categories |= fp::category::runtime | fp::category::device;
    Running session(options);
    fp::devices::ActivityFileWriter file(devices);
    {
      FASTPROF_RANGE("around");
      file.add("CUDA", work("a", 1, 7, ::gettid(), fp::ticks(fp::state())));
    }
    // The last record comes before this call, and the process ends without the file's end mark.
    file.add("CUDA", work("late", 2, 7, ::gettid(), fp::ticks(fp::state())));
    ::raise(SIGKILL);
  });
  CHECK_EQ(signal, SIGKILL);
  fp::RecoverOptions options;
  options.activities = fp::devices::read_activity_file(devices, kAny).of_backends;
  const fp::Recovered found = fp::recover(records, options);
  const fp::Capture& capture = found.capture;
  fp::validate_capture(capture);
  std::vector<std::string> linked;
  for (const fp::DeviceLink& link : capture.device_links)
    linked.push_back(
        name_of(capture, link.row) +
        (link.range < 0 ? "" : " in " + name_of(capture, static_cast<size_t>(link.range))));
  const std::vector<std::string> expected = {"launch a in around", "launch late",
                                             "kernel a in around", "kernel late"};
  CHECK(linked == expected);
  for (const fp::TrackInfo& track : capture.tracks)
    CHECK_EQ(track.pid, track.is_device() ? 0 : capture.pid);
  CHECK_EQ(capture.dropped[static_cast<size_t>(fp::DropCause::device)], 2u);

  // The same process beside another one, whose work is on the same stream of the same device.
  fp::Capture other = capture;
  other.pid = 12;
  const fp::Capture both = fp::merge_captures({{&capture}, {&other}});
  fp::validate_capture(both);
  std::vector<uint64_t> correlations;
  for (const fp::DeviceLink& link : both.device_links) correlations.push_back(link.correlation);
  CHECK((correlations == std::vector<uint64_t>{1, 2, 1, 2, 3, 4, 3, 4}));
  std::vector<int64_t> devices_seen;
  for (const fp::TrackInfo& track : both.tracks)
    if (track.is_device()) devices_seen.push_back(track.pid);
  CHECK((devices_seen == std::vector<int64_t>{0, fp::device_pid_in(12, 0)}));
  CHECK_EQ(fp::process_of_device(devices_seen[1], both.pid), 12);
  CHECK_EQ(fp::process_of_device(devices_seen[0], both.pid), both.pid);
  CHECK(fp::device_pid_in(1 << 22, 9999) < (int64_t{1} << 32));
  ::unlink(records.c_str());
  ::unlink(devices.c_str());
}
