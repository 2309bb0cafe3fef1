// SPDX-License-Identifier: Apache-2.0
// BackingReader, of files made by hand: what is refused, what counts as damaged, and what is
// accepted at the limits.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "backing_image.hpp"

using namespace recorder_checks;
using backing_file_checks::Folder;
using backing_file_checks::stored_bytes;
using backing_image::Entries;
using backing_image::format_error_at;
using backing_image::Image;
using backing_image::image_of_one_record;
using backing_image::kSite;
using backing_image::SiteParts;

namespace {

constexpr int64_t kMost = int64_t{1} << 62;

// The number of damaged parts after `change`.
template <class Change>
uint64_t damaged(Change change) {
  const Folder folder;
  Image made = image_of_one_record();
  change(made);
  made.write(folder.file());
  return fp::BackingReader(folder.file(), UINT64_MAX).damaged();
}

std::vector<fp::ClockKnot> knots_read(const Image& image) {
  const Folder folder;
  image.write(folder.file());
  return fp::BackingReader(folder.file(), UINT64_MAX).knots();
}

}  // namespace

TEST(only_a_regular_file_is_opened_and_stays_unshared) {
  const Folder folder;
  CHECK_EQ(::mkfifo(folder.file().c_str(), 0600), 0);
  CHECK_EQ(in_child([&] {
             ::alarm(60);  // a pipe must not be waited for
             try {
               fp::recover(folder.file());
             } catch (const fp::IoError& error) {
               const std::string text = error.what();
               return text.find("not a regular file") != std::string::npos ? 0 : 1;
             }
             return 2;
           }),
           0);
  CHECK_THROWS(fp::IoError, fp::recover(folder.path()));
  CHECK_THROWS(fp::IoError, fp::recover(folder.file("b")));
  image_of_one_record().write(folder.file("b"));
  const int fd = ::dup(STDERR_FILENO);
  ::close(fd);  // the next descriptor
  {
    const fp::BackingReader reader(folder.file("b"), UINT64_MAX);
    CHECK(::fcntl(fd, F_GETFD) == FD_CLOEXEC);
  }
  CHECK_EQ(::fcntl(fd, F_GETFD), -1);
  // One that is refused is closed as well.
  CHECK_THROWS(fp::FormatError, fp::BackingReader(folder.file("b"), 1));
  CHECK_THROWS(fp::IoError, fp::BackingReader(folder.path(), 1));
  CHECK_EQ(::fcntl(fd, F_GETFD), -1);
}

TEST(the_limit_is_what_the_file_takes_on_its_file_system) {
  const Folder folder;
  image_of_one_record().write(folder.file(), uint64_t{1} << 33);  // mostly a hole
  const auto stored = static_cast<uint64_t>(stored_bytes(folder.file()));
  fp::RecoverOptions options;
  options.max_bytes = stored;
  CHECK_EQ(fp::recover(folder.file(), options).capture.size(), 1);
  options.max_bytes = stored - 1;
  CHECK_THROWS(fp::FormatError, fp::recover(folder.file(), options));
}

TEST(wrong_headers_are_refused_where_they_are_wrong) {
  const auto refused_at = [](auto&& change) {
    Image made = image_of_one_record();
    change(made);
    return format_error_at(made);
  };
  CHECK_EQ(refused_at([](Image&) {}), "");
  CHECK_EQ(refused_at([](Image& i) { i.header.magic[15] = 0; }), "0");
  CHECK_EQ(refused_at([](Image& i) { i.header.format = 2; }), "16");
  CHECK_EQ(refused_at([](Image& i) { i.header.byte_order = 0x01020305; }), "16");
  CHECK_EQ(refused_at([](Image& i) { ++i.header.abi_major; }), "16");
  CHECK_EQ(refused_at([](Image& i) { i.header.header_bytes = 511; }), "20");
  CHECK_EQ(refused_at([](Image& i) { i.header.header_bytes = 513; }), "");  // of a newer version
  CHECK_EQ(refused_at([](Image& i) { ++i.header.segment_bytes; }), "20");
  CHECK_EQ(refused_at([](Image& i) { ++i.header.chunk_bytes; }), "20");
  const Folder folder;
  const auto cut = [&folder](uint64_t size) {
    image_of_one_record().write(folder.file(), size);
    try {
      fp::recover(folder.file());
    } catch (const fp::FormatError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(cut(511).find("offset 0: too short") != std::string::npos);
  CHECK(cut(512).find("offset 16384: the clock's knots") != std::string::npos);
  CHECK(cut(16384 + 16008).find("offset") == std::string::npos);
  CHECK(cut(16384 + 16007).find("offset 16384: the clock's knots") != std::string::npos);
}

TEST(texts_of_the_header_always_end) {
  const Folder folder;
  Image made = image_of_one_record();
  std::fill(std::begin(made.header.boot_id), std::end(made.header.boot_id), 'b');
  std::fill(std::begin(made.header.process_name), std::end(made.header.process_name), 'p');
  made.write(folder.file());
  const fp::Recovered found = fp::recover(folder.file());
  CHECK_EQ(found.boot_id, std::string(39, 'b'));
  CHECK_EQ(found.capture.process_name, std::string(63, 'p'));
}

TEST(times_are_limited_to_146_years) {
  for (const int64_t given :
       {kMost + 1, kMost, INT64_MAX, -kMost - 1, -kMost, INT64_MIN, int64_t{5}}) {
    const Folder folder;
    Image made = image_of_one_record();
    made.header.unix_offset_ns = given;
    made.write(folder.file());
    const int64_t expected = given == 5 ? 5 : given > 0 ? kMost : -kMost;
    CHECK_EQ(fp::BackingReader(folder.file(), UINT64_MAX).header().unix_offset_ns, expected);
  }
}

TEST(knots_that_cannot_be_right_are_left_out) {
  Image made;
  const auto put = [&made](size_t bank, std::vector<fp::ClockKnot> knots) {
    made.banks[bank].count = knots.size();
    std::copy(knots.begin(), knots.end(), made.banks[bank].knots);
  };
  put(0, {{10, 5, 0, 0}});
  put(1, {{uint64_t{1} << 63, 5, 0, 0},  // beyond what stamps can be
          {100, -1, 0, 0},               // before the boot
          {1000, 2000, 30, 400},
          {1000, 2001, 0, 0},        // the counter stands still
          {1001, 2000, 0, 0},        // time stands still
          {2000, 1002000, 0, 0},     // 1000 ns per tick
          {3000, 2002001, 0, 0},     // more
          {1002000, 1003000, 0, 0},  // back
          {1002000, 1003000 + 999999, 0, 0},
          {11002000, 2012999, 0, 0},   // 1/1000 ns per tick
          {22002001, 2023998, -1, 0},  // less
          {11002500, 2014000, 1 << 30, INT64_MAX},
          {11002600, 2014100, (1 << 30) + 1, INT64_MIN}});
  made.header.knot_bank = 0;
  CHECK_EQ(knots_read(made).size(), 1);
  made.header.knot_bank = 2;  // only the lowest bit counts
  CHECK_EQ(knots_read(made).size(), 1);
  made.header.knot_bank = 3;
  const std::vector<fp::ClockKnot> knots = knots_read(made);
  std::string ticks;
  for (const fp::ClockKnot& knot : knots) ticks += std::to_string(knot.ticks) + " ";
  CHECK_EQ(ticks, "1000 2000 1002000 11002000 11002500 11002600 ");
  CHECK(knots[0].bracket_ticks == 30 && knots[0].suspended_ns == 100);
  CHECK_EQ(knots[4].bracket_ticks, 1 << 30);
  CHECK_EQ(knots[4].suspended_ns, kMost / 4);
  CHECK_EQ(knots[5].bracket_ticks, 1 << 30);
  CHECK_EQ(knots[5].suspended_ns, -kMost / 4);
  const Folder folder;
  made.write(folder.file());
  CHECK_EQ(fp::BackingReader(folder.file(), UINT64_MAX).damaged(), 7);
  // There are 500 at most.
  made.banks[1].count = 501;
  for (size_t i = 0; i < 500; ++i)
    made.banks[1].knots[i] = {1000 + i, static_cast<int64_t>(i), 0, 0};
  CHECK_EQ(knots_read(made).size(), 500);
}

TEST(damaged_slabs_and_chunks_are_counted) {
  CHECK_EQ(damaged([](Image&) {}), 0);
  CHECK_EQ(damaged([](Image& i) { i.slab.slab.magic = 0; }), 0);  // reserved
  CHECK_EQ(damaged([](Image& i) { ++i.slab.slab.magic; }), 1);
  CHECK_EQ(damaged([](Image& i) { ++i.slab.slab.header_bytes; }), 1);
  CHECK_EQ(damaged([](Image& i) { i.chunks[0].header.magic = 0; }), 0);  // not handed out
  CHECK_EQ(damaged([](Image& i) { ++i.chunks[0].header.magic; }), 1);
  CHECK_EQ(damaged([](Image& i) { ++i.chunks[0].header.header_bytes; }), 1);
  CHECK_EQ(damaged([](Image& i) { i.chunks[0].header.track_id = 0; }), 1);
  CHECK_EQ(damaged([](Image& i) {
             i.chunks[0].header.track_id = 0;
             i.chunk(0);
             i.chunk(2);
           }),
           2);
}

TEST(names_of_threads_and_all_chunks_of_a_slab) {
  const Folder folder;
  Image made = image_of_one_record();
  const std::string name(63, 'n');
  for (uint32_t i = 0; i < 30; ++i) made.chunk(2 + i, 0, name);
  made.slab.labels[1].name_length = 64;
  made.slab.labels[2].name_length = UINT32_MAX;
  made.slab.labels[3].name_length = 62;
  made.slab.generation = 8;
  made.write(folder.file());
  const fp::BackingReader reader(folder.file(), UINT64_MAX);
  const std::vector<fp::FileChunk>& chunks = reader.chunks();
  CHECK_EQ(chunks.size(), 31);
  CHECK_EQ(chunks[0].offset, (2 << 20) + 65536);
  CHECK_EQ(chunks[30].offset, (2 << 20) + 31 * 65536);
  CHECK_EQ(chunks[30].generation, 8);
  CHECK(chunks[0].thread.empty());
  CHECK_EQ(chunks[1].thread, name);
  CHECK_EQ(chunks[2].thread, name);
  CHECK_EQ(chunks[3].thread, name.substr(1));
}

TEST(directories_are_read_to_what_is_complete) {
  const Folder folder;
  const auto texts = [&folder](auto&& change) {
    Image made;
    made.entries = Entries();
    for (uint64_t at : {1, 2, 3}) made.entries.text(fp::EntryType::text, at, "text");
    change(made);
    made.write(folder.file());
    const fp::BackingReader reader(folder.file(), UINT64_MAX);
    return std::to_string(reader.texts().size()) + " " + std::to_string(reader.damaged());
  };
  CHECK_EQ(texts([](Image&) {}), "3 0");
  CHECK_EQ(texts([](Image& i) { i.directory.used = 64; }), "2 0");
  CHECK_EQ(texts([](Image& i) { i.directory.used = 64 + 23; }), "2 0");
  CHECK_EQ(texts([](Image& i) { i.directory.used = 64 + 24; }), "2 1");  // an entry that is cut
  CHECK_EQ(texts([](Image& i) { i.directory.used = 96 + 24; }), "3 1");  // zeroes behind it
  CHECK_EQ(texts([](Image& i) { ++i.directory.magic; }), "0 1");
  CHECK_EQ(texts([](Image& i) { ++i.directory.header_bytes; }), "0 1");
  // More than there is room for: 2 MB, less the header's 64 KB and the directory's.
  CHECK_EQ(texts([](Image& i) { i.directory.used = UINT64_MAX; }), "3 1");
  const auto with = [&texts](uint32_t size, uint32_t text_bytes = 4) {
    return texts([=](Image& i) {
      i.entries.add(fp::EntryType::text, 4, "text", text_bytes, size);
      i.entries.text(fp::EntryType::text, 5, "text");
    });
  };
  CHECK_EQ(with(32), "5 0");
  CHECK_EQ(with(33), "3 1");
  CHECK_EQ(with(16), "3 1");
  CHECK_EQ(with(24), "3 2");  // no room for its text, and the next entry is none
  CHECK_EQ(with(64), "4 0");  // it takes all that is left
  CHECK_EQ(with(72), "3 1");
  CHECK_EQ(with(32, 8), "5 0");
  CHECK_EQ(with(32, 9), "4 1");
  CHECK_EQ(texts([](Image& i) {
             i.entries.text(static_cast<fp::EntryType>(99), 4, "of a newer version");
             i.entries.text(fp::EntryType::metadata, 0, "no zero");
             i.entries.text(fp::EntryType::module, 7, "library");
           }),
           "3 1");
}

TEST(directories_of_further_segments_are_read) {
  const Folder folder;
  Image made = image_of_one_record();
  made.write(folder.file(), 6 << 20);
  fp::Directory directory{};
  directory.magic = fp::kDirectoryMagic;
  directory.header_bytes = sizeof directory;
  Entries entries;
  entries.text(fp::EntryType::text, 9, "there");
  entries.text(fp::EntryType::module, 7, "library");
  directory.used = entries.bytes.size();
  const int fd = ::open(folder.file().c_str(), O_RDWR | O_CLOEXEC);
  const off_t at = 4 << 20;
  CHECK(::pwrite(fd, &directory, sizeof directory, at) == sizeof directory);
  CHECK(::pwrite(fd, entries.bytes.data(), entries.bytes.size(), at + 64) > 0);
  {
    const fp::BackingReader reader(folder.file(), UINT64_MAX);
    CHECK_EQ(reader.texts().at(9), "there");
    CHECK(reader.modules() == (std::vector<std::pair<uint64_t, std::string>>{{7, "library"}}));
    CHECK_EQ(reader.chunks().size(), 1);
    CHECK_EQ(reader.damaged(), 0);
  }
  // Entries that the file does not contain any more.
  CHECK_EQ(::ftruncate(fd, at + 64 + 10), 0);
  {
    // What is shorter than the header of a slab is not looked at.
    const fp::BackingReader reader(folder.file(), UINT64_MAX);
    CHECK(reader.texts().empty() && reader.damaged() == 0);
  }
  CHECK_EQ(::ftruncate(fd, at + 65536), 0);
  directory.used = 65536;
  CHECK(::pwrite(fd, &directory, sizeof directory, at) == sizeof directory);
  CHECK_EQ(fp::BackingReader(folder.file(), UINT64_MAX).damaged(), 1);
  ::close(fd);
}

TEST(sites_that_cannot_be_right_are_left_out) {
  const Folder folder;
  const auto accepted = [&folder](const SiteParts& parts) {
    Image made;
    made.entries.add(fp::EntryType::site, kSite, parts.content(), 0);
    made.write(folder.file());
    const fp::BackingReader reader(folder.file(), UINT64_MAX);
    CHECK_EQ(reader.sites().size() + reader.damaged(), 1);
    return reader.sites().size() == 1;
  };
  const auto with = [](auto&& change, std::vector<uint8_t> types = {}) {
    SiteParts parts("site", std::move(types));
    change(parts);
    return parts;
  };
  CHECK(accepted(SiteParts()));
  CHECK(accepted(with([](SiteParts& p) { p.entry.kind = 8; })));
  CHECK(!accepted(with([](SiteParts& p) { p.entry.kind = 9; })));
  constexpr auto scopes = static_cast<uint8_t>(fp::RecordScope::NUM_SCOPES);
  CHECK(accepted(with([](SiteParts& p) { p.entry.scope = scopes - 1; })));
  CHECK(!accepted(with([](SiteParts& p) { p.entry.scope = scopes; })));
  CHECK(accepted(SiteParts("site", std::vector<uint8_t>(12, 5))));
  CHECK(!accepted(SiteParts("site", std::vector<uint8_t>(13, 5))));
  CHECK(!accepted(SiteParts("site", {6})));
  CHECK(accepted(with([](SiteParts& p) { p.entry.arg_units = 4; })));
  CHECK(!accepted(with([](SiteParts& p) { p.entry.arg_units = 5; })));
  CHECK(!accepted(with([](SiteParts& p) { p.entry.arg_units = 1; }, {0, 0, 0, 0})));
  CHECK(accepted(with([](SiteParts& p) { p.entry.arg_units = 1; }, {0, 0, 0})));
  // Kinds that have their own payload.
  const auto kind_with_units = [&](fp::SiteKind kind, uint8_t units, std::vector<uint8_t> types) {
    return accepted(with(
        [&](SiteParts& p) {
          p.entry.kind = static_cast<uint8_t>(kind);
          p.entry.arg_units = units;
        },
        std::move(types)));
  };
  CHECK(kind_with_units(fp::SiteKind::memory, 1, {}));
  CHECK(!kind_with_units(fp::SiteKind::memory, 0, {}));
  CHECK(!kind_with_units(fp::SiteKind::memory, 2, {}));
  CHECK(kind_with_units(fp::SiteKind::out_of_memory, 1, {}));
  CHECK(!kind_with_units(fp::SiteKind::out_of_memory, 0, {}));
  CHECK(kind_with_units(fp::SiteKind::counter, 0, {0}));
  CHECK(!kind_with_units(fp::SiteKind::counter, 0, {}));
  CHECK(!kind_with_units(fp::SiteKind::counter, 1, {0, 0}));
}

TEST(sites_whose_texts_do_not_fit_are_left_out) {
  const Folder folder;
  // An entry of `size` bytes: the first ones of a site's.
  const auto accepted = [&folder](const SiteParts& parts, size_t size) {
    Image made;
    made.entries.add(fp::EntryType::site, kSite, parts.content().substr(0, size), 0);
    made.write(folder.file());
    const fp::BackingReader reader(folder.file(), UINT64_MAX);
    CHECK_EQ(reader.sites().size() + reader.damaged(), 1);
    return reader.sites().size() == 1;
  };
  SiteParts parts("name", {0});
  // 24 + 1 type + 4 texts of 4 + n bytes + the argument's: lengths that end with a word.
  parts.texts = {"abc", "", "", "", "a"};
  CHECK_EQ(parts.content().size(), 24 + 1 + 20 + 4);
  parts.texts[4] = "abcdefgh";
  CHECK_EQ(parts.content().size() % 8, 0);
  const size_t all = parts.content().size();
  CHECK(accepted(parts, all));
  for (size_t size = 0; size < all; size += 8) CHECK(!accepted(parts, size));
}
