// SPDX-License-Identifier: Apache-2.0
// The options of details that live sessions share, and the memory of a thread's details.
#include "private_state.hpp"
#include "recorder_checks.hpp"

using namespace recorder_checks;
using namespace private_state;

namespace {

fp::DetailOptions frames(uint32_t count) {
  fp::DetailOptions options{};
  options.max_frames = count;
  options.counters[0].config = count;
  options.joined_stack = true;
  return options;
}

}  // namespace

TEST(options_are_read_while_they_do_not_change) {
  const auto s = make_state();
  fp::DetailOptions read{};
  CHECK(fp::load_detail_options(s.get(), &read));
  CHECK_EQ(read.max_frames, 0);
  fp::store_detail_options(s.get(), frames(7));
  CHECK_EQ(s->detail_options[15], 2);  // the version
  for (size_t i = 10; i < 15; ++i) CHECK_EQ(s->detail_options[i], 0);
  CHECK(fp::load_detail_options(s.get(), &read));
  CHECK_EQ(read.max_frames, 7);
  CHECK_EQ(read.counters[0].config, 7);
  CHECK(read.joined_stack);
  fp::store_detail_options(s.get(), frames(7));  // the same: readers are not disturbed
  CHECK_EQ(s->detail_options[15], 2);
  fp::store_detail_options(s.get(), frames(8));
  CHECK_EQ(s->detail_options[15], 4);
  CHECK(fp::load_detail_options(s.get(), &read));
  CHECK_EQ(read.max_frames, 8);
  s->detail_options[15] = 5;  // somebody stores others
  read.max_frames = 1;
  CHECK(!fp::load_detail_options(s.get(), &read));
  CHECK_EQ(read.max_frames, 1);
}

TEST(a_track_keeps_the_memory_of_its_details) {
  const auto s = make_state();
  fp::Track* track = fp::new_track(s.get());
  fp::close_track_detail(track);  // there are none
  fp::ThreadDetail* detail = fp::thread_detail(s.get(), track);
  CHECK(detail != nullptr);
  CHECK(track->counters == detail);
  CHECK(fp::thread_detail(s.get(), track) == detail);
  fp::free_track(s.get(), track);
  fp::Track* next = fp::new_track(s.get());
  CHECK(next == track);
  CHECK(fp::thread_detail(s.get(), next) == detail);
}

TEST(a_joined_stack_comes_from_its_provider) {
  fp::State* s = fp::state();
  fp::ThreadBlock* block = fp::thread_block();
  const auto provider = s->joined_stack;
  fp::DetailOptions before{};
  CHECK(fp::load_detail_options(s, &before));
  uint64_t words[fp::kMaxDetailWords];
  fp::DetailOptions options{};
  const auto blocks = [&](bool joined) {
    options.joined_stack = joined;
    fp::store_detail_options(s, options);
    const size_t used = fp::leader_detail_begin(s, block, words, fp::kMaxDetailWords, &options);
    uint64_t id = 0;
    fp::for_each_block(words, used, [&](fp::DetailBlock found, const uint64_t* at) {
      if (found.type == fp::DetailType::python_stack) id = at[0];
    });
    return id;
  };
  fp::store_release(
      &s->joined_stack,
      +[](const void* caller) { return caller == nullptr ? uint64_t{0} : uint64_t{4711}; });
  CHECK_EQ(blocks(true), 4711);
  CHECK_EQ(blocks(false), 0);
  fp::store_release(&s->joined_stack, provider);
  if (provider == nullptr) CHECK_EQ(blocks(true), 0);
  // While the options change, a range has no details.
  s->detail_options[15] += 1;
  CHECK_EQ(fp::leader_detail_begin(s, block, words, fp::kMaxDetailWords, &options), 0);
  s->detail_options[15] += 1;
  fp::store_detail_options(s, before);
}
