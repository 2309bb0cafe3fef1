// SPDX-License-Identifier: Apache-2.0
// Unloading a library: records, interned names and the list of modules no longer refer to its
// memory, and what they refer to instead reads the same.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;

namespace {

// The memory of a library that is about to go: two sites with all their texts.
struct alignas(16) Library {
  fp::Site first, second;
  const char* arg_names[4];
  fp::ArgType arg_types[4];
  char name[16], category[16], file[16], function[16], argument[16], text[16];

  Library() {
    std::memset(static_cast<void*>(this), 0, sizeof *this);
    std::strcpy(name, "name");
    std::strcpy(category, "category");
    std::strcpy(file, "file");
    std::strcpy(function, "function");
    std::strcpy(argument, "argument");
    std::strcpy(text, "text");
    for (int i = 0; i < 4; ++i) {
      arg_names[i] = argument;
      arg_types[i] = i % 2 == 0 ? fp::ArgType::string : fp::ArgType::int64;
    }
    first = fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE,
                          name, file, function, 7, 4, arg_names, arg_types);
    first.category_name = category;
    second = fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE,
                           name, file, function, 8);
  }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(this); }
  uintptr_t end() const { return begin() + sizeof *this; }
  fp::unload::Span span() const { return {begin(), end()}; }
};

uint64_t* arguments(fp::Slot* slot) {
  return reinterpret_cast<uint64_t*>(slot + 1);
}

std::string text_of(uint64_t word) {
  return reinterpret_cast<const char*>(word);
}

// A record of the first site, whose arguments are `text`, its address as a number, and both again.
fp::Slot* put_with_arguments(fp::Slot* slot, uint64_t begin, const Library& library,
                             const char* text, fp::RecordTag tag = fp::RecordTag::slot) {
  for (int i = 0; i < 4; ++i) arguments(slot)[i] = reinterpret_cast<uintptr_t>(text);
  arguments(slot)[6] = 1;  // of a detailed record: one word of details
  return put(slot, begin, begin + 1, library.first, tag);
}

}  // namespace

TEST(a_span_contains_its_first_address_and_not_its_last) {
  const fp::unload::Span span{100, 200};
  const auto holds = [&](uintptr_t at) { return span.holds(reinterpret_cast<const void*>(at)); };
  CHECK(!holds(99));
  CHECK(holds(100));
  CHECK(holds(199));
  CHECK(!holds(200));
}

TEST(records_refer_to_copies) {
  const auto s = make_state();
  const auto library = std::make_unique<Library>();
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* chunk = open_chunk(s.get(), track);
  fp::Slot* slots = fp::chunk_slots(chunk);
  static const char* const outside = "outside";
  fp::Slot* plain = slots;
  fp::Slot* detailed = put_with_arguments(plain, 100, *library, library->text);
  fp::Slot* elsewhere =
      put_with_arguments(detailed, 101, *library, library->text, fp::RecordTag::detailed);
  fp::Slot* other = put_with_arguments(elsewhere, 102, *library, outside);
  fp::Slot* late = put(other, 103, 104, library->second);
  *late = {105, 100, fp::site_word(&library->second, fp::RecordTag::late)};
  // The second unit of an appended end is numbers, whatever they look like.
  for (int i = 0; i < 3; ++i) arguments(late)[i] = reinterpret_cast<uintptr_t>(library->text);
  fp::Slot* foreign = late + 2;
  fp::Slot* end = put(foreign, 106, 107, range_site);
  fp::blank_slot(end);

  fp::unload::CopiedSites copies;
  fp::unload::rewrite_chunk(s.get(), library->span(), copies, chunk, end);
  const fp::Site* first = fp::site_of(plain->site);
  CHECK(!library->span().holds(first));
  for (const fp::Slot* slot : {plain, detailed, elsewhere}) {
    CHECK(fp::site_of(slot->site) == first);  // one copy
    uint64_t* words = arguments(const_cast<fp::Slot*>(slot));
    const uintptr_t address = slot == elsewhere ? reinterpret_cast<uintptr_t>(outside)
                                                : reinterpret_cast<uintptr_t>(library->text);
    CHECK_EQ(words[1], address);  // a number
    CHECK_EQ(words[3], address);
    if (slot == elsewhere) {
      CHECK_EQ(words[0], address);
      CHECK_EQ(words[2], address);
    } else {
      CHECK(!library->span().holds(reinterpret_cast<const void*>(words[0])));
      CHECK_EQ(words[0], words[2]);
    }
  }
  CHECK(fp::tag_of(plain->site) == fp::RecordTag::slot);
  CHECK(fp::tag_of(detailed->site) == fp::RecordTag::detailed);
  CHECK(fp::tag_of(late->site) == fp::RecordTag::late);
  const fp::Site* second = fp::site_of(other->site);
  CHECK(!library->span().holds(second));
  CHECK(fp::site_of(late->site) == second);
  for (int i = 0; i < 3; ++i)
    CHECK_EQ(arguments(late)[i], reinterpret_cast<uintptr_t>(library->text));
  CHECK(fp::site_of(foreign->site) == &range_site);

  std::memset(static_cast<void*>(library.get()), 0, sizeof *library);
  CHECK_EQ(text_of(arguments(plain)[0]), "text");
  CHECK_EQ(std::string(first->name), "name");
  CHECK_EQ(std::string(first->category_name), "category");
  CHECK_EQ(std::string(first->file), "file");
  CHECK_EQ(std::string(first->function), "function");
  CHECK_EQ(first->line, 7);
  CHECK_EQ(first->arg_count, 4);
  for (int i = 0; i < 4; ++i) {
    CHECK_EQ(std::string(first->arg_names[i]), "argument");
    CHECK(first->arg_types[i] == (i % 2 == 0 ? fp::ArgType::string : fp::ArgType::int64));
  }
  CHECK_EQ(second->line, 8);
}

TEST(what_is_not_written_is_not_rewritten) {
  const auto s = make_state();
  const Library library;
  fp::Track* track = fp::new_track(s.get());
  fp::Chunk* chunk = open_chunk(s.get(), track);
  fp::Slot* slots = fp::chunk_slots(chunk);
  put(slots, 100, 101, library.second);
  put(slots + 1, 99, 101, library.second);  // of the chunk's previous use
  put(slots + 2, 100, 101, library.second);
  const auto inside = [&](int i) { return library.span().holds(fp::site_of(slots[i].site)); };
  fp::unload::CopiedSites copies;
  fp::unload::rewrite_chunk(s.get(), library.span(), copies, chunk, slots + 3);
  CHECK(!inside(0));
  CHECK(inside(1));
  CHECK(inside(2));
  slots[1].begin = 100;
  fp::unload::rewrite_chunk(s.get(), library.span(), copies, chunk, slots + 2);
  CHECK(!inside(1));
  CHECK(inside(2));  // behind the end
}

TEST(each_site_has_its_own_copy) {
  const auto s = make_state();
  // More sites than the copies that are remembered.
  std::vector<fp::Site> sites(200, range_site);
  for (size_t i = 0; i < sites.size(); ++i) sites[i].line = static_cast<uint32_t>(i);
  const auto first = reinterpret_cast<uintptr_t>(sites.data());
  const fp::unload::Span span{first, first + sites.size() * sizeof(fp::Site)};
  fp::unload::CopiedSites copies;
  std::vector<const fp::Site*> made;
  for (const fp::Site& site : sites) made.push_back(copies.copy(s.get(), span, &site));
  for (size_t i = 0; i < sites.size(); ++i) {
    CHECK_EQ(made[i]->line, i);
    CHECK(!span.holds(made[i]));
    CHECK(copies.copy(s.get(), span, &sites[i]) == made[i]);  // found again
  }
}

TEST(names_forget_the_library_of_their_prototype) {
  const auto s = make_state();
  const Library library;
  const auto intern = [&](const fp::Site& like, const char* name) {
    return fp::intern_locked(s.get(), s->session_names, &like, name, std::strlen(name));
  };
  fp::InternEntry* oldest = intern(library.first, "a");
  fp::InternEntry* kept = intern(range_site, "b");
  fp::InternEntry* middle = intern(library.second, "c");
  fp::InternEntry* other = intern(mark_site, "d");
  fp::InternEntry* newest = intern(library.first, "e");
  fp::unload::forget_prototypes(s.get(), library.span(), s->session_names);
  for (const fp::InternEntry* entry : {oldest, middle, newest}) {
    CHECK(entry->like == fp::forgotten_site());
    CHECK_EQ(std::string(entry->site.file), "file");
    CHECK(!library.span().holds(entry->site.file));
  }
  CHECK_EQ(std::string(newest->site.arg_names[3]), "argument");
  CHECK(!library.span().holds(newest->site.arg_names));
  CHECK(kept->like == &range_site && other->like == &mark_site);
  // Only those whose prototype is loaded are listed.
  CHECK(s->session_names.listed == other);
  CHECK(other->next == kept && kept->next == nullptr);
  // Loaded again, at the same place: the names are known.
  CHECK(intern(library.first, "a") == oldest);
  CHECK(oldest->like == &library.first);
}

TEST(unloading_rewrites_all_threads_and_both_stores) {
  const auto s = make_state();
  const Library library;
  fp::Module before{}, own{}, after{};
  before.first = 1;
  own.first = library.begin();
  own.last = library.end();
  own.loaded_ticks = 500;
  after.first = library.begin() + 1;
  after.next = &own;
  own.next = &before;
  s->modules = &after;
  std::vector<fp::Slot*> slots;
  const auto closed = [&](fp::Track* track, uint64_t close_ticks) {
    fp::Chunk* chunk = open_chunk(s.get(), track);
    fp::Slot* end = put(fp::chunk_slots(chunk), 100, 101, library.second);
    fp::close_chunk(s.get(), track, chunk, reinterpret_cast<uintptr_t>(end));
    chunk->close_ticks = close_ticks;
    slots.push_back(fp::chunk_slots(chunk));
  };
  fp::Track* track = fp::new_track(s.get());
  closed(track, 499);  // before the library was loaded: cannot refer to it
  closed(track, 500);
  closed(track, 600);
  fp::ThreadBlock block{};
  fp::Track* other = fp::new_track(s.get());
  other->block = &block;
  closed(other, 700);
  fp::Chunk* current = open_chunk(s.get(), other);
  slots.push_back(fp::chunk_slots(current));
  block.cursor = reinterpret_cast<uintptr_t>(put(slots.back(), 100, 101, library.second));
  const fp::InternEntry* lasting =
      fp::intern_locked(s.get(), s->lasting_names, &library.first, "lasting", 7);
  const fp::InternEntry* session =
      fp::intern_locked(s.get(), s->session_names, &library.first, "session", 7);

  fp::leader_unload(s.get(), library.begin(), library.end());
  CHECK(library.span().holds(fp::site_of(slots[0]->site)));
  for (size_t i = 1; i < slots.size(); ++i)
    CHECK(!library.span().holds(fp::site_of(slots[i]->site)));
  CHECK(lasting->like == fp::forgotten_site());
  CHECK(session->like == fp::forgotten_site());
  CHECK(s->modules == &after && after.next == &before && before.next == nullptr);
  CHECK_EQ(s->unload_epoch, 1);
  // A library that is not listed may have been there from the start.
  fp::leader_unload(s.get(), library.begin(), library.end());
  CHECK(!library.span().holds(fp::site_of(slots[0]->site)));
  CHECK_EQ(s->unload_epoch, 2);
  CHECK(s->modules == &after && after.next == &before);
}

TEST(records_that_nobody_reads_keep_their_length) {
  for (uint32_t units = 0; units <= 4; ++units) {
    CHECK_EQ(fp::unread_site(units).arg_units, units);
    CHECK_EQ(fp::unread_site(units).mask, 0);
    CHECK_EQ(fp::unread_site(units).arg_count, 0);
  }
}
