// SPDX-License-Identifier: Apache-2.0
// The pool of chunks while a backing file is in force: what lies in the file, what is set aside
// meanwhile, and what is left once the file is closed.
#include <string>
#include <vector>

#include "backing_store_checks.hpp"
#include "process_changes.hpp"

using namespace recorder_checks;
using namespace private_state;
using namespace backing_store_checks;
using backing_file_checks::Folder;
using namespace process_changes;

namespace {

constexpr uint64_t kPerSlab = 31;

}  // namespace

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
  const FileLimit limit(2 * 2097152);
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

TEST(threads_move_into_the_file_or_are_counted) {
  const Folder folder;
  const auto s = make_state();
  enum { idle, busy, in_signal, dead, count };
  fp::ThreadBlock blocks[count] = {};
  fp::Track* tracks[count];
  for (int i = 0; i < count; ++i) {
    tracks[i] = fp::new_track(s.get());
    tracks[i]->block = &blocks[i];
    open_chunk(s.get(), tracks[i]);
    blocks[i].limit = 4096;
  }
  blocks[busy].flags = fp::thread_flag::busy;
  tracks[in_signal]->suspended_cursor = 1;
  tracks[dead]->alive = 0;
  open_file(s.get(), folder.file());
  fp::move_threads_into_file(s.get());
  for (const int i : {idle, busy, in_signal}) CHECK_EQ(blocks[i].limit, 0);
  CHECK_EQ(blocks[dead].limit, 4096);
  CHECK_EQ(s->backing_file->threads_outside, 2);
  CHECK_EQ(read_at<fp::BackingHeader>(folder.file(), 0).threads_outside, 2);
  blocks[busy].flags = 0;
  tracks[in_signal]->suspended_cursor = 0;
  blocks[busy].limit = 4096;  // restored by its thread when it left the recorder
  fp::move_threads_into_file(s.get());
  CHECK_EQ(blocks[busy].limit, 0);
  CHECK_EQ(s->backing_file->threads_outside, 0);
  CHECK_EQ(read_at<fp::BackingHeader>(folder.file(), 0).threads_outside, 0);
  // This thread is inside the recorder, of course.
  fp::ThreadBlock* own = fp::thread_block();
  tracks[busy]->block = own;
  const fp::ThreadBlock before = *own;
  own->flags |= fp::thread_flag::busy;
  own->limit = 4096;
  fp::move_threads_into_file(s.get());
  CHECK_EQ(own->limit, 0);
  CHECK_EQ(s->backing_file->threads_outside, 0);
  *own = before;
  // A thread that writes in the file already keeps its limit.
  open_chunk(s.get(), tracks[idle]);
  blocks[idle].limit = 4096;
  fp::move_threads_into_file(s.get());
  CHECK_EQ(blocks[idle].limit, 4096);
  fp::end_file(s.get());
}
