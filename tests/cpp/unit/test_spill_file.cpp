// SPDX-License-Identifier: Apache-2.0
// The spill file: copies of sites, its descriptor, writes and reads that fail, and what a session
// counts that its file lost.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "fastprof/session/private_folder.hpp"
#include "fastprof/session/spill.hpp"
#include "process_changes.hpp"
#include "recorder_checks.hpp"
#include "text_checks.hpp"

using namespace recorder_checks;
using namespace process_changes;

namespace {

constexpr size_t kSlots = 2725;  // of a chunk: (65536 - 128) / 24

size_t units_in(fp::SpillFile& file, uint64_t* lost = nullptr) {
  size_t units = 0;
  uint64_t missing = 0;
  const bool whole = file.read_back(
      [&units](const fp::TrackInfo&, const fp::PinnedRun& run) {
        units += static_cast<size_t>(run.end - fp::chunk_slots(run.chunk));
      },
      missing);
  CHECK_EQ(whole, missing == 0);
  if (lost != nullptr) *lost = missing;
  return units;
}

fp::Site site_named(const char* name) {
  fp::Site site{};
  site.mask = fp::category::user;
  site.kind = fp::SiteKind::range;
  site.name = name;
  return site;
}

// A chunk of plain ranges of one site, and the file's description of it.
class Records {
 public:
  Records(const fp::Site& site, size_t count, uint64_t first_begin = 1000) : count_(count) {
    memory_->open_ticks = 500;
    for (size_t i = 0; i < count; ++i)
      fp::chunk_slots(memory_.get())[i] = {first_begin + i, first_begin + i + 1,
                                           fp::site_word(&site, fp::RecordTag::slot)};
  }
  fp::PinnedRun run() const {
    return {memory_.get(), fp::chunk_slots(memory_.get()) + count_, true};
  }
  fp::Slot* slots() const { return fp::chunk_slots(memory_.get()); }

 private:
  fp::ChunkBuffer memory_ = fp::make_chunk_buffer();
  size_t count_;
};

fp::TrackInfo track(uint32_t id) {
  fp::TrackInfo info;
  info.id = id;
  return info;
}

}  // namespace

TEST(the_file_has_no_name_and_lies_where_it_is_told) {
  const std::string folder = fp::make_private_folder("fastprof-test-");
  {
    const int fd = next_descriptor();
    const fp::SpillFile file(folder);
    CHECK_EQ(file.folder(), folder);
    struct stat facts;
    CHECK_EQ(::fstat(fd, &facts), 0);
    CHECK_EQ(facts.st_nlink, 0);
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK_EQ(file.bytes(), 0);
    CHECK_EQ(file.error(), 0);
  }
  {
    const Variable variable("TMPDIR", folder.c_str());
    CHECK_EQ(fp::SpillFile("").folder(), folder);
  }
  {
    const Variable variable("TMPDIR", "");
    CHECK_EQ(fp::SpillFile("").folder(), P_tmpdir);
  }
  CHECK_EQ(::rmdir(folder.c_str()), 0);  // it is empty
  const std::string message =
      text_checks::message_of<fp::IoError>([&] { const fp::SpillFile file(folder); });
  CHECK(message.find(folder) != std::string::npos);
  CHECK(message.find(std::strerror(ENOENT)) != std::string::npos);
}

TEST(chunks_come_back_as_they_were_written) {
  fp::SpillFile file("");
  fp::Site site = site_named("first");
  const Records whole(site, kSlots), few(site, 3, 9000);
  few.slots()[2].begin = 499;  // older than the chunk: not written yet
  few.slots()[2].site = 0;
  few.slots()[1].site = fp::site_word(&site, fp::RecordTag::late) & ~uintptr_t{0};
  CHECK(file.append(track(5), whole.run(), 0));
  CHECK_EQ(file.bytes(), kSlots * 24);
  const Records one(site, 1, 8000);
  CHECK(file.append(track(6), one.run(), 0));
  CHECK_EQ(file.bytes(), (kSlots + 1) * 24);
  uint64_t lost = 0;
  std::vector<uint32_t> ids;
  CHECK(file.read_back(
      [&](const fp::TrackInfo& info, const fp::PinnedRun& run) {
        ids.push_back(info.id);
        CHECK_EQ(run.chunk->open_ticks, 500);
        CHECK(run.closed && !run.refused);
        const fp::Slot* slots = fp::chunk_slots(run.chunk);
        CHECK_EQ(run.end - slots, info.id == 5 ? 2725 : 1);
        CHECK_EQ(slots[0].begin, info.id == 5 ? 1000 : 8000);
        const fp::Slot* last = run.end - 1;
        CHECK_EQ(last->end, last->begin + 1);
        CHECK_EQ(std::string(fp::site_of(last->site)->name), "first");
      },
      lost));
  CHECK(ids == (std::vector<uint32_t>{5, 6}));
  CHECK_EQ(lost, 0);
}

TEST(a_failed_write_leaves_the_file_as_it_was) {
  fp::SpillFile file("");
  const fp::Site site = site_named("site");
  const Records whole(site, kSlots), few(site, 10);
  CHECK(file.append(track(1), whole.run(), 0));
  {
    const FileLimit limit(65536);  // room for a part of what follows
    CHECK(!file.append(track(2), few.run(), 0));
    CHECK(!file.append(track(3), whole.run(), 0));
  }
  CHECK_EQ(file.bytes(), kSlots * 24);
  CHECK_EQ(file.error(), EFBIG);
  CHECK(file.append(track(4), few.run(), 0));
  CHECK_EQ(file.error(), EFBIG);  // of the first failure
  CHECK_EQ(file.bytes(), (kSlots + 10) * 24);
  CHECK_EQ(units_in(file), kSlots + 10);
}

TEST(what_cannot_be_read_back_is_lost) {
  const int fd = next_descriptor();
  fp::SpillFile file("");
  const fp::Site site = site_named("site");
  const Records whole(site, kSlots), few(site, 10);
  CHECK(file.append(track(1), few.run(), 0));
  CHECK(file.append(track(2), whole.run(), 0));
  CHECK(file.append(track(3), few.run(), 0));
  CHECK_EQ(::ftruncate(fd, 1000), 0);  // in the middle of the second
  uint64_t lost = 0;
  CHECK_EQ(units_in(file, &lost), 10);
  CHECK_EQ(lost, kSlots + 10);
}

TEST(a_session_counts_what_its_file_lost) {
  fp::State* s = fp::state();
  fp::Session session(
      with(&Options::overflow, fp::OverflowPolicy::spill_to_file, &Options::max_bytes, 4 * 65536));
  const int fd = next_descriptor();
  session.start();
  for (size_t i = 0; i < 10 * kSlots; ++i) {
    FASTPROF_RANGE("step");
  }
  for (int i = 0; i < 6000; ++i) {  // until the file has all closed chunks
    {
      fp::StateLock hold(s);
      if (s->sessions[0].pinned_chunks == 1) break;
    }
    fp::request_spill(s);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  struct stat facts;
  CHECK(::fstat(fd, &facts) == 0 && facts.st_nlink == 0);
  CHECK_EQ(::ftruncate(fd, 24000), 0);
  session.stop();
  CHECK_EQ(session.spilled_bytes(), static_cast<uint64_t>(facts.st_size));
  CHECK(session.capture().size() + session.dropped_events() >= 10 * kSlots);
  CHECK_EQ(session.dropped_events(fp::DropCause::spill_failed), session.spilled_bytes() / 24);
  CHECK_EQ(session.spill_error(), 0);  // no write failed
  CHECK(!is_open(fd));
}
