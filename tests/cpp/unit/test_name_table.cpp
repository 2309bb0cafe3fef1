// SPDX-License-Identifier: Apache-2.0
// The table of names made at run time: hashes, comparison, growth, bounds, the memory of its
// blocks, cut names. On a State of its own, so that counts are exact.
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "fastprof/recorder/names/insert_names.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;

namespace {

constexpr uint32_t kLine = 17;
constexpr fp::Site like_site =
    fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, "like",
                  "file", "function", kLine);
constexpr fp::Site twin_site = like_site;  // equal, at another address

// A recorder state without a process around it.
struct Names {
  std::unique_ptr<fp::State> s = std::make_unique<fp::State>();
  fp::NameStore& store = s->session_names;

  ~Names() { fp::free_names(store); }
  fp::InternEntry* intern(const std::string& text, const fp::Site* like = &like_site) {
    return fp::intern_locked(s.get(), store, like, text.data(), text.size());
  }
  fp::InternEntry* cut(const std::string& text, const fp::Site* like = &like_site) {
    return fp::intern_cut(s.get(), like, text.data(), text.size());
  }
  char* allocate(size_t bytes) {
    return static_cast<char*>(fp::allocate_names(s.get(), store, bytes));
  }
  size_t blocks() const {
    size_t count = 0;
    for (const fp::NameBlock* block = store.blocks; block != nullptr; block = block->next) ++count;
    return count;
  }
};

bool is_zero(const char* memory, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    if (memory[i] != 0) return false;
  return true;
}

// What a name takes in the store: its entry, the text, a zero byte.
uint64_t size_of(const std::string& name) {
  return sizeof(fp::InternEntry) + name.size() + 1;
}

const char* const kFox = "The quick brown fox jumps over the lazy dog";

}  // namespace

// Libraries built from other versions of the headers look names up in the same table.
TEST(hashes_of_names_do_not_change) {
  const struct {
    size_t length;
    uint64_t hash;
  } known[] = {{0, 0x1FF5C2923A788D2Cu},  {1, 0x0ADD5E44D44A87B4u},  {2, 0x03A9B075D5D31604u},
               {3, 0xFFA8FCADD6613099u},  {4, 0x430791D9A7231ECFu},  {7, 0x6711EDA6090D42ECu},
               {8, 0xAF00D87F44970D37u},  {15, 0x1AB8775007BE435Bu}, {16, 0x71C3488AE9EC0F3Du},
               {17, 0xE655BDF628563ABEu}, {23, 0x8C084346966DD674u}, {24, 0x39036C13771953DDu},
               {32, 0xEF0307F85DB5551Cu}, {33, 0x5A4AA91556382F98u}, {40, 0xE4E7FF337A529DE4u},
               {43, 0x0E656F52A89A062Cu}};
  for (const auto& row : known) CHECK_EQ(fp::hash_name(nullptr, kFox, row.length), row.hash);
  fp::Site site = like_site;
  site.line = 7;
  site.mask = 5;
  CHECK_EQ(fp::hash_name(&site, kFox, 9), 0xE795B8B984A01B0Bu);
}

TEST(every_byte_of_a_name_and_its_prototype_count) {
  for (size_t length = 0; length <= 70; ++length) {
    std::string text(length, 'a');
    const uint64_t hash = fp::hash_name(&like_site, text.data(), length);
    CHECK(hash != fp::hash_name(nullptr, text.data(), length));
    const std::string same = text;
    CHECK(fp::same_bytes(text.data(), same.data(), length));
    for (size_t i = 0; i < length; ++i) {
      text[i] = 'b';
      CHECK(hash != fp::hash_name(&like_site, text.data(), length));
      CHECK(!fp::same_bytes(text.data(), same.data(), length));
      text[i] = 'a';
    }
  }
  fp::Site other = like_site;
  ++other.line;
  CHECK(fp::hash_name(&other, "x", 1) != fp::hash_name(&like_site, "x", 1));
  other = like_site;
  other.mask = fp::category::op;
  CHECK(fp::hash_name(&other, "x", 1) != fp::hash_name(&like_site, "x", 1));
}

TEST(the_table_grows_when_half_of_it_is_used) {
  Names names;
  CHECK(fp::find_interned(names.store, nullptr, "x", 1, 1) == nullptr);
  std::vector<const fp::InternEntry*> entries;
  const auto add = [&](size_t until) {
    while (entries.size() < until) entries.push_back(names.intern(std::to_string(entries.size())));
  };
  add(1);
  CHECK_EQ(names.store.table->capacity, 1024);
  add(512);
  CHECK_EQ(names.store.table->count, 512);
  CHECK_EQ(names.store.table->capacity, 1024);
  add(513);
  CHECK_EQ(names.store.table->count, 513);
  CHECK_EQ(names.store.table->capacity, 4096);
  add(9000);
  CHECK_EQ(names.store.table->capacity, 65536);
  CHECK_EQ(names.store.table->count, 9000);
  uint64_t used = 0, bytes = 0;
  for (uint64_t i = 0; i < names.store.table->capacity; ++i)
    used += names.store.table->slots[i] != nullptr;
  CHECK_EQ(used, 9000);
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string name = std::to_string(i);
    CHECK(names.intern(name) == entries[i]);
    CHECK(entries[i]->text() == name && entries[i]->length == name.size());
    CHECK(entries[i]->site.name == entries[i]->text());
    bytes += size_of(name);
  }
  CHECK_EQ(names.store.table->count, 9000);
  CHECK_EQ(names.store.bytes, bytes);
}

TEST(a_name_belongs_to_its_prototype) {
  Names names;
  const fp::InternEntry* first = names.intern("name");
  const fp::InternEntry* second = names.intern("name", &twin_site);
  const fp::InternEntry* text = names.intern("name", nullptr);
  CHECK(first != second && first != text && second != text);
  CHECK(names.intern("name") == first && names.intern("name", &twin_site) == second);
  CHECK(names.intern("name", nullptr) == text);
  CHECK(first->like == &like_site && second->like == &twin_site && text->like == nullptr);
  CHECK_EQ(first->site.line, kLine);
  CHECK(names.store.listed == second && second->next == first && first->next == nullptr);
  CHECK_EQ(first->site.flags, fp::site_flag::reclaimable);
  fp::State* s = names.s.get();
  const fp::InternEntry* lasting = fp::intern_locked(s, s->lasting_names, &like_site, "name", 4);
  CHECK_EQ(lasting->site.flags, 0);
  CHECK(s->lasting_names.listed == lasting && s->lasting_names.blocks == nullptr);
}

// As when a library is unloaded and loaded again.
TEST(a_forgotten_name_is_adopted_by_an_equal_site) {
  Names names;
  fp::InternEntry* entry = names.intern("name");
  names.intern("another");
  fp::Site other = like_site;  // of the same hash
  other.color = 5;
  CHECK(names.intern("name", &other) != entry);
  names.store.listed = nullptr;
  entry->like = fp::forgotten_site();
  entry->next = nullptr;
  fp::Site different = like_site;
  different.color = 6;
  CHECK(names.intern("name", &different) != entry);
  CHECK(names.intern("nam", &twin_site) != entry);
  CHECK(names.intern("name", nullptr) != entry);
  const uint64_t bytes = names.store.bytes;
  CHECK(names.intern("name", &twin_site) == entry);
  CHECK(entry->like == &twin_site && names.store.listed == entry);
  CHECK_EQ(names.store.bytes, bytes);
  CHECK(names.intern("name") != entry);  // it has a prototype again
  CHECK(fp::find_forgotten(fp::NameStore{}, like_site, "name", 4, 1) == nullptr);
}

TEST(sites_are_equal_if_all_but_their_names_are) {
  static const char* const names[] = {"a", "b"};
  static const char* const equal_names[] = {"a", "b"};
  static const char* const other_names[] = {"a", "c"};
  static const fp::ArgType types[] = {fp::ArgType::int64, fp::ArgType::string};
  static const fp::ArgType equal_types[] = {fp::ArgType::int64, fp::ArgType::string};
  static const fp::ArgType other_types[] = {fp::ArgType::int64, fp::ArgType::pointer};
  const fp::Site site =
      fp::make_site(fp::SiteKind::range, fp::category::user, fp::RecordScope::USER_SCOPE, "like",
                    "file", "function", 17, 2, names, types, 9);
  const auto equal = [&](auto change) {
    fp::Site changed = site;
    change(changed);
    CHECK_EQ(fp::same_content(changed, site), fp::same_content(site, changed));
    return fp::same_content(site, changed);
  };
  using S = fp::Site;
  const std::string file = "file", function = "function";
  CHECK(equal([](S& s) { s.name = "different"; }));
  CHECK(equal([](S& s) { s.flags = 1; }));
  CHECK(equal([&](S& s) { s.file = file.c_str(); }));
  CHECK(equal([&](S& s) { s.function = function.c_str(); }));
  CHECK(equal([](S& s) { s.arg_names = equal_names; }));
  CHECK(equal([](S& s) { s.arg_types = equal_types; }));
  CHECK(!equal([](S& s) { ++s.mask; }));
  CHECK(!equal([](S& s) { s.kind = fp::SiteKind::mark; }));
  CHECK(!equal([](S& s) { s.scope = fp::RecordScope::FUNCTION; }));
  CHECK(!equal([](S& s) { s.arg_count = 1; }));
  CHECK(!equal([](S& s) { ++s.arg_units; }));
  CHECK(!equal([](S& s) { ++s.line; }));
  CHECK(!equal([](S& s) { ++s.color; }));
  CHECK(!equal([](S& s) { ++s.device_type; }));
  CHECK(!equal([](S& s) { ++s.device_index; }));
  CHECK(!equal([](S& s) { s.category_name = "other"; }));
  CHECK(!equal([](S& s) { s.file = "other"; }));
  CHECK(!equal([](S& s) { s.file = nullptr; }));
  CHECK(!equal([](S& s) { s.function = "other"; }));
  CHECK(!equal([](S& s) { s.function = nullptr; }));
  CHECK(!equal([](S& s) { s.arg_names = other_names; }));
  CHECK(!equal([](S& s) { s.arg_types = other_types; }));
  CHECK(fp::same_text(nullptr, nullptr));
  CHECK(!fp::same_text("a", nullptr) && !fp::same_text(nullptr, "a"));
}

TEST(memory_for_names_comes_in_blocks) {
  CHECK_EQ(fp::kNameBlockBytes, 1048576);
  Names names;
  char* first = names.allocate(1);
  char* second = names.allocate(17);
  char* third = names.allocate(16);
  CHECK_EQ(reinterpret_cast<uintptr_t>(first) % 16, 0);
  CHECK_EQ(second - first, 16);
  CHECK_EQ(third - second, 32);
  CHECK_EQ(names.store.blocks->size_bytes, fp::kNameBlockBytes);
  CHECK_EQ(first - reinterpret_cast<char*>(names.store.blocks), 16);
  CHECK(is_zero(first, 64));
  // A large one takes what is left of the block, to its last byte.
  const auto left = [&] { return static_cast<size_t>(names.store.end - names.store.next); };
  char* rest = names.allocate(left() - 16);
  CHECK_EQ(rest - third, 16);
  CHECK_EQ(left(), 16);
  // Where it does not fit, one of more than a quarter of a block has a block of its own.
  const size_t quarter = fp::kNameBlockBytes / 4;
  char* large = names.allocate(quarter + 1);
  CHECK(large != nullptr && is_zero(large, quarter + 1));
  CHECK_EQ(names.blocks(), 2);
  CHECK_EQ(names.store.blocks->size_bytes, quarter + 16 + 16);
  CHECK_EQ(large - reinterpret_cast<char*>(names.store.blocks), 16);
  CHECK(names.allocate(16) + 16 == names.store.end);
  CHECK_EQ(names.blocks(), 2);
  CHECK_EQ(left(), 0);
  names.allocate(quarter);
  CHECK_EQ(names.blocks(), 3);
  CHECK_EQ(names.store.blocks->size_bytes, fp::kNameBlockBytes);
  CHECK_EQ(left(), fp::kNameBlockBytes - 16 - quarter);
  fp::free_names(names.store);
  CHECK(names.store.blocks == nullptr && names.store.next == nullptr);
  CHECK(names.allocate(size_t{1} << 60) == nullptr);
  CHECK_EQ(names.blocks(), 0);
}

TEST(a_store_knows_its_memory) {
  Names names;
  char* first = names.allocate(16);
  char* block = first - 16;
  names.allocate(fp::kNameBlockBytes);  // a second block
  CHECK(fp::holds_name(names.store, block) && fp::holds_name(names.store, first));
  CHECK(fp::holds_name(names.store, block + fp::kNameBlockBytes - 1));
  CHECK(fp::holds_name(names.store, names.store.blocks));
  CHECK(!fp::holds_name(names.store, &names) && !fp::holds_name(names.store, nullptr));
  CHECK(!fp::holds_name(fp::NameStore{}, first));
  alignas(fp::NameBlock) char memory[96] = {};
  const char* at = memory + 16;
  fp::NameStore store{};
  store.blocks = new (memory + 16) fp::NameBlock{nullptr, 64};
  CHECK(fp::holds_name(store, at) && fp::holds_name(store, at + 63));
  CHECK(!fp::holds_name(store, at - 1) && !fp::holds_name(store, at + 64));
}

TEST(names_fill_their_bound_exactly) {
  Names names;
  names.s->max_name_bytes = size_of("one") + size_of("two");
  CHECK(names.intern("one") != nullptr);
  CHECK(names.intern("fourth") == nullptr);
  CHECK(names.intern("four") == nullptr);
  CHECK(names.intern("two") != nullptr);
  CHECK(names.intern("") == nullptr);
  CHECK(names.intern("one") != nullptr);  // known
  CHECK_EQ(names.store.bytes, names.s->max_name_bytes);
  fp::InternEntry* kept =
      fp::intern_locked(names.s.get(), names.store, nullptr, "kept", 4, fp::NameBound::ignored);
  CHECK(kept != nullptr);
  CHECK_EQ(names.store.bytes, names.s->max_name_bytes + size_of("kept"));
  // The lasting store has a bound of its own.
  CHECK_EQ(fp::kLastingNameBytes, 67108864);
  fp::State* s = names.s.get();
  s->lasting_names.bytes = fp::kLastingNameBytes - size_of("one");
  CHECK(fp::intern_locked(s, s->lasting_names, nullptr, "four", 4) == nullptr);
  CHECK(fp::intern_locked(s, s->lasting_names, nullptr, "one", 3) != nullptr);
  CHECK(fp::intern_locked(s, s->lasting_names, nullptr, "", 0) == nullptr);
}

TEST(cut_names_end_with_a_mark_and_share_an_entry) {
  Names names;
  names.s->max_name_length = 4;
  const fp::InternEntry* entry = names.cut("abcdef");
  CHECK_EQ(std::string(entry->text()), "abcd... [cut: 6 bytes]");
  CHECK_EQ(entry->length, 22);
  CHECK(entry->like == &like_site && entry->site.name == entry->text());
  CHECK_EQ(entry->site.line, kLine);
  CHECK_EQ(names.store.bytes, size_of(entry->text()));
  CHECK(names.intern(entry->text()) == entry);
  // An equal one gives its memory back, blank.
  char* const next = names.store.next;
  CHECK(names.cut("abcdXY") == entry);
  CHECK(names.store.next == next && is_zero(next, 256));
  CHECK_EQ(names.store.bytes, size_of(entry->text()));
  CHECK(names.cut("abcdXY", nullptr) != entry);
  CHECK(names.cut("abcdXY", nullptr)->like == nullptr);
  // Of an unloaded library.
  fp::InternEntry* forgotten = names.intern(entry->text());
  forgotten->like = fp::forgotten_site();
  CHECK(names.cut("abcdXY", &twin_site) == entry);
  // Between characters.
  CHECK_EQ(std::string(names
                           .cut("abc\xC3\xA9"
                                "f")
                           ->text()),
           "abc... [cut: 6 bytes]");
  CHECK_EQ(std::string(names
                           .cut("ab\xE2\x82\xAC"
                                "f")
                           ->text()),
           "ab... [cut: 6 bytes]");
  CHECK_EQ(std::string(names
                           .cut("a\xE2\x82\xAC"
                                "fg")
                           ->text()),
           "a\xE2\x82\xAC... [cut: 6 bytes]");
  CHECK_EQ(std::string(names.cut("\x80\x80\x80\x80\x80\x80")->text()), "... [cut: 6 bytes]");
}

TEST(a_cut_name_is_bounded_too) {
  Names names;
  names.s->max_name_length = 4;
  const std::string kept = "abcd... [cut: 6 bytes]";
  names.s->max_name_bytes = size_of(kept) - 1;
  CHECK(names.cut("abcdef") == nullptr);
  CHECK_EQ(names.store.bytes, 0);
  ++names.s->max_name_bytes;
  CHECK(names.cut("abcdef") != nullptr);
  CHECK(names.cut("abcdef") == nullptr);  // needs room for a moment
  CHECK_EQ(names.store.bytes, size_of(kept));
}

// The memory of an equal name that was the first of a new block stays there, and is counted.
TEST(an_equal_cut_name_may_begin_a_block) {
  Names names;
  names.s->max_name_length = 4;
  const fp::InternEntry* entry = names.cut("abcdef");
  while (names.store.end - names.store.next > 16) names.allocate(16);
  const uint64_t bytes = names.store.bytes;
  CHECK(names.cut("abcdef") == entry);
  CHECK_EQ(names.blocks(), 2);
  CHECK_EQ(names.store.bytes, bytes + size_of(entry->text()));
  CHECK(is_zero(names.allocate(64), 64));
}

// Inside the recorder, where a thread must not wait for a lock that it may hold.
TEST(a_busy_thread_gets_fixed_names) {
  fp::Session session;
  session.start();
  { FASTPROF_RANGE("registers the thread"); }
  {
    const fp::BusyScope busy(fp::thread_block());
    CHECK(fp::intern_site(like_site, "new while busy") == &like_site);
    CHECK_EQ(std::string(fp::intern_string("new text while busy")), "<reentrant string>");
    fp::NameUse use;
    CHECK(fp::session_site(use, like_site, "new while busy") == &like_site);
    CHECK_EQ(std::string(fp::session_string(use, "new text while busy")), "<too many strings>");
  }
  fp::NameUse use;
  CHECK_EQ(std::string(fp::intern_site(like_site, "new")->name), "new");
  CHECK_EQ(std::string(fp::intern_string("new text")), "new text");
  CHECK(fp::intern_string("new text") == fp::intern_string(std::string("new text")));
  CHECK_EQ(std::string(fp::session_site(use, like_site, "session's")->name), "session's");
  CHECK_EQ(std::string(fp::session_string(use, "session's text")), "session's text");
  session.stop();
  // Counted: each but the lasting string, which has no category.
  CHECK_EQ(dropped(session.capture(), fp::DropCause::names), 3);
  CHECK_EQ(session.capture().dropped_total(), 0);
}

TEST(uses_of_names_nest) {
  fp::State* s = fp::state();
  fp::Session session;
  session.start();
  fp::NameUse outer;
  CHECK(outer.begin(s));
  const uint32_t& in_use = fp::thread_block()->track->names_in_use;
  CHECK(in_use != 0);
  {
    fp::NameUse inner, unused;
    CHECK(inner.begin(s) && inner.begin(s));
    CHECK(in_use != 0);
  }
  CHECK(in_use != 0);
  {
    fp::NameUse again;
    CHECK(outer.begin(s) && again.begin(s));
  }
  CHECK(in_use != 0);
}

// Before a library has joined a recorder, and after one refused it.
TEST(without_a_recorder_there_are_static_names_only) {
  CHECK_EQ(in_child([] {
             static fp::State alone;
             fp::thread_block()->track = nullptr;
             fp::store_relaxed(&fp::g_recorder.state, &alone);
             fp::NameUse use;
             CHECK(!use.begin(&alone));
             CHECK(fp::intern_site(like_site, "name") == &like_site);
             CHECK_EQ(std::string(fp::intern_string("text")), "");
             CHECK(fp::session_site(use, like_site, "name") == &like_site);
             CHECK_EQ(std::string(fp::session_string(use, "text")), "<reentrant string>");
             CHECK(fp::current_track() == nullptr);
             CHECK(fp::thread_primitives() == nullptr);
             fp::set_thread_name("name");
             std::fflush(nullptr);
             ::_exit(check::failures().load() == 0 ? 0 : 1);
             return 1;
           }),
           0);
}
