// SPDX-License-Identifier: Apache-2.0
// Loaded objects on Linux: images and their segments, notes that lead to the State, symbols; read
// from headers made by hand and from this process.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "check.hpp"
#include "fastprof/platform/linux/images.hpp"
#include "fastprof/platform/linux/shared_state.hpp"
#include "fastprof/platform/linux/symbols.hpp"
#include "fastprof/recorder/state/own_state.hpp"

namespace {

namespace discovery = fastprof::discovery;
namespace platform = fastprof::platform;

ElfW(Phdr)
    header(uint32_t type, uint32_t flags, size_t at, size_t memory_bytes, size_t file_offset = 0) {
  ElfW(Phdr) made = {};
  made.p_type = type;
  made.p_flags = flags;
  made.p_vaddr = at;
  made.p_offset = file_offset;
  made.p_memsz = memory_bytes;
  made.p_filesz = memory_bytes / 2;
  made.p_align = 4;
  return made;
}

constexpr char kMagic[] = "sixteen bytes...";
constexpr size_t kNotes = 1024, kData = 2048, kDataBytes = 256;

// An object: its header, notes at kNotes, and writable data at kData.
struct Object {
  Object() {
    headers = {header(PT_NOTE, PF_R, kNotes, 0), header(PT_LOAD, PF_R, 0, kData),
               header(PT_LOAD, PF_R | PF_W, kData, kDataBytes, kData)};
  }
  // Adds a note. `aligned`: what texts and notes are padded to.
  void note(const std::string& name, uint32_t type, const std::vector<unsigned char>& text,
            size_t aligned = 4) {
    const uint32_t words[3] = {static_cast<uint32_t>(name.size() + 1),
                               static_cast<uint32_t>(text.size()), type};
    add(words, sizeof words);
    add(name.c_str(), name.size() + 1);
    pad(aligned);
    text_at = headers[0].p_memsz;
    add(text.data(), text.size());
    pad(aligned);
  }
  // The note that leads to `state`, an index into bytes.
  void own_note(size_t state, uint32_t type = FASTPROF_ABI_MAJOR, size_t aligned = 4,
                const char* name = "fastprof", size_t text_bytes = 16) {
    note(name, type, std::vector<unsigned char>(text_bytes), aligned);
    const auto place = static_cast<int64_t>(kNotes + text_at);
    const int64_t words[2] = {static_cast<int64_t>(state) - place, -(place + 8)};
    std::memcpy(bytes + place, words, sizeof words);
  }
  void put_magic(size_t at) { std::memcpy(bytes + at, kMagic, 16); }

  dl_phdr_info info() {
    dl_phdr_info made = {};
    made.dlpi_addr = reinterpret_cast<uintptr_t>(bytes);
    made.dlpi_name = "object.so";
    made.dlpi_phdr = headers.data();
    made.dlpi_phnum = static_cast<uint16_t>(headers.size());
    return made;
  }
  // What a walk over this object alone finds.
  discovery::Found& visit(size_t alignment = 64) {
    found.wanted.magic = kMagic;
    found.wanted.alignment = alignment;
    dl_phdr_info seen = info();
    CHECK_EQ(discovery::visit(&seen, sizeof seen, &found), 0);
    return found;
  }
  void* address(size_t at) { return bytes + at; }

  alignas(64) unsigned char bytes[4096] = {};
  std::vector<ElfW(Phdr)> headers;
  discovery::Found found;
  size_t text_at = 0;  // of the last note, from kNotes

 private:
  void add(const void* from, size_t size) {
    if (size != 0) std::memcpy(bytes + kNotes + headers[0].p_memsz, from, size);
    headers[0].p_memsz += size;
  }
  void pad(size_t aligned) {
    headers[0].p_memsz = (headers[0].p_memsz + aligned - 1) / aligned * aligned;
  }
};

int function_of_this_program(int number) {
  return number + 1;
}

}  // namespace

TEST(segments_are_those_that_are_loaded) {
  const ElfW(Phdr)
      headers[] = {header(PT_NOTE, PF_R, 0x10, 8), header(PT_LOAD, PF_R, 0x3000, 0x20),
                   header(PT_LOAD, PF_R | PF_X, 0x1000, 0x40), header(PT_DYNAMIC, PF_W, 0x5, 8),
                   header(PT_LOAD, PF_W, 0x2000, 0x60)};
  dl_phdr_info info = {};
  info.dlpi_addr = 0x100000;
  info.dlpi_phdr = headers;
  info.dlpi_phnum = 5;
  const platform::Image image(&info, sizeof info, false);
  std::vector<platform::Segment> found;
  image.for_each_segment([&](const platform::Segment& each) { found.push_back(each); });
  CHECK_EQ(found.size(), 3u);
  const platform::Segment wanted[] = {{0x103000, 0x20, 0x10, 0x3000, true, false, false},
                                      {0x101000, 0x40, 0x20, 0x1000, true, false, true},
                                      {0x102000, 0x60, 0x30, 0x2000, false, true, false}};
  for (size_t i = 0; i < 3 && i < found.size(); ++i) {
    CHECK_EQ(found[i].first, wanted[i].first);
    CHECK_EQ(found[i].bytes, wanted[i].bytes);
    CHECK_EQ(found[i].file_bytes, wanted[i].file_bytes);
    CHECK_EQ(found[i].linked, wanted[i].linked);
    CHECK_EQ(found[i].readable, wanted[i].readable);
    CHECK_EQ(found[i].writable, wanted[i].writable);
    CHECK_EQ(found[i].executable, wanted[i].executable);
  }
  CHECK_EQ(image.base(), 0x100000u);
  CHECK_EQ(image.first(), 0x101000u);
  CHECK(!image.is_program());
  info.dlpi_phnum = 1;
  CHECK_EQ(image.first(), UINTPTR_MAX);
}

TEST(objects_of_the_kernel_are_known_by_their_names) {
  dl_phdr_info info = {};
  const platform::Image image(&info, sizeof info, true);
  CHECK(image.is_program());
  CHECK_EQ(std::string(image.path()), std::string());
  for (const char* name : {"linux-vdso.so.1", "linux-gate.so.1", "linux-vdso64.so.1"}) {
    info.dlpi_name = name;
    CHECK(image.is_of_the_kernel());
    CHECK_EQ(std::string(image.path()), std::string(name));
  }
  for (const char* name : {"", "libc.so.6", "linux-vds", "linux-gat", "/lib/linux-vdso.so.1"}) {
    info.dlpi_name = name;
    CHECK(!image.is_of_the_kernel());
  }
}

TEST(changes_are_known_if_the_c_library_counts_them) {
  dl_phdr_info info = {};
  info.dlpi_adds = 5;
  info.dlpi_subs = 3;
  uint64_t loads = 0, unloads = 0;
  const size_t needed = offsetof(dl_phdr_info, dlpi_subs) + sizeof info.dlpi_subs;
  CHECK(!platform::Image(&info, needed - 1, false).changes(&loads, &unloads));
  CHECK_EQ(loads + unloads, 0u);
  CHECK(platform::Image(&info, needed, false).changes(&loads, &unloads));
  CHECK_EQ(loads, 5u);
  CHECK_EQ(unloads, 3u);
}

TEST(a_build_id_is_in_any_of_the_notes) {
  struct Note {
    uint32_t name_bytes, text_bytes, type;
    char name[4];
    uint8_t text[4];
  };
  const Note notes[] = {{4, 4, NT_GNU_ABI_TAG, "GNU", {0, 0, 0, 0}},
                        {4, 4, NT_GNU_BUILD_ID, "GNU", {0x01, 0x2a, 0xfe, 0x90}},
                        {4, 4, NT_GNU_BUILD_ID, "GNU", {1, 1, 1, 1}}};
  ElfW(Phdr) headers[] = {header(PT_NOTE, PF_R, 0x10, sizeof(Note)),
                          header(PT_LOAD, PF_R, 0x10 + sizeof(Note), sizeof(Note)),
                          header(PT_NOTE, PF_R, 0x10 + sizeof(Note), sizeof(Note)),
                          header(PT_NOTE, PF_R, 0x10 + 2 * sizeof(Note), sizeof(Note))};
  dl_phdr_info info = {};
  info.dlpi_addr = reinterpret_cast<uintptr_t>(notes) - 0x10;
  info.dlpi_phdr = headers;
  info.dlpi_phnum = 4;
  const platform::Image image(&info, sizeof info, false);
  CHECK_EQ(image.build_id(), std::string("012afe90"));
  info.dlpi_phnum = 2;  // the note is in a segment, which no header calls notes
  CHECK(image.build_id().empty());
}

TEST(the_program_is_the_first_of_the_images) {
  size_t all = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info*, size_t, void* count) {
        ++*static_cast<size_t*>(count);
        return 0;
      },
      &all);
  std::vector<bool> programs;
  uintptr_t lowest = 0, highest = 0;
  platform::for_each_image([&](const platform::Image& image) {
    if (image.is_program()) {
      lowest = image.first();
      image.for_each_segment(
          [&](const platform::Segment& s) { highest = std::max(highest, s.first + s.bytes); });
    }
    programs.push_back(image.is_program());
    return true;
  });
  CHECK_EQ(programs.size(), all);
  for (size_t i = 0; i < programs.size(); ++i) CHECK_EQ(programs[i], i == 0);
  const auto own = reinterpret_cast<uintptr_t>(&function_of_this_program);
  CHECK(lowest <= own && own < highest);
  size_t visits = 0;
  platform::for_each_image([&](const platform::Image&) { return ++visits < 2; });
  CHECK_EQ(visits, 2u);
}

TEST(a_note_leads_to_the_state) {
  Object object;
  object.put_magic(kData + 64);
  object.own_note(kData + 64);
  const discovery::Found& found = object.visit();
  CHECK_EQ(found.count, 1);
  CHECK_EQ(static_cast<void*>(found.states[0]), object.address(kData + 64));
  CHECK_EQ(std::string(found.paths[0]), std::string("object.so"));
  CHECK_EQ(found.other_count, 0);
  CHECK(found.self_path == nullptr);
}

TEST(a_state_lies_in_writable_memory_aligned_with_its_magic) {
  const auto count = [](size_t state, size_t alignment, bool magic = true) {
    Object object;
    if (magic) object.put_magic(state);
    object.own_note(state);
    return object.visit(alignment).count;
  };
  CHECK_EQ(count(kData, 64), 1);                    // the first bytes
  CHECK_EQ(count(kData + kDataBytes - 64, 64), 1);  // the last that hold it
  CHECK_EQ(count(kData + kDataBytes - 63, 1), 0);
  CHECK_EQ(count(kData + kDataBytes, 64), 0);
  CHECK_EQ(count(kData - 1, 1), 0);
  CHECK_EQ(count(kData - 64, 64), 0);  // in memory that is read only
  CHECK_EQ(count(kData + 32, 64), 0);
  CHECK_EQ(count(kData + 32, 32), 1);
  CHECK_EQ(count(kData + 64, 64, false), 0);
  Object last_byte;
  last_byte.put_magic(kData);
  last_byte.bytes[kData + 15] ^= 1;
  last_byte.own_note(kData);
  CHECK_EQ(last_byte.visit().count, 0);
}

TEST(segments_that_lead_to_no_state_are_passed_over) {
  Object object;
  object.put_magic(kData + 64);
  object.own_note(kData + 64);
  // In front: one whose place says nothing of the header, one that is too small, one not loaded.
  object.headers.insert(object.headers.begin() + 1, {header(PT_LOAD, PF_R | PF_W, 512, 32, 64),
                                                     header(PT_GNU_STACK, PF_R | PF_W, 0, 4096)});
  CHECK_EQ(object.visit().count, 1);
  // Notes that come after the segments, of an object whose header only its data leads to.
  Object last;
  last.put_magic(kData + 64);
  last.own_note(kData + 64);
  std::swap(last.headers[0], last.headers[2]);
  CHECK_EQ(last.visit().count, 1);
  last.headers.erase(last.headers.begin() + 1);
  CHECK_EQ(last.visit().count, 2);
  Object unloaded;
  unloaded.put_magic(kData + 64);
  unloaded.own_note(kData + 64);
  unloaded.headers[2].p_type = PT_TLS;
  CHECK_EQ(unloaded.visit().count, 0);
}

TEST(only_notes_of_ours_count) {
  const auto count = [](const char* name, size_t text_bytes, uint32_t type = FASTPROF_ABI_MAJOR) {
    Object object;
    object.put_magic(kData);
    object.own_note(kData, type, 4, name, text_bytes);
    const discovery::Found& found = object.visit();
    return found.count + 100 * found.other_count;
  };
  CHECK_EQ(count("fastprof", 16), 1);
  CHECK_EQ(count("fastproF", 16), 0);
  CHECK_EQ(count("fastprof2", 16), 0);
  CHECK_EQ(count("fastpro", 16), 0);
  CHECK_EQ(count("fastprof", 24), 0);
  CHECK_EQ(count("fastprof", 16, FASTPROF_ABI_MAJOR + 1), 100);
  Object object;
  object.put_magic(kData);
  object.own_note(kData);
  object.headers[0].p_type = PT_LOAD;
  CHECK_EQ(object.visit().count, 0);
}

TEST(notes_before_ours_are_passed_over) {
  for (const size_t aligned : {4u, 8u})
    for (size_t text = 0; text < 10; ++text)
      for (const char* name : {"GNU", "Linux", "longer name"}) {
        Object object;
        object.headers[0].p_align = aligned;
        object.put_magic(kData);
        object.note(name, 1, std::vector<unsigned char>(text), aligned);
        object.own_note(kData, FASTPROF_ABI_MAJOR, aligned);
        object.note(name, 1, std::vector<unsigned char>(text), aligned);
        object.own_note(kData, FASTPROF_ABI_MAJOR + 1, aligned);
        const discovery::Found& found = object.visit();
        CHECK_EQ(found.count, 1);
        CHECK_EQ(found.other_count, 1);
      }
  // Alignments that no notes have count as 4.
  Object object;
  object.headers[0].p_align = 16;
  object.put_magic(kData);
  object.note("four", 1, {1}, 4);
  object.own_note(kData);
  CHECK_EQ(object.visit().count, 1);
}

TEST(damaged_notes_end_the_walk_through_them) {
  // A last note without its padding.
  Object odd;
  odd.put_magic(kData);
  odd.own_note(kData);
  odd.note("last", 1, {1});
  odd.headers[0].p_memsz -= 3;
  CHECK_EQ(odd.visit().count, 1);
  // One that is longer than what is left hides those after it, and itself.
  Object longer;
  longer.put_magic(kData);
  longer.own_note(kData);
  longer.headers[0].p_memsz -= 1;
  CHECK_EQ(longer.visit().count, 0);
  // Fewer bytes than the head of a note.
  Object head;
  head.put_magic(kData);
  head.own_note(kData);
  head.headers[0].p_memsz = 11;
  CHECK_EQ(head.visit().count, 0);
  // A note of a head alone.
  Object empty;
  empty.put_magic(kData);
  empty.headers[0].p_memsz = 12;
  empty.own_note(kData);
  CHECK_EQ(empty.visit().count, 1);
}

TEST(objects_beyond_the_room_are_left_out) {
  Object object;
  object.put_magic(kData);
  object.own_note(kData);
  object.own_note(kData, FASTPROF_ABI_MAJOR + 1);
  for (int i = 0; i < 600; ++i) object.visit();
  CHECK_EQ(object.found.count, 512);
  CHECK_EQ(object.found.other_count, 16);
  CHECK_EQ(static_cast<void*>(object.found.states[511]), object.address(kData));
  CHECK_EQ(std::string(object.found.other_paths[15]), std::string("object.so"));
}

TEST(the_object_that_holds_an_address_has_a_path_and_an_extent) {
  const auto holds = [](size_t at) {
    Object object;
    object.headers[1].p_memsz = 512;  // a gap before the data
    object.headers.insert(object.headers.begin(), header(PT_TLS, PF_R, 600, 8192));
    object.found.self = reinterpret_cast<uintptr_t>(object.address(at));
    const discovery::Found& found = object.visit();
    if (found.self_path == nullptr) return false;
    CHECK_EQ(std::string(found.self_path), std::string("object.so"));
    CHECK_EQ(found.self_first, reinterpret_cast<uintptr_t>(object.address(0)));
    CHECK_EQ(found.self_last, reinterpret_cast<uintptr_t>(object.address(kData + kDataBytes)));
    return true;
  };
  CHECK(holds(0));
  CHECK(holds(511));
  CHECK(!holds(512));
  CHECK(!holds(kData - 1));
  CHECK(holds(kData));
  CHECK(holds(kData + kDataBytes - 1));
  CHECK(!holds(kData + kDataBytes));
  // Segments in any order.
  Object object;
  std::swap(object.headers[1], object.headers[2]);
  object.found.self = reinterpret_cast<uintptr_t>(object.address(kData));
  const discovery::Found& found = object.visit();
  CHECK_EQ(found.self_first, reinterpret_cast<uintptr_t>(object.address(0)));
  CHECK_EQ(found.self_last, reinterpret_cast<uintptr_t>(object.address(kData + kDataBytes)));
}

TEST(a_walk_finds_the_object_of_an_address) {
  const auto own = reinterpret_cast<uintptr_t>(&function_of_this_program);
  const discovery::Wanted nothing{kMagic, 64};
  const discovery::Found found =
      discovery::scan_objects(reinterpret_cast<const void*>(own), nothing);
  CHECK_EQ(found.count, 0);
  CHECK(found.self_path != nullptr);
  CHECK(found.self_first <= own && own < found.self_last);
  const fastprof::State state;
  const discovery::Found all =
      discovery::scan_objects(nullptr, {state.magic, alignof(fastprof::State)});
  CHECK(all.self_path == nullptr);
  CHECK(all.count >= 1);  // a library of the program may have one too
  CHECK_EQ(std::count(all.states, all.states + all.count, &fastprof::own_state), 1);
}

TEST(functions_have_frame_entries_and_objects_sizes) {
  CHECK_EQ(function_of_this_program(1), 2);
  auto* const own = reinterpret_cast<void*>(&function_of_this_program);
  void* function = nullptr;
  CHECK(platform::find_frame_entry(own, &function) != nullptr);
  CHECK_EQ(function, own);
  int local = 0;
  function = own;
  CHECK(platform::find_frame_entry(&local, &function) == nullptr);
  CHECK_EQ(function, own);
#ifdef __GLIBC__
  const char* const object = static_cast<const char*>(::dlsym(RTLD_DEFAULT, "stdout"));
  CHECK(object != nullptr);
  CHECK_EQ(platform::symbol_size(object), sizeof(void*));
  CHECK_EQ(platform::symbol_size(object + 1), 0u);
  CHECK_EQ(platform::symbol_size(&local), 0u);
  CHECK_EQ(platform::symbol_size(nullptr), 0u);
#endif
}
