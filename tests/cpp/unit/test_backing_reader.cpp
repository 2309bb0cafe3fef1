// SPDX-License-Identifier: Apache-2.0
// BackingReader, of files made by hand: what is refused, what counts as damaged, and what is
// accepted at the limits.
#include <fcntl.h>
#include <sys/stat.h>

#include "backing_image.hpp"
#include "text_checks.hpp"

using namespace recorder_checks;
using backing_file_checks::Folder;
using backing_file_checks::stored_bytes;
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
  options.max_bytes = stored;
  options.session_id = 999;
  CHECK_THROWS(fp::ValueError, fp::recover(folder.file(), options));
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
  CHECK_EQ(refused_at([](Image& i) { i.header.unix_offset_ns = INT64_MIN; }), "");
  CHECK_EQ(refused_at([](Image& i) { i.header.knot_bank = UINT32_MAX; }), "");
  CHECK(refused_at([](Image& i) { i.sessions[0].t0 = UINT64_MAX; }) != "");
  CHECK_EQ(refused_at([](Image& i) { i.sessions[0].t1 = 0; }), "");
  CHECK_EQ(refused_at([](Image& i) { i.banks[0].count = UINT64_MAX; }), "");
  CHECK_EQ(refused_at([](Image& i) { i.banks[0] = {1, {{UINT64_MAX, 5, 0, 0}}}; }), "");
  CHECK_EQ(refused_at([](Image& i) { i.directory.used = UINT64_MAX; }), "");
  const Folder folder;
  const auto cut = [&folder](uint64_t size) {
    image_of_one_record().write(folder.file(), size);
    return text_checks::message_of<fp::FormatError>([&] { fp::recover(folder.file()); });
  };
  CHECK(cut(511).find("offset 0: too short") != std::string::npos);
  CHECK(cut(512).find("offset 16384: the clock's knots") != std::string::npos);
  CHECK(cut(16384 + 16008).find("offset") == std::string::npos);
  CHECK(cut(16384 + 16007).find("offset 16384: the clock's knots") != std::string::npos);
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
  CHECK_EQ(damaged([](Image& i) { i.header.segments = 2; }), 0);
  CHECK_EQ(damaged([](Image& i) { i.header.segments = 5; }), 3);  // cut off
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
