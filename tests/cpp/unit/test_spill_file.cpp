// SPDX-License-Identifier: Apache-2.0
// The spill file: copies of sites, its descriptor, and writes and reads that fail.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fastprof/session/private_folder.hpp"
#include "process_changes.hpp"
#include "spill_checks.hpp"

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

TEST(copies_of_sites_are_equal_and_made_once) {
  const char* const names[] = {"first", nullptr};
  const fp::ArgType types[] = {fp::ArgType::float64, fp::ArgType::string};
  fp::Site site = site_named("name");
  site.category_name = "category";
  site.function = "function";
  site.line = 7;
  site.arg_count = 2;
  site.arg_units = 1;
  site.arg_names = names;
  site.arg_types = types;
  const fp::Site other = site_named("other");
  fp::SiteCopies copies;
  const fp::Site* copy = copies.copy_of(&site);
  CHECK(copy != &site && copy->name != site.name);
  CHECK_EQ(std::string(copy->name), "name");
  CHECK_EQ(std::string(copy->category_name), "category");
  CHECK_EQ(std::string(copy->file), "");  // null
  CHECK_EQ(std::string(copy->function), "function");
  CHECK(copy->line == 7 && copy->arg_count == 2 && copy->arg_units == 1);
  CHECK_EQ(std::string(copy->arg_names[0]), "first");
  CHECK_EQ(std::string(copy->arg_names[1]), "");
  CHECK(copy->arg_types != types && copy->arg_types[0] == fp::ArgType::float64);
  CHECK(copy->arg_types[1] == fp::ArgType::string);
  CHECK(copies.copy_of(&site) == copy);
  const fp::Site* copy_of_other = copies.copy_of(&other);
  CHECK(copy_of_other != copy);
  CHECK(copies.copy_of(&site) == copy && copies.copy_of(&other) == copy_of_other);
  copies.forget_addresses();
  CHECK(copies.copy_of(&other) != copy_of_other);
  CHECK(copies.copy_of(&site) != copy);
  CHECK_EQ(std::string(copy->name), "name");  // those that were made stay
}

TEST(the_list_of_descriptors_is_bounded) {
  std::vector<int> added;
  for (int i = 0; i < 64; ++i) {
    added.push_back(::dup(STDERR_FILENO));
    CHECK(fp::SpillDescriptors::add(added.back()));
  }
  const int further = ::dup(STDERR_FILENO);
  CHECK(!fp::SpillDescriptors::add(further));
  CHECK(!fp::SpillDescriptors::remove(further));
  {
    // A file that is not in the list is closed as well.
    const int fd = next_descriptor();
    {
      const fp::SpillFile file("");
      CHECK(is_open(fd));
    }
    CHECK(!is_open(fd));
  }
  CHECK(fp::SpillDescriptors::remove(added[40]));
  CHECK(!fp::SpillDescriptors::remove(added[40]));
  CHECK(fp::SpillDescriptors::add(further));
  CHECK(!fp::SpillDescriptors::add(added[40]));
  // A forked child closes those that are listed.
  const int result = in_child([&] {
    for (int i = 0; i < 64; ++i)
      if (is_open(added[static_cast<size_t>(i)]) != (i == 40)) return 1;
    if (is_open(further)) return 2;
    return fp::SpillDescriptors::remove(further) ? 3 : 0;
  });
  CHECK_EQ(result, 0);
  for (int i = 0; i < 64; ++i)
    CHECK_EQ(fp::SpillDescriptors::remove(added[static_cast<size_t>(i)]), i != 40);
  CHECK(fp::SpillDescriptors::remove(further));
  for (const int fd : added) ::close(fd);
  ::close(further);
}

TEST(a_forked_child_closes_the_file_once) {
  const int fd = next_descriptor();
  auto file = std::make_unique<fp::SpillFile>("");
  CHECK_EQ(in_child([&] {
             if (is_open(fd)) return 1;
             if (::dup(STDERR_FILENO) != fd) return 2;
             file.reset();  // the descriptor is another file's now
             return is_open(fd) ? 0 : 3;
           }),
           0);
  CHECK(is_open(fd));
  file.reset();
  CHECK(!is_open(fd));
}

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
  std::string message;
  try {
    const fp::SpillFile file(folder);
  } catch (const fp::IoError& error) {
    message = error.what();
  }
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

TEST(sites_are_copied_anew_after_an_unload) {
  fp::SpillFile file("");
  fp::Site site = site_named("first");
  const Records records(site, 1);
  CHECK(file.append(track(1), records.run(), 0));
  site.name = "changed";  // which a site never does
  CHECK(file.append(track(1), records.run(), 0));
  CHECK(file.append(track(1), records.run(), 4));  // its library may have been unloaded
  CHECK(file.append(track(1), records.run(), 4));
  std::vector<std::string> names;
  uint64_t lost = 0;
  file.read_back(
      [&names](const fp::TrackInfo&, const fp::PinnedRun& run) {
        names.emplace_back(fp::site_of(fp::chunk_slots(run.chunk)->site)->name);
      },
      lost);
  CHECK(names == (std::vector<std::string>{"first", "first", "changed", "changed"}));
}

TEST(records_of_several_units_and_ends_keep_their_form) {
  fp::SpillFile file("");
  fp::Site plain = site_named("plain"), wide = site_named("wide");
  wide.arg_units = 2;
  const Records records(plain, 7);
  fp::Slot* slots = records.slots();
  slots[1].site = fp::site_word(&wide, fp::RecordTag::slot);  // and two units
  slots[2] = {1, 2, 3};
  slots[3] = {4, 5, 6};
  slots[4].site = fp::site_word(&plain, fp::RecordTag::cross_thread_end);
  slots[5] = {7, 8, 9};
  slots[6].begin = 499;  // reserved, not written
  slots[6].site = 12345;
  CHECK(file.append(track(1), records.run(), 0));
  uint64_t lost = 0;
  file.read_back(
      [&](const fp::TrackInfo&, const fp::PinnedRun& run) {
        const fp::Slot* read = fp::chunk_slots(run.chunk);
        CHECK_EQ(std::string(fp::site_of(read[1].site)->name), "wide");
        CHECK(read[2].begin == 1 && read[2].end == 2 && read[2].site == 3);
        CHECK(read[3].begin == 4 && read[3].end == 5 && read[3].site == 6);
        CHECK(fp::tag_of(read[4].site) == fp::RecordTag::cross_thread_end);
        CHECK(fp::site_of(read[4].site) == fp::site_of(read[0].site));
        CHECK(read[5].begin == 7 && read[5].end == 8 && read[5].site == 9);
        CHECK(read[6].begin == 499 && read[6].site == 12345);
      },
      lost);
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
