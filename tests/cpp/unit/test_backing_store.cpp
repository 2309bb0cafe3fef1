// SPDX-License-Identifier: Apache-2.0
// The file that slabs lie in: how it is made, its header, and its directory of names.
#include <cstring>
#include <string>

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "backing_store_checks.hpp"
#include "process_changes.hpp"

using namespace recorder_checks;
using namespace private_state;
using namespace backing_store_checks;
using backing_file_checks::Folder;
using namespace process_changes;

namespace {

void add_text(fp::BackingFile* file, uint64_t address, const std::string& text) {
  fp::add_text_entry(file, fp::EntryType::text, reinterpret_cast<const void*>(address), text.data(),
                     text.size());
}

}  // namespace

TEST(the_header_describes_process_and_layout) {
  const Folder folder;
  const auto s = make_state();
  s->node_id = 3;
  s->slow_clock = 1;
  const int64_t before = fp::platform::monotonic_ns();
  open_file(s.get(), folder.file());
  const auto header = read_at<fp::BackingHeader>(folder.file(), 0);
  CHECK(std::memcmp(header.magic, "fastprof\2store\r\n", 16) == 0);
  CHECK_EQ(header.format, 1);
  CHECK_EQ(header.header_bytes, 512);
  CHECK_EQ(header.byte_order, 0x01020304);
  CHECK_EQ(header.segment_bytes, 2097152);
  CHECK_EQ(header.chunk_bytes, 65536);
  CHECK_EQ(header.pid, ::getpid());
  CHECK_EQ(header.parent_pid, ::getppid());
  CHECK(header.opened_monotonic_ns >= before);
  CHECK_EQ(header.node_id, 3);
  CHECK_EQ(header.slow_clock, 1);
  CHECK_EQ(header.segments, 1);
  CHECK_EQ(header.fallback_slabs, 0);
  CHECK_EQ(header.names_lost, 0);
  const auto directory = read_at<fp::Directory>(folder.file(), 65536);
  CHECK_EQ(directory.magic, 0x46504431);
  CHECK_EQ(directory.header_bytes, 64);
  CHECK_EQ(directory.used, 0);
  CHECK_EQ(directory.segment, 0);
  CHECK_EQ(size_of(folder.file()), 2097152);
  CHECK(backing_file_checks::stored_bytes(folder.file()) >= 131072);

  const fp::BackingFile& file = *s->backing_file;
  CHECK_EQ(file.owner, 5);
  CHECK_EQ(file.in_force, 1);
  CHECK_EQ(file.generation, 1);
  CHECK_EQ(file.segments, 1);
  CHECK_EQ(file.directory_count, 1);
  CHECK_EQ(file.directory_reserved, 131072);
  CHECK(fp::file_session(&file, 2) ==
        reinterpret_cast<fp::FileSession*>(reinterpret_cast<char*>(file.header) + 4096 + 2 * 192));
  fp::end_file(s.get());
}

TEST(one_file_at_a_time) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  const fp::OpenedFile second = fp::open_backing_file(s.get(), folder.file("b").c_str());
  CHECK_EQ(second.error, 0);
  CHECK(!fp::enforce_file(s.get(), second, 6));
  CHECK_EQ(s->backing_file->owner, 5);
  fp::BackingHeader* header = s->backing_file->header;
  const int first_fd = s->backing_file->fd;
  fp::end_file(s.get());
  CHECK_EQ(s->backing_file->in_force, 0);
  CHECK_EQ(s->backing_file->fd, -1);
  CHECK(!is_open(first_fd));
  header->names_lost = 1;  // stays mapped, but no longer in the file
  CHECK_EQ(read_at<fp::BackingHeader>(folder.file(), 0).names_lost, 0);
  // The next file is mapped at the same address.
  CHECK(fp::enforce_file(s.get(), second, 6));
  CHECK(s->backing_file->header == header);
  CHECK_EQ(header->names_lost, 0);
  CHECK_EQ(s->backing_file->generation, 2);
  CHECK_EQ(s->backing_file->owner, 6);
  header->names_lost = 4;
  CHECK_EQ(read_at<fp::BackingHeader>(folder.file("b"), 0).names_lost, 4);
  fp::end_file(s.get());
  fp::end_file(s.get());  // does nothing
}

TEST(files_that_cannot_be_made_say_why) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  fp::end_file(s.get());
  const fp::OpenedFile again = fp::open_backing_file(s.get(), folder.file().c_str());
  CHECK_EQ(again.error, EEXIST);
  CHECK(!again.no_room);
  CHECK_EQ(again.fd, -1);
  const fp::OpenedFile nowhere =
      fp::open_backing_file(s.get(), (folder.path() + "/none/a").c_str());
  CHECK_EQ(nowhere.error, ENOENT);
  CHECK(!nowhere.no_room);
  CHECK_EQ(nowhere.fd, -1);
  {
    const FileLimit limit(2097151);
    const fp::OpenedFile large = fp::open_backing_file(s.get(), folder.file("b").c_str());
    CHECK_EQ(large.error, EFBIG);
    CHECK(large.no_room);
    CHECK_EQ(large.fd, -1);
    CHECK(!backing_file_checks::exists(folder.file("b")));
  }
  const FileLimit limit(2097152);  // room for the header's segment
  open_file(s.get(), folder.file("b"));
  fp::end_file(s.get());
  const fp::OpenedFile fresh;
  CHECK_EQ(fresh.fd, -1);
  CHECK_EQ(fresh.error, 0);
  CHECK(!fresh.no_room);
}

TEST(names_of_temporary_files_fit_or_are_refused) {
  const Folder folder;
  const std::string path = folder.file();
  const size_t folder_length = path.size() - 1;
  char name[4096];
  errno = 0;
  CHECK_EQ(fp::backing::open_unnamed(path.c_str(), name, folder_length + 1), -1);
  CHECK_EQ(errno, ENAMETOOLONG);
  const int fd = fp::backing::open_unnamed(path.c_str(), name, sizeof name);
  CHECK(fd >= 0);
  const bool unnamed = name[0] == 0;
  ::close(fd);
  if (unnamed) {
    const int fits = fp::backing::open_unnamed(path.c_str(), name, folder_length + 2);
    CHECK(fits >= 0 && name[0] == 0);
    ::close(fits);
    CHECK_EQ(in_child([&] {
               // A path without a folder: the current one.
               if (::chdir(folder.path().c_str()) != 0) return 1;
               char own[64];
               if (fp::backing::open_unnamed("xy", own, sizeof own) < 0) return 2;
               return own[0] == 0 ? 0 : 3;
             }),
             0);
  } else {
    ::unlink(name);
  }
  // No folder: neither kind of file can be made.
  const std::string none = folder.path() + "/none/a";
  CHECK_EQ(fp::backing::open_unnamed(none.c_str(), name, none.size() + 8), -1);
  CHECK_EQ(errno, ENOENT);
  CHECK_EQ(name[0], 0);
  CHECK_EQ(fp::backing::open_unnamed(none.c_str(), name, none.size() + 7), -1);
  CHECK_EQ(errno, ENAMETOOLONG);
  CHECK_EQ(name[0], 0);
}

#if defined(__linux__) && defined(SYS_seccomp)
namespace {

// From now on, no file system has files without a name. False if that cannot be arranged.
bool refuse_unnamed_files() {
  constexpr uint32_t kUnnamed = O_TMPFILE & ~O_DIRECTORY;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kUnnamed, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof code / sizeof code[0], code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

TEST(a_file_system_without_unnamed_files_gets_a_temporary_one) {
  const Folder folder;
  const int status = in_child([&] {
    if (!refuse_unnamed_files()) return 77;
    if (fp::platform::open_unnamed_file(folder.path().c_str(), true) >= 0) return 77;
    const auto s = make_state();
    char name[4096];
    const int fd = fp::backing::open_unnamed(folder.file().c_str(), name, sizeof name);
    if (fd < 0) return 1;
    if (std::string(name).find(folder.file() + ".") != 0) return 2;
    if (!backing_file_checks::exists(name)) return 3;
    ::unlink(name);
    ::close(fd);
    open_file(s.get(), folder.file());
    fp::end_file(s.get());
    const fp::OpenedFile again = fp::open_backing_file(s.get(), folder.file().c_str());
    if (again.error != EEXIST) return 4;
    return check::failures().load() == 0 ? 0 : 5;
  });
  if (status == 77) SKIP("system calls cannot be refused here");
  CHECK_EQ(status, 0);
  CHECK_EQ(size_of(folder.file()), 2097152);
  // Nothing but the file is left: the folder is empty without it.
  ::unlink(folder.file().c_str());
  CHECK_EQ(::rmdir(folder.path().c_str()), 0);
}
#endif

TEST(room_for_names_is_reserved_64_kilobytes_at_a_time) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  fp::BackingFile* file = s->backing_file;
  const fp::Directory* directory = fp::last_directory(file);
  char* first = reinterpret_cast<char*>(file->header) + 65536 + 64;
  CHECK(fp::entry_place(file, 65536 - 64) == first);  // exactly what is reserved
  CHECK_EQ(file->directory_reserved, 131072);
  CHECK(fp::entry_place(file, 65536 - 64 + 8) == first);
  CHECK_EQ(file->directory_reserved, 196608);
  CHECK(fp::entry_place(file, 3 * 65536 - 64) == first);
  CHECK_EQ(file->directory_reserved, 262144);
  CHECK(backing_file_checks::stored_bytes(folder.file()) >= 262144);

  add_text(file, 0x1000, "hello");
  CHECK_EQ(directory->used, 32);  // 24 + 5, in steps of 8
  add_text(file, 0x2000, "12345678");
  CHECK_EQ(directory->used, 64);
  const auto entry = read_at<fp::DirectoryEntry>(folder.file(), 65536 + 64 + 32);
  CHECK_EQ(entry.bytes, 32);
  CHECK(entry.type == fp::EntryType::text);
  CHECK_EQ(entry.reserved, 0);
  CHECK_EQ(entry.text_bytes, 8);
  CHECK_EQ(entry.address, 0x2000);
  CHECK_EQ(read_at<char>(folder.file(), 65536 + 64 + 32 + 24 + 7), '8');
  CHECK(fp::entry_place(file, 8) == first + 64);

  // The rest of the segment, to its last byte.
  const uint64_t rest = 2097152 - 65536 - 64 - 64;
  CHECK(fp::entry_place(file, rest) == first + 64);
  CHECK_EQ(file->directory_reserved, 2097152);
  CHECK_EQ(file->directory_count, 1);
  add_text(file, 0x3000, std::string(rest - 24, 'x'));
  CHECK_EQ(directory->used, 64 + rest);
  CHECK_EQ(file->segments, 1);

  // What comes next lies in a directory of its own.
  add_text(file, 0x4000, "next");
  CHECK_EQ(file->directory_count, 2);
  CHECK_EQ(file->directory_reserved, 65536);
  CHECK_EQ(file->segments, 2);
  CHECK_EQ(file->header->segments, 2);
  const auto second = read_at<fp::Directory>(folder.file(), 2097152);
  CHECK_EQ(second.magic, 0x46504431);
  CHECK_EQ(second.header_bytes, 64);
  CHECK_EQ(second.used, 32);
  CHECK_EQ(second.segment, 1);
  CHECK_EQ(read_at<fp::DirectoryEntry>(folder.file(), 2097152 + 64).address, 0x4000);
  const int64_t stored = backing_file_checks::stored_bytes(folder.file());
  add_text(file, 0x5000, std::string(2 * 65536, 'y'));
  CHECK_EQ(file->directory_reserved, 3 * 65536);
  CHECK(backing_file_checks::stored_bytes(folder.file()) >= stored + 2 * 65536);
  CHECK_EQ(file->names_lost, 0);
  fp::end_file(s.get());
}

TEST(an_entry_takes_a_whole_directory_at_most) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  fp::BackingFile* file = s->backing_file;
  add_text(file, 0x1000, std::string(2097152 - 64 - 24 + 1, 'x'));
  CHECK_EQ(file->names_lost, 1);
  CHECK_EQ(file->header->names_lost, 1);
  CHECK_EQ(file->directory_count, 1);
  CHECK_EQ(fp::last_directory(file)->used, 0);
  add_text(file, 0x1000, std::string(2097152 - 64 - 24, 'x'));
  CHECK_EQ(file->names_lost, 1);
  CHECK_EQ(file->directory_count, 2);
  CHECK_EQ(fp::last_directory(file)->used, 2097152 - 64);
  add_text(file, 0x2000, "more");
  CHECK_EQ(file->directory_count, 3);
  CHECK_EQ(file->names_lost, 1);
  fp::end_file(s.get());
}

TEST(a_file_has_64_directories) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  fp::BackingFile* file = s->backing_file;
  size_t count = 1;
  while (count < 100 && fp::add_directory(file)) ++count;
  CHECK_EQ(count, 64);
  CHECK_EQ(file->directory_count, 64);
  CHECK_EQ(file->segments, 64);
  fp::last_directory(file)->used = 2097152 - 64;
  add_text(file, 0x1000, "late");
  CHECK_EQ(file->names_lost, 1);
  fp::end_file(s.get());
}

TEST(names_for_which_there_is_no_room_are_counted) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  fp::BackingFile* file = s->backing_file;
  const int fd = file->fd;
  const int reader = ::open(folder.file().c_str(), O_RDONLY | O_CLOEXEC);
  file->fd = reader;  // nothing can be reserved through it
  add_text(file, 0x1000, std::string(65536, 'x'));
  CHECK_EQ(file->names_lost, 1);
  CHECK_EQ(file->directory_reserved, 131072);
  CHECK_EQ(fp::last_directory(file)->used, 0);
  add_text(file, 0x1000, "reserved before");
  CHECK_EQ(file->names_lost, 1);
  file->fd = fd;
  ::close(reader);
  fp::last_directory(file)->used = 2097152 - 65536 - 64;
  {
    const FileLimit limit(2097152);
    add_text(file, 0x2000, "no second directory");
    CHECK_EQ(file->names_lost, 2);
    CHECK_EQ(file->header->names_lost, 2);
    CHECK_EQ(file->directory_count, 1);
  }
  const FileLimit limit(2 * 2097152);
  add_text(file, 0x2000, "a second directory");
  CHECK_EQ(file->names_lost, 2);
  CHECK_EQ(file->directory_count, 2);
  fp::end_file(s.get());
}

TEST(sites_are_stored_with_their_texts) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  static const char* const names[] = {"first", "second"};
  static const fp::ArgType types[] = {fp::ArgType::string, fp::ArgType::float64};
  fp::Site site = fp::make_site(fp::SiteKind::range, 0x1234, fp::RecordScope::STATIC_RUNTIME_OP,
                                "name", "file", nullptr, 77, 2, names, types, 0xABCDEF);
  site.category_name = "cat";
  site.device_type = 4;
  site.device_index = 6;
  const auto measure = [](const char* text) { return std::strlen(text); };
  fp::add_site_entry(s->backing_file, &site, measure);
  constexpr uint64_t kAt = 65536 + 64;
  const auto entry = read_at<fp::DirectoryEntry>(folder.file(), kAt);
  // 24 each for the two headers, 2 types, 6 lengths, 22 characters: 96.
  CHECK_EQ(entry.bytes, 96);
  CHECK(entry.type == fp::EntryType::site);
  CHECK_EQ(entry.text_bytes, 0);
  CHECK_EQ(entry.address, reinterpret_cast<uintptr_t>(&site));
  const auto content = read_at<fp::SiteEntry>(folder.file(), kAt + 24);
  CHECK_EQ(content.mask, 0x1234);
  CHECK_EQ(content.kind, 0);
  CHECK_EQ(content.scope, 8);
  CHECK_EQ(content.arg_count, 2);
  CHECK_EQ(content.arg_units, 1);
  CHECK_EQ(content.line, 77);
  CHECK_EQ(content.color, 0xABCDEF);
  CHECK_EQ(content.device_type, 4);
  CHECK_EQ(content.device_index, 6);
  CHECK_EQ(content.reserved, 0);
  struct Texts {
    char bytes[48];
  };
  const auto texts = read_at<Texts>(folder.file(), kAt + 48);
  const char expected[] =
      "\4\2"
      "\4\0\0\0name\3\0\0\0cat\4\0\0\0file\0\0\0\0\5\0\0\0first\6\0\0\0second";
  CHECK_EQ(sizeof expected - 1, 48);
  CHECK(std::memcmp(texts.bytes, expected, 48) == 0);

  // Arguments that cannot be described are left out; their units stay.
  const auto arguments = [&](fp::Site copy) {
    const uint64_t at = kAt + fp::last_directory(s->backing_file)->used;
    fp::add_site_entry(s->backing_file, &copy, measure);
    const auto stored = read_at<fp::SiteEntry>(folder.file(), at + 24);
    CHECK_EQ(stored.arg_units, 1);
    return int{stored.arg_count};
  };
  fp::Site copy = site;
  CHECK_EQ(arguments(copy), 2);
  copy.arg_names = nullptr;
  CHECK_EQ(arguments(copy), 0);
  copy = site;
  copy.arg_types = nullptr;
  CHECK_EQ(arguments(copy), 0);
  static const char* const many_names[13] = {};
  static const fp::ArgType many_types[13] = {};
  copy = site;
  copy.arg_names = many_names;
  copy.arg_types = many_types;
  copy.arg_count = 12;
  CHECK_EQ(arguments(copy), 12);
  copy.arg_count = 13;
  CHECK_EQ(arguments(copy), 0);
  fp::end_file(s.get());
}
