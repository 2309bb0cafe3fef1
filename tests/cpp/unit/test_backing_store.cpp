// SPDX-License-Identifier: Apache-2.0
// The file that slabs lie in, step by step: its header, its directory of names, what of the pool is
// set aside meanwhile, and what is left once it is closed.
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstring>
#include <vector>

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#endif

#include "backing_file_checks.hpp"
#include "private_state.hpp"

using namespace recorder_checks;
using namespace private_state;
using backing_file_checks::Folder;

namespace {

constexpr uint64_t kPerSlab = 31;

// Brings the file into force for session slot 5.
void open_file(fp::State* s, const std::string& path) {
  const fp::OpenedFile opened = fp::open_backing_file(s, path.c_str());
  CHECK_EQ(opened.error, 0);
  CHECK(opened.fd >= 0 && opened.segment != nullptr);
  CHECK(fp::enforce_file(s, opened, 5));
}

template <class T>
T read_at(const std::string& path, uint64_t offset) {
  T value{};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK_EQ(::pread(fd, &value, sizeof value, static_cast<off_t>(offset)), sizeof value);
  ::close(fd);
  return value;
}

int64_t size_of(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 ? int64_t{facts.st_size} : -1;
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

// Limits the length of files for as long as it lives: the process has no room for more.
class ShortFiles {
 public:
  explicit ShortFiles(uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    CHECK_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~ShortFiles() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  ShortFiles(const ShortFiles&) = delete;
  ShortFiles& operator=(const ShortFiles&) = delete;

 private:
  rlimit before_;
};

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
    const ShortFiles limit(2097151);
    const fp::OpenedFile large = fp::open_backing_file(s.get(), folder.file("b").c_str());
    CHECK_EQ(large.error, EFBIG);
    CHECK(large.no_room);
    CHECK_EQ(large.fd, -1);
    CHECK(!backing_file_checks::exists(folder.file("b")));
  }
  const ShortFiles limit(2097152);  // room for the header's segment
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
    const ShortFiles limit(2097152);
    add_text(file, 0x2000, "no second directory");
    CHECK_EQ(file->names_lost, 2);
    CHECK_EQ(file->header->names_lost, 2);
    CHECK_EQ(file->directory_count, 1);
  }
  const ShortFiles limit(2 * 2097152);
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

TEST(the_pool_lies_in_the_file_while_it_is_in_force) {
  const Folder folder;
  const auto s = make_state();
  fp::Chunk* used = fp::take_chunk(s.get(), false);
  fp::give_chunk(s.get(), fp::take_chunk(s.get(), false));
  const fp::BlankSlab ready = fp::take_blank(s.get());
  fp::init_slab(s.get(), ready);
  fp::add_ready(s.get(), ready.slab);
  open_file(s.get(), folder.file());
  fp::BackingFile* file = s->backing_file;
  // One free chunk and 29 that were not carved yet are set aside, and the slab that was ready.
  CHECK_EQ(s->chunk_count, 1);
  CHECK_EQ(s->free_count, 0);
  CHECK_EQ(s->ready_count, 0);
  CHECK(s->free_chunks == nullptr && s->ready == nullptr && s->carving == nullptr);
  CHECK(file->parked_ready == ready.slab);
  CHECK_EQ(fp::slab_of(used)->free, 30);
  CHECK_EQ(fp::slab_of(used)->carved, 31);
  size_t parked = 0;
  for (const fp::Chunk* at = file->parked_chunks; at != nullptr; at = at->next) ++parked;
  CHECK_EQ(parked, 30);

  fp::Chunk* inside = fp::take_chunk(s.get(), false);
  const auto* slab = reinterpret_cast<const fp::FileSlab*>(fp::slab_of(inside));
  CHECK(fp::is_file_slab(&slab->slab));
  CHECK_EQ(slab->slab.header_bytes, 96 + 96 * 31);
  CHECK_EQ(slab->generation, 1);
  CHECK_EQ(slab->segment, 1);
  CHECK_EQ(slab->address, reinterpret_cast<uintptr_t>(slab));
  CHECK(file->slabs == slab && slab->next == nullptr);
  CHECK(s->slabs == fp::slab_of(used));  // slabs of files are listed there only
  CHECK_EQ(read_at<uint32_t>(folder.file(), 2097152), 0x46505331);
  CHECK_EQ(read_at<uint32_t>(folder.file(), 2097152 + 65536), 0x46504331);
  CHECK(backing_file_checks::stored_bytes(folder.file()) >= 131072 + 2097152);
  CHECK(fp::may_reuse(s.get(), inside));
  CHECK(!fp::may_reuse(s.get(), used));
  CHECK(fp::in_current_file(s.get(), &slab->slab));
  CHECK(!fp::in_current_file(s.get(), fp::slab_of(used)));

  // What lies outside is set aside when it is given back, too.
  fp::give_chunk(s.get(), used);
  CHECK(file->parked_chunks == used);
  CHECK(used->place == fp::ChunkPlace::free);
  CHECK_EQ(s->chunk_count, 1);
  fp::give_chunk(s.get(), inside);
  CHECK(s->free_chunks == inside);
  CHECK(fp::take_chunk(s.get(), false) == inside);
  fp::Chunk* other = fp::take_chunk(s.get(), false);
  fp::give_chunk(s.get(), other);
  CHECK_EQ(s->chunk_count, 2);
  fp::trim_pool(s.get());  // not while a file is in force
  CHECK_EQ(s->free_count, 1);

  for (fp::SessionSlot& slot : s->sessions) slot.dropped_in_file = slot.dropped;
  fp::end_file(s.get());
  for (const fp::SessionSlot& slot : s->sessions) CHECK(slot.dropped_in_file == nullptr);
  // What was set aside is back; the free chunk of the file is gone, the one in use stays mapped.
  CHECK_EQ(s->free_count, 31);
  CHECK_EQ(s->chunk_count, 32);
  CHECK_EQ(s->ready_count, 1);
  CHECK(s->ready == ready.slab);
  CHECK(file->parked_chunks == nullptr && file->parked_ready == nullptr);
  CHECK(s->carving == nullptr);
  CHECK(file->slabs == slab);
  CHECK(!fp::in_current_file(s.get(), &slab->slab));
  CHECK(!fp::may_reuse(s.get(), inside));
  CHECK(fp::may_reuse(s.get(), used));
  // Given back, its slab becomes untouched memory for the next file.
  fp::give_chunk(s.get(), inside);
  CHECK_EQ(s->chunk_count, 31);
  CHECK_EQ(s->free_count, 31);
  CHECK(file->slabs == nullptr);
  CHECK(file->retired != nullptr && file->retired->slab == &slab->slab);
  CHECK_EQ(slab->slab.magic, 0);
  CHECK_EQ(read_at<uint32_t>(folder.file(), 2097152), 0x46505331);

  open_file(s.get(), folder.file("b"));
  const fp::Chunk* next = fp::take_chunk(s.get(), false);
  CHECK(fp::slab_of(next) == &slab->slab);
  CHECK_EQ(slab->generation, 2);
  CHECK(file->retired == nullptr);
  fp::end_file(s.get());
}

TEST(slabs_of_a_file_that_are_not_used_any_more_go_with_it) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  const auto in_file = [&] {
    const fp::BlankSlab blank = fp::take_blank(s.get());
    fp::init_slab(s.get(), blank);
    return blank.slab;
  };
  std::vector<fp::Chunk*> chunks;
  for (uint64_t i = 0; i < 3 * kPerSlab; ++i) chunks.push_back(fp::take_chunk(s.get(), false));
  for (uint64_t i = 0; i < 2 * kPerSlab; ++i)
    if (i != kPerSlab) fp::give_chunk(s.get(), chunks[i]);
  fp::add_ready(s.get(), in_file());
  fp::Slab* late = in_file();  // faulted in when the file is closed already
  CHECK_EQ(s->ready_count, 1);
  fp::BackingFile* file = s->backing_file;
  CHECK_EQ(file->segments, 6);
  fp::end_file(s.get());
  CHECK_EQ(s->ready_count, 0);
  CHECK_EQ(s->free_count, 0);
  CHECK_EQ(s->chunk_count, kPerSlab + 1);
  size_t listed = 0;
  for (const fp::FileSlab* at = file->slabs; at != nullptr; at = at->next) {
    const bool in_use = &at->slab == fp::slab_of(chunks[kPerSlab]) ||
                        &at->slab == fp::slab_of(chunks[2 * kPerSlab]);
    CHECK(in_use);
    ++listed;
  }
  CHECK_EQ(listed, 2);
  size_t retired = 0;
  for (const fp::BlankSlabPlace* at = file->retired; at != nullptr; at = at->next) ++retired;
  CHECK_EQ(retired, 3);
  CHECK_EQ(late->magic, 0);
  // The last chunk in use takes its slab along.
  fp::give_chunk(s.get(), chunks[kPerSlab]);
  CHECK(&file->slabs->slab == fp::slab_of(chunks[2 * kPerSlab]));
  CHECK(file->slabs->next == nullptr);
}

TEST(a_slab_that_comes_too_late_is_not_used) {
  const Folder folder;
  const auto s = make_state();
  const fp::BlankSlab outside = fp::take_blank(s.get());
  fp::init_slab(s.get(), outside);
  open_file(s.get(), folder.file());
  fp::add_ready(s.get(), outside.slab);  // lies outside the file
  CHECK_EQ(s->ready_count, 0);
  CHECK(s->backing_file->parked_ready == outside.slab);
  const fp::BlankSlab inside = fp::take_blank(s.get());
  CHECK_EQ(inside.generation, 1);
  CHECK_EQ(inside.segment, 1);
  fp::end_file(s.get());
  CHECK_EQ(s->ready_count, 1);
  fp::init_slab(s.get(), inside);
  fp::add_ready(s.get(), inside.slab);
  CHECK_EQ(s->ready_count, 1);
  CHECK(s->ready == outside.slab);
  CHECK(s->backing_file->slabs == nullptr);
}

TEST(a_file_without_room_falls_back_to_what_was_set_aside) {
  const Folder folder;
  const auto s = make_state();
  fp::Chunk* before = fp::take_chunk(s.get(), false);
  fp::give_chunk(s.get(), before);
  open_file(s.get(), folder.file());
  fp::BackingFile* file = s->backing_file;
  fp::Chunk* inside = fp::take_chunk(s.get(), false);
  CHECK(fp::take_parked(s.get()) == nullptr);
  CHECK(!fp::may_reuse(s.get(), before));
  std::vector<fp::Chunk*> chunks;
  for (uint64_t i = 0; i < kPerSlab - 1; ++i) chunks.push_back(fp::take_chunk(s.get(), false));
  const ShortFiles limit(2 * 2097152);
  fp::Chunk* more = fp::take_chunk(s.get(), false);
  CHECK_EQ(file->fallback_slabs, 1);
  CHECK_EQ(file->header->fallback_slabs, 1);
  CHECK_EQ(file->fallback_error, EFBIG);
  CHECK_EQ(file->header->fallback_error, EFBIG);
  CHECK(!fp::is_file_slab(fp::slab_of(more)));
  CHECK(fp::may_reuse(s.get(), before));
  CHECK(fp::may_reuse(s.get(), inside));
  // From here on, what was set aside comes first.
  const fp::BlankSlab blank = fp::take_blank(s.get());
  CHECK_EQ(blank.generation, 0);
  CHECK_EQ(file->fallback_slabs, 2);
  fp::init_slab(s.get(), blank);
  fp::add_ready(s.get(), blank.slab);
  CHECK_EQ(s->ready_count, 1);
  const uint64_t count = s->chunk_count;
  const uint32_t free = fp::slab_of(before)->free;
  const fp::Chunk* next = file->parked_chunks->next;
  fp::Chunk* parked = fp::take_parked(s.get());
  CHECK(parked != nullptr && fp::slab_of(parked) == fp::slab_of(before));
  CHECK(file->parked_chunks == next);
  CHECK_EQ(s->chunk_count, count + 1);
  CHECK_EQ(fp::slab_of(before)->free, free - 1);
  fp::count_fallback(file, ENOSPC);  // the first error is kept
  CHECK_EQ(file->header->fallback_slabs, 3);
  CHECK_EQ(file->header->fallback_error, EFBIG);
  fp::end_file(s.get());
}

TEST(a_segment_that_cannot_be_had_says_why) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  fp::BackingFile* file = s->backing_file;
  char* address = nullptr;
  int error = 0;
  const int fd = file->fd;
  const int reader = ::open(folder.file().c_str(), O_RDONLY | O_CLOEXEC);
  file->fd = reader;
  CHECK_EQ(fp::take_segment(file, 65536, nullptr, &address, &error), 0);
  CHECK(error != 0);
  CHECK_EQ(file->segments, 1);
  CHECK(fp::map_segment(reader, 0, nullptr) == nullptr);  // not for writing
  CHECK_EQ(errno, EACCES);
  file->fd = fd;
  ::close(reader);
  CHECK_EQ(fp::take_segment(file, 65536, nullptr, &address, &error), 1);
  CHECK_EQ(error, 0);
  CHECK_EQ(reinterpret_cast<uintptr_t>(address) % 2097152, 0);
  address[100] = 'z';
  address[2097151] = 'e';
  CHECK_EQ(read_at<char>(folder.file(), 2097152 + 100), 'z');
  CHECK_EQ(read_at<char>(folder.file(), 2 * 2097152 - 1), 'e');
  char* second = nullptr;
  CHECK_EQ(fp::take_segment(file, 2097152, address, &second, &error), 2);  // where it is wanted
  CHECK(second == address);
  CHECK_EQ(second[100], 0);
  fp::unmap_segment(second);
  second[100] = 'y';
  CHECK_EQ(read_at<char>(folder.file(), 2 * 2097152 + 100), 0);
  CHECK_EQ(size_of(folder.file()), 3 * 2097152);
  fp::end_file(s.get());
}

TEST(a_child_stores_nothing_in_its_parents_file) {
  const Folder folder;
  const auto s = make_state();
  open_file(s.get(), folder.file());
  fp::BackingFile* file = s->backing_file;
  CHECK(fp::add_directory(file));
  fp::Chunk* first = fp::take_chunk(s.get(), false);
  for (uint64_t i = 1; i < kPerSlab; ++i) fp::take_chunk(s.get(), false);
  fp::Chunk* second = fp::take_chunk(s.get(), false);
  CHECK_EQ(in_child([&] {
             const int fd = file->fd;
             fp::leave_file_in_child(s.get());
             if (fp::file_in_force(s.get()) || file->slabs != nullptr || is_open(fd)) return 1;
             if (file->fd != -1 || file->parked_chunks != nullptr) return 2;
             if (first->magic != 0 || second->magic != 0 || file->header->format != 0) return 3;
             first->magic = second->magic = 1;  // is mapped, but not in the file
             file->header->format = 9;
             fp::leave_file_in_child(s.get());
             return 0;
           }),
           0);
  CHECK_EQ(first->magic, fp::kChunkMagic);
  CHECK_EQ(second->magic, fp::kChunkMagic);
  CHECK_EQ(read_at<fp::BackingHeader>(folder.file(), 0).format, 1);
  fp::end_file(s.get());
  const auto without = make_state();
  fp::leave_file_in_child(without.get());
  CHECK(without->backing_file == nullptr);
}

TEST(chunks_in_the_file_are_labelled_with_their_thread) {
  const Folder folder;
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::label_chunk(s.get(), track);  // no chunk yet
  open_chunk(s.get(), track);
  fp::set_track_text(track, "outside", 7, "");
  fp::label_chunk(s.get(), track);  // lies in no file: nothing to write
  open_file(s.get(), folder.file());
  begin_session(s.get(), 4);
  fp::Track* other = fp::new_track(s.get());
  other->is_signal = 1;
  open_chunk(s.get(), other);
  fp::Chunk* chunk = open_chunk(s.get(), other);  // the second of the slab
  fp::set_track_name(s.get(), other, "worker", 6);
  const fp::ChunkLabel& label = fp::file_slab_of(chunk)->labels[1];
  CHECK_EQ(label.track_id, 2);
  CHECK_EQ(label.is_signal, 1);
  CHECK_EQ(label.name_length, 6);
  CHECK_EQ(std::string(label.name), "worker");
  CHECK_EQ(label.sessions, 16);
  CHECK_EQ(fp::file_slab_of(chunk)->labels[2].track_id, 0);
  fp::end_file(s.get());
}
