// SPDX-License-Identifier: Apache-2.0
// The spill file: copies of sites, its descriptor, and writes and reads that fail.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "fastprof/session/private_folder.hpp"
#include "process_changes.hpp"
#include "spill_checks.hpp"
#include "text_checks.hpp"

using namespace recorder_checks;
using namespace spill_checks;
using namespace process_changes;

namespace {

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
