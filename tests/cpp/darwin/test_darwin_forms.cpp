// SPDX-License-Identifier: Apache-2.0
// The forms of fastprof/platform for macOS, on doubles of Darwin's calls (tests/doubles/darwin).
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "fake_darwin.hpp"
#include "fastprof/payload/perf_counters/counter_probe.hpp"
#include "fastprof/platform/clock.hpp"
#include "fastprof/platform/files.hpp"
#include "fastprof/platform/images.hpp"
#include "fastprof/platform/memory.hpp"
#include "fastprof/platform/process.hpp"
#include "fastprof/platform/symbols.hpp"
#include "fastprof/platform/thread_block.hpp"
#include "fastprof/platform/threads.hpp"
#include "fastprof/platform/wait_word.hpp"
#include "fastprof/session.hpp"

namespace fp = fastprof;
namespace platform = fastprof::platform;

static_assert(FASTPROF_DARWIN == 1, "this file tests the forms for macOS");

namespace {

// A Mach-O image in memory: what a linker writes before an image's code, at address 0x1000.
struct HandmadeImage {
  mach_header_64 header{};
  segment_command_64 zero{};
  segment_command_64 text{};
  section_64 code{};
  segment_command_64 data{};
  section_64 first{}, states{};
  uuid_command uuid{};
  symtab_command symbols{};
  segment_command_64 names{};
  nlist_64 table[4]{};

  static segment_command_64 segment(const char* name, uint64_t at, uint64_t bytes, int protection,
                                    uint32_t sections = 0) {
    segment_command_64 made{};
    made.cmd = LC_SEGMENT_64;
    made.cmdsize = static_cast<uint32_t>(sizeof made + sections * sizeof(section_64));
    std::strncpy(made.segname, name, sizeof made.segname);
    made.vmaddr = at;
    made.vmsize = made.filesize = bytes;
    made.initprot = made.maxprot = protection;
    made.nsects = sections;
    return made;
  }
  static section_64 section(const char* segment, const char* name, uint64_t at, uint64_t bytes) {
    section_64 made{};
    std::strncpy(made.segname, segment, sizeof made.segname);
    std::strncpy(made.sectname, name, sizeof made.sectname);
    made.addr = at;
    made.size = bytes;
    return made;
  }
  HandmadeImage() {
    header.magic = MH_MAGIC_64;
    header.filetype = MH_DYLIB;
    header.ncmds = 6;
    zero = segment("__PAGEZERO", 0, 0x1000, 0);
    text = segment("__TEXT", 0x1000, 0x2000, VM_PROT_READ | VM_PROT_EXECUTE, 1);
    code = section("__TEXT", "__text", 0x1100, 0x100);
    data = segment("__DATA", 0x3000, 0x1000, VM_PROT_READ | VM_PROT_WRITE, 2);
    data.filesize = 0x800;
    first = section("__DATA", "__data", 0x3000, 0x100);
    states = section("__DATA", "__fastprof", 0x3100, 0x200);
    uuid.cmd = LC_UUID;
    uuid.cmdsize = sizeof uuid;
    for (unsigned i = 0; i < sizeof uuid.uuid; ++i) uuid.uuid[i] = static_cast<uint8_t>(i * 17);
    symbols.cmd = LC_SYMTAB;
    symbols.cmdsize = sizeof symbols;
    symbols.symoff = 0x5000 + 16;
    symbols.nsyms = 4;
    names = segment(SEG_LINKEDIT, 0x4000, 0x1000, VM_PROT_READ);
    names.fileoff = 0x5000;
    const uint64_t values[] = {0x1180, 0x1100, 0x1150, 0x1140};
    for (int i = 0; i < 4; ++i) {
      table[i].n_type = N_SECT;
      table[i].n_value = values[i];
    }
    table[2].n_type = 0x24;  // a debugging entry (N_FUN) between two functions counts for nothing
    header.sizeofcmds = static_cast<uint32_t>(reinterpret_cast<const char*>(&names + 1) -
                                              reinterpret_cast<const char*>(&header + 1));
  }
  uint64_t offset_of_table() const {
    return static_cast<uint64_t>(reinterpret_cast<const char*>(table) -
                                 reinterpret_cast<const char*>(this));
  }
  // Makes this object's own address the linked address 0.
  intptr_t slide() const { return reinterpret_cast<intptr_t>(this); }
};

}  // namespace

TEST(counters_are_refused_with_the_reason) {
  const std::vector<std::string> names{"task-clock", "cycles"};
  const fp::CounterProbe probe = fp::probe_counters(names);
  CHECK(!probe.available && probe.reason.find("no perf events") != std::string::npos);
  fp::SessionOptions options;
  options.counters = names;
  fp::Session session(options);
  CHECK_THROWS(fp::UnavailableError, session.start());
  CHECK(!session.running());
}

TEST(mach_time_becomes_ns_exactly_and_without_overflow) {
  CHECK_EQ(platform::mach_to_ns(24, 125, 3), 1000u);
  CHECK_EQ(platform::mach_to_ns(1, 125, 3), 41u);
  CHECK_EQ(platform::mach_to_ns(24000000, 125, 3), 1000000000u);
  CHECK_EQ(platform::mach_to_ns(123456789, 1, 1), 123456789u);
  // 200 years of 24 MHz: the product has more than 64 bits.
  const uint64_t years = uint64_t{200} * 365 * 86400;
  CHECK_EQ(platform::mach_to_ns(years * 24000000, 125, 3), years * 1000000000);
}

TEST(the_clock_of_captures_is_mach_time) {
  timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  const int64_t read = platform::monotonic_ns();
  clock_gettime(CLOCK_MONOTONIC, &after);
  const auto ns = [](const timespec& t) { return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec; };
  CHECK(read >= ns(before) - 42 && read <= ns(after));
}

TEST(a_suspend_shows_in_continuous_time_and_nothing_else_does) {
  CHECK_EQ(platform::suspended_ns() / 1000000, 0);
  fake_darwin()->suspended_ns = 5000000000;
  CHECK_EQ(platform::suspended_ns() / 1000000, 5000);
  fake_darwin()->suspended_ns = 0;
}

TEST(the_fence_stops_every_other_thread_and_gives_all_ports_back) {
  std::atomic<bool> end{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&] {
      while (!end) std::this_thread::yield();
    });
  const uint64_t before = fake_darwin()->stopped;
  CHECK(platform::register_fence());
  CHECK(platform::fence_all_threads());
  CHECK(fake_darwin()->stopped - before >= 3);  // a sanitizer has threads of its own
  CHECK_EQ(fake_darwin()->ports.load(), 0);
  end = true;
  for (std::thread& other : others) other.join();
}

TEST(the_fence_says_when_a_thread_could_not_be_stopped) {
  std::atomic<bool> end{false};
  std::thread other([&] {
    while (!end) std::this_thread::yield();
  });
  fake_darwin()->state_result = KERN_INVALID_ARGUMENT;
  CHECK(!platform::fence_all_threads());
  for (const int gone : {KERN_TERMINATED, MACH_SEND_INVALID_DEST}) {  // has ended meanwhile
    fake_darwin()->state_result = gone;
    CHECK(platform::fence_all_threads());
  }
  fake_darwin()->state_result = 0;
  fake_darwin()->threads_result = KERN_INVALID_ARGUMENT;
  CHECK(!platform::fence_all_threads());
  fake_darwin()->threads_result = 0;
  CHECK_EQ(fake_darwin()->ports.load(), 0);
  end = true;
  other.join();
}

TEST(a_session_whose_fence_fails_is_not_exact) {
  FASTPROF_RANGE("before");  // the thread that stops counts, too
  fake_darwin()->threads_result = KERN_INVALID_ARGUMENT;
  fp::Session session;
  session.start();
  { FASTPROF_RANGE("inside"); }
  session.stop();
  fake_darwin()->threads_result = 0;
  CHECK(!session.capture().exact_stop);
  CHECK_EQ(session.capture().size(), size_t{1});
}

TEST(segments_sections_and_id_of_a_mach_o_image) {
  HandmadeImage image;
  const platform::Image loaded(&image.header, 0x100000, "/lib/libhandmade.dylib");
  CHECK_EQ(loaded.first(), uintptr_t{0x101000});
  CHECK(!loaded.is_program());
  CHECK_EQ(loaded.build_id(), std::string("00112233445566778899aabbccddeeff"));
  std::vector<platform::Segment> segments;
  loaded.for_each_segment([&](const platform::Segment& s) { segments.push_back(s); });
  CHECK_EQ(segments.size(), size_t{3});  // not __PAGEZERO
  CHECK(segments[0].executable && !segments[0].writable);
  CHECK(segments[1].writable && segments[1].file_bytes == 0x800 && segments[1].bytes == 0x1000);
  CHECK(segments[1].holds(0x103fff) && !segments[1].holds(0x104000));

  size_t bytes = 0;
  const char* at = platform::find_section(&image.header, 0x100000, "__DATA", "__fastprof", &bytes);
  CHECK_EQ(reinterpret_cast<uintptr_t>(at), uintptr_t{0x103100});
  CHECK_EQ(bytes, size_t{0x200});
  CHECK(platform::find_section(&image.header, 0, "__DATA", "__fast", &bytes) == nullptr);
  CHECK(platform::find_section(&image.header, 0, "__TEXT", "__fastprof", &bytes) == nullptr);
}

TEST(damaged_load_commands_end_the_walk) {
  size_t bytes = 0;
  HandmadeImage image;
  image.header.magic = 0xfeedface;  // 32 bits
  CHECK(platform::find_section(&image.header, 0, "__DATA", "__fastprof", &bytes) == nullptr);
  image = HandmadeImage();
  image.text.cmdsize = 0;
  CHECK(platform::find_section(&image.header, 0, "__DATA", "__fastprof", &bytes) == nullptr);
  image = HandmadeImage();
  image.data.nsects = 1000000;  // more than the command has room for
  image.states.sectname[2] = 'X';
  CHECK(platform::find_section(&image.header, 0, "__DATA", "__fastprof", &bytes) == nullptr);
  image = HandmadeImage();
  image.states.size = 0x100000;  // beyond its segment
  CHECK(platform::find_section(&image.header, 0, "__DATA", "__fastprof", &bytes) == nullptr);
  image = HandmadeImage();
  image.header.sizeofcmds = 8;
  CHECK(platform::find_section(&image.header, 0, "__DATA", "__fastprof", &bytes) == nullptr);
  CHECK(platform::find_section(nullptr, 0, "__DATA", "__fastprof", &bytes) == nullptr);
}

TEST(a_symbol_is_as_long_as_the_way_to_the_next) {
  HandmadeImage image;
  image.names.vmaddr = image.offset_of_table() - 16;
  const auto size = [&](uint64_t linked) {
    return platform::size_in_symbol_table(&image.header, image.slide(), linked);
  };
  CHECK_EQ(size(0x1100), 0x40u);
  CHECK_EQ(size(0x1140), 0x40u);  // the debugging entry at 0x1150 is none
  CHECK_EQ(size(0x1150), 0u);
  CHECK_EQ(size(0x1180), 0u);  // the last: nothing follows
  image.symbols.nsyms = 1 << 30;
  CHECK_EQ(size(0x1100), 0u);  // lies outside __LINKEDIT
}

TEST(the_state_of_this_program_is_found_in_its_section) {
  const fp::discovery::Found found = fp::discovery::scan_libraries(&fp::own_state);
  CHECK_EQ(found.count, 1);
  CHECK(found.states[0] == &fp::own_state);
  CHECK_EQ(std::string(found.paths[0]), std::string());  // the program
  CHECK_EQ(std::string(found.self_path), std::string());
  CHECK(found.self_first < reinterpret_cast<uintptr_t>(&fp::own_state) &&
        reinterpret_cast<uintptr_t>(&fp::own_state) < found.self_last);
  CHECK(fp::state() == &fp::own_state && fp::own_state.leader == &fp::own_state);
}

TEST(the_state_of_another_major_is_told_apart) {
  struct Section {
    char before[64];
    fp::State states[2];
  };
  alignas(64) static Section section;
  fp::State* other = section.states;
  other[0].abi_major = FASTPROF_ABI_MAJOR + 1;
  HandmadeImage image;
  const auto at = reinterpret_cast<uint64_t>(other);
  image.data.vmaddr = at - 0x10;
  image.data.vmsize = sizeof section.states + 0x10;
  image.states.addr = at - 0x10;  // padding before the first
  image.states.size = sizeof section.states + 0x10;
  fp::discovery::Found found;
  found.wanted = {fp::own_state.magic, alignof(fp::State)};
  fp::discovery::visit(platform::Image(&image.header, 0, "/lib/libother.dylib"), &found);
  CHECK_EQ(found.other_count, 1);
  CHECK_EQ(std::string(found.other_paths[0]), std::string("/lib/libother.dylib"));
  CHECK_EQ(found.count, 1);
  CHECK(found.states[0] == &other[1]);
}

namespace {

// ThreadSanitizer forgets a thread in the last of four rounds, and who records in the third makes
// the recorder's handler run in the fourth.
constexpr int kRounds = FASTPROF_TSAN ? 1 : 3;

struct LateRecord {
  static void record(void* argument) {
    auto* rounds = static_cast<std::atomic<int>*>(argument);
    if (++*rounds < kRounds) pthread_setspecific(key, argument);
    FASTPROF_RANGE("late");
  }
  static inline pthread_key_t key;
};

}  // namespace

TEST(a_thread_block_outlives_the_destructors_that_record) {
  std::atomic<int> rounds{0};
  CHECK_EQ(pthread_key_create(&LateRecord::key, &LateRecord::record), 0);
  fp::Session session;
  session.start();
  std::thread([&] {
    { FASTPROF_RANGE("early"); }
    pthread_setspecific(LateRecord::key, &rounds);
  }).join();
  session.stop();
  CHECK_EQ(rounds.load(), kRounds);
  CHECK_EQ(session.capture().size() + session.capture().dropped_total(), size_t{1 + kRounds});
  pthread_key_delete(LateRecord::key);
}

TEST(blocks_are_reused_zeroed_and_each_thread_has_its_own) {
  void* block = nullptr;
  std::thread([&] {
    block = platform::find_thread_block();
    CHECK(block == platform::find_thread_block());
    std::memset(block, 0x5A, 32);
  }).join();
  CHECK(block != platform::find_thread_block());
  bool reused = false;
  std::vector<std::thread> threads;
  std::vector<void*> blocks(300);  // more than a page has
  std::atomic<size_t> here{0};
  for (void*& own : blocks)
    threads.emplace_back([&] {
      own = platform::find_thread_block();
      constexpr char zero[32] = {};
      CHECK_EQ(std::memcmp(own, zero, 32), 0);
      ++here;
      while (here < blocks.size()) std::this_thread::yield();
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < blocks.size(); ++i) {
    reused = reused || blocks[i] == block;
    for (size_t j = 0; j < i; ++j) CHECK(blocks[i] != blocks[j]);
  }
  CHECK(reused);
}

TEST(threads_have_ids_names_and_stacks) {
  CHECK_EQ(platform::thread_id(), static_cast<uint32_t>(gettid()));
  CHECK(platform::thread_exists(0, platform::thread_id()));
  uint32_t ended = 0;
  std::thread([&] {
    platform::name_this_thread("named");
    char name[platform::kThreadNameBytes];
    platform::read_thread_name(name);
    CHECK_EQ(std::string(name), std::string("named"));
    ended = platform::thread_id();
    uintptr_t low = 0, high = 0;
    CHECK(platform::find_thread_stack(&low, &high));
    // Not a variable's address: a sanitizer may keep variables elsewhere.
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    CHECK(low < here && here < high);
  }).join();
  CHECK(!platform::thread_exists(0, ended));
  CHECK_EQ(fake_darwin()->ports.load(), 0);
  CHECK(platform::usable_cpus() >= 1);
}

TEST(a_word_is_waited_for_woken_and_timed_out) {
  uint32_t word = 7;
  CHECK(platform::wait_word(&word, 8, 1000000000));  // differs: at once
  CHECK(!platform::wait_word(&word, 7, 1000000));    // nobody wakes it
  std::atomic<int> woken{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i)
    waiters.emplace_back([&] {
      while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 7)
        platform::wait_word(&word, 7, 5000000000);
      ++woken;
    });
  __atomic_store_n(&word, 8u, __ATOMIC_RELEASE);
  platform::wake_all(&word);
  platform::wake_one(&word);
  for (std::thread& waiter : waiters) waiter.join();
  CHECK_EQ(woken.load(), 3);
}

TEST(reserved_bytes_of_a_file_are_zeroes_on_the_disk) {
  char name[] = "/tmp/fastprof-darwin-XXXXXX";
  const int fd = platform::open_temporary_file(name);
  CHECK(fd >= 0);
  CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  unlink(name);
  CHECK_EQ(ftruncate(fd, 4 << 20), 0);
  CHECK_EQ(platform::reserve_in_file(fd, 1 << 20, (1 << 20) + 5), 0);
  struct stat facts;
  CHECK_EQ(fstat(fd, &facts), 0);
  CHECK(facts.st_blocks * 512 >= (1 << 20) && facts.st_size == 4 << 20);
  close(fd);
  CHECK_EQ(platform::reserve_in_file(fd, 0, 1), EBADF);
  errno = 0;
  CHECK_EQ(platform::open_unnamed_file("/tmp", true), -1);
  CHECK_EQ(errno, EOPNOTSUPP);
  CHECK(platform::folder_in_memory() == nullptr);
}

TEST(a_pipe_never_waits_and_is_closed_by_exec) {
  int ends[2];
  CHECK(platform::open_pipe(ends));
  char byte;
  CHECK_EQ(read(ends[0], &byte, 1), -1);
  CHECK_EQ(errno, EAGAIN);
  for (const int end : ends) {
    CHECK((fcntl(end, F_GETFD) & FD_CLOEXEC) != 0);
    close(end);
  }
}

TEST(discarded_pages_read_as_zeroes) {
  auto* memory = static_cast<char*>(platform::map_blank(1 << 16));
  CHECK(memory != nullptr);
  std::memset(memory, 1, 1 << 16);
  platform::discard_pages(memory, 1 << 16);
  CHECK_EQ(memory[0] + memory[65535], 0);
}

TEST(a_process_is_known_by_its_boot_its_start_and_its_name) {
  char text[64];
  platform::read_boot_id(text, sizeof text);
  CHECK_EQ(std::string(text), std::string("0F0E0D0C-0B0A-0908-0706-050403020100"));
  char small[8];
  platform::read_boot_id(small, sizeof small);
  CHECK_EQ(std::string(small), std::string());
  platform::read_process_name(small, sizeof small);
  CHECK_EQ(std::string(small), std::string("test_da"));
  CHECK_EQ(platform::process_start(), 170000000025u);
  CHECK_EQ(platform::process_start(getpid()), 170000000025u);
  CHECK_EQ(platform::memory_limit_bytes(), uint64_t{16} << 30);
  char path[4096];
  const size_t length = platform::read_program_path(path, sizeof path);
  CHECK(length > 0 && std::string(path, length).find("darwin") != std::string::npos);
}

TEST(another_process_has_a_start_until_it_has_ended) {
  constexpr pid_t pid = 0x7FFFFFF;  // of nobody
  CHECK_EQ(platform::process_start(pid), 0u);
  fake_darwin()->other_pid = pid;
  fake_darwin()->other_state = SRUN;
  CHECK_EQ(platform::process_start(pid), 180000000099u);
  fake_darwin()->other_state = SZOMB;
  CHECK_EQ(platform::process_start(pid), 0u);
  fake_darwin()->other_pid = 0;
}
