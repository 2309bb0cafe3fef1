// SPDX-License-Identifier: Apache-2.0
#include "adapters/python/stack_reader.hpp"

#include <algorithm>

#include "fastprof/platform/checked_copy.hpp"
#include "fastprof/platform/clock.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace python_adapter {
namespace {

constexpr uintptr_t kPageBytes = 4096;  // or a divisor of it: a copy below crosses no page
constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr size_t kMaxLinks = 32;
constexpr size_t kInnermostCopies = 8;
constexpr size_t kGenerators = 4;   // that are copied with the innermost frame
constexpr int64_t kUsualTimes = 4;  // the usual time that the innermost frames take, and
constexpr int64_t kAllowedNs = 2000;
// Copied below the innermost frame with it. A larger part would take longer than a call.
constexpr uintptr_t kInnermostBytes = 1024;

uintptr_t lowest_of_page(uintptr_t address) noexcept {
  return address & ~(kPageBytes - 1);
}

}  // namespace

StackReader::StackReader(const Interpreter& interpreter)
    : interpreter_(interpreter),
      layout_(interpreter.layout),
      pid_(interpreter.pid),
      bytes_(kBufferBytes) {
  frames_.reserve(kMaxFrames);
}

size_t StackReader::make_room(size_t size_bytes) {
  if (used_ + size_bytes > bytes_.size()) {
    windows_.clear();
    used_ = 0;
  }
  const size_t at = used_;
  used_ += size_bytes;
  return at;
}

const char* StackReader::find(uintptr_t frame) const noexcept {
  for (size_t i = windows_.size(); i-- != 0;) {
    const Window& window = windows_[i];
    // A torn address may be so large that a sum would overflow.
    if (frame >= window.low && frame < window.high && window.high - frame >= layout_.frame_bytes)
      return &bytes_[window.at + (frame - window.low)];
  }
  return nullptr;
}

const char* StackReader::load(uintptr_t frame) {
  if (frame > UINTPTR_MAX - kPageBytes) return nullptr;
  // The callers of a frame lie below it.
  const uintptr_t low = is_side_by_side(layout_) ? lowest_of_page(frame) : frame;
  const size_t size = frame + layout_.frame_bytes - low;
  const size_t at = make_room(size);
  const platform::MemoryPiece piece = {low, &bytes_[at], size};
  if (platform::copy_pieces(pid_, &piece, 1) != 1) return nullptr;
  windows_.push_back({low, low + size, at});
  return &bytes_[at + (frame - low)];
}

// Finds where the thread says which frame is its innermost one, and which it is now, as guess_.
bool StackReader::guess_innermost(const ThreadWords& thread) {
  frame_word_ = thread.frame_word;
  if (layout_.c_frame != kAbsent) {
    const platform::MemoryPiece piece = {thread.address + layout_.c_frame, &frame_word_,
                                         sizeof frame_word_};
    if (platform::copy_pieces(pid_, &piece, 1) != 1 || frame_word_ == 0) return false;
    frame_word_ += layout_.frame;
  }
  const platform::MemoryPiece piece = {frame_word_, &guess_, sizeof guess_};
  return platform::copy_pieces(pid_, &piece, 1) == 1;
}

// Copies, in one system call, which frame is the innermost one and the surroundings of some frames.
// False also if the thread runs another evaluation loop than when frame_word_ was read.
bool StackReader::copy_with_word(const ThreadWords& thread, const uintptr_t* frames, size_t size,
                                 uintptr_t* word) {
  windows_.clear();
  used_ = 0;
  const bool has_loops = layout_.c_frame != kAbsent;
  uintptr_t loop = 0;
  platform::MemoryPiece pieces[2 + kInnermostCopies];
  size_t count = 0;
  if (has_loops) pieces[count++] = {thread.address + layout_.c_frame, &loop, sizeof loop};
  pieces[count++] = {frame_word_, word, sizeof *word};
  for (size_t i = 0; i < size; ++i) {
    uintptr_t low = frames[i];
    uintptr_t high = low + layout_.frame_bytes;
    if (is_side_by_side(layout_)) {  // callers lie below, the next callees above
      const uintptr_t page = lowest_of_page(low);
      high = std::max(high, std::min(page + kPageBytes, low + kInnermostBytes));
      low = std::max(page, low - std::min(low, kInnermostBytes));
    }
    const size_t at = make_room(high - low);
    pieces[count++] = {low, &bytes_[at], high - low};
    windows_.push_back({low, high, at});
  }
  return platform::copy_pieces(pid_, pieces, count) == count &&
         (!has_loops || loop + layout_.frame == frame_word_);
}

// The first frame that was not copied with the innermost one: of generators, which lie anywhere,
// and of the first frame below them. 0 if there is none.
uintptr_t StackReader::first_missing(uintptr_t innermost) const noexcept {
  for (uintptr_t at = innermost, depth = 0; at != 0 && depth < kGenerators; ++depth) {
    const char* const words = find(at);
    if (words == nullptr) return at;
    if (layout_.frame_owner == kAbsent ||
        load_at<uint8_t>(words, layout_.frame_owner) != kOwnedByGenerator)
      return 0;
    at = load_at<uintptr_t>(words, layout_.frame_previous);
  }
  return 0;
}

// Whether this thread was interrupted since begin_ns_: what it has copied is then of several times.
bool StackReader::is_late() const noexcept {
  return platform::monotonic_ns() - begin_ns_ > kUsualTimes * usual_ns_ + kAllowedNs;
}

// Repeats the copy with frames that the last one lacked, or if this thread was interrupted.
bool StackReader::copy_innermost(const ThreadWords& thread, uintptr_t* innermost) {
  uintptr_t frames[kInnermostCopies];
  size_t size = 0;
  for (size_t i = 0; i < kInnermostCopies; ++i) {
    if (size == 0) {
      if (!guess_innermost(thread)) return false;
      *innermost = guess_;
      if (guess_ == 0) return true;
      frames[size++] = guess_;
    }
    if (frames[size - 1] % alignof(void*) != 0 || frames[size - 1] > UINTPTR_MAX - kPageBytes)
      return false;
    begin_ns_ = platform::monotonic_ns();
    const bool copied = copy_with_word(thread, frames, size, innermost);
    const int64_t took_ns = platform::monotonic_ns() - begin_ns_;
    if (usual_ns_ == 0) usual_ns_ = took_ns;
    const bool late = is_late();
    usual_ns_ += (std::min(took_ns, 2 * usual_ns_ + kAllowedNs) - usual_ns_) / 16;
    if (!copied) {
      size = 0;
    } else if (!late) {
      const uintptr_t missing = first_missing(*innermost);
      if (missing == 0) return true;
      if (size == kInnermostCopies) return false;
      frames[size++] = missing;
    }
  }
  return false;
}

bool StackReader::copy_chain(const ThreadWords& thread) {
  frames_.clear();
  links_.clear();
  truncated_ = false;
  uintptr_t at = 0;
  if (thread.frame_word == 0) return true;
  if (!copy_innermost(thread, &at)) return false;
  const uintptr_t innermost = at;
  uintptr_t marked = 0;  // Brent's detection of cycles
  size_t steps = 0;
  size_t next_mark = 1;
  Link inner{};
  uintptr_t inner_at = 0;
  while (at != 0) {
    if (at % alignof(void*) != 0 || at == marked) return false;
    if (++steps == next_mark) {
      marked = at;
      next_mark *= 2;
    }
    const char* words = find(at);
    if (words == nullptr) {
      // The innermost frame may return meanwhile: the stack is then that of before.
      if (inner_at != 0 && inner_at != innermost && links_.size() < kMaxLinks) {
        links_.push_back(inner);
      }
      words = load(at);
      if (words == nullptr || (inner_at == innermost && is_late())) return false;
    }
    const uint8_t owner =
        layout_.frame_owner == kAbsent ? 0 : load_at<uint8_t>(words, layout_.frame_owner);
    // The low bits of a pointer are a tag on 3.14.
    const uintptr_t code = load_at<uintptr_t>(words, layout_.frame_code) & ~uintptr_t{7};
    const bool of_function = owner < kOwnedByInterpreter && code != 0 && code != interpreter_.none;
    if (of_function) {
      if (frames_.size() == kMaxFrames) {
        truncated_ = true;
        return true;
      }
      frames_.push_back(
          {at, code, instruction_offset(layout_, words, code), 0, owner, is_entry(layout_, words)});
    } else if (owner >= kOwnedByInterpreter && !frames_.empty()) {
      frames_.back().is_entry = true;
    }
    inner.frame = inner_at = at;
    std::memcpy(inner.words, words, layout_.frame_bytes);
    at = load_at<uintptr_t>(words, layout_.frame_previous);
    // On 3.10, it may have been copied after it returned, or as a generator's that waits.
    if (at == 0 && !is_side_by_side(layout_) && inner_at == innermost && guess_ != innermost)
      at = guess_;
    if (at == 0 && owner == kOwnedByGenerator && !is_outermost(thread, inner)) return false;
  }
  return true;
}

// Whether a generator without a caller is what the thread runs, as in a thread that C code starts.
// Otherwise its frame was copied after it was suspended, which removes its caller.
bool StackReader::is_outermost(const ThreadWords& thread, const Link& generator) {
  if (frames_.size() != 1) return false;
  uintptr_t innermost = 0;
  if (!copy_with_word(thread, &generator.frame, 1, &innermost) || innermost != generator.frame)
    return false;
  return load_at<uintptr_t>(find(innermost), layout_.frame_previous) == 0;
}

bool StackReader::copy_heads() {
  codes_.clear();
  for (CopiedFrame& frame : frames_) {
    const size_t recent = codes_.size() > 8 ? codes_.size() - 8 : 0;
    const auto known =
        std::find(codes_.begin() + static_cast<std::ptrdiff_t>(recent), codes_.end(), frame.code);
    frame.head = static_cast<uint32_t>(known - codes_.begin());
    if (known == codes_.end()) codes_.push_back(frame.code);
  }
  const size_t head_bytes = layout_.code_head_bytes;
  heads_.resize(codes_.size() * head_bytes);
  std::vector<platform::MemoryPiece> pieces(codes_.size());
  for (size_t i = 0; i < codes_.size(); ++i)
    pieces[i] = {codes_[i], &heads_[i * head_bytes], head_bytes};
  if (platform::copy_pieces(pid_, pieces.data(), pieces.size()) != pieces.size()) return false;
  for (size_t i = 0; i < codes_.size(); ++i)
    if (load_at<uintptr_t>(&heads_[i * head_bytes], layout_.object_type) != interpreter_.code_type)
      return false;
  size_t kept = 0;
  started_loops_ = 0;
  for (const CopiedFrame& frame : frames_) {
    const char* head = code_head(frame);
    if (is_before_function(layout_, head, frame.offset, frame.owner)) {
      if (frame.is_entry && kept == 0) ++started_loops_;
      continue;
    }
    const int64_t size = code_bytes(layout_, head);
    if (frame.offset < -2 || (size != 0 && frame.offset > size)) return false;
    frames_[kept++] = frame;
  }
  frames_.resize(kept);
  return true;
}

// Whether the frames at which the copies were taken apart have the same code and caller as before,
// and no frame of the current chunk has returned since.
bool StackReader::links_hold(const ThreadWords& thread) {
  if (links_.empty()) return true;
  std::vector<Link> now(links_.size());
  std::vector<platform::MemoryPiece> pieces(links_.size());
  for (size_t i = 0; i < links_.size(); ++i)
    pieces[i] = {links_[i].frame, now[i].words, layout_.frame_bytes};
  if (platform::copy_pieces(pid_, pieces.data(), pieces.size()) != pieces.size()) return false;
  for (size_t i = 0; i < links_.size(); ++i)
    for (const size_t offset : {layout_.frame_code, layout_.frame_previous})
      if (load_at<uintptr_t>(links_[i].words, offset) != load_at<uintptr_t>(now[i].words, offset))
        return false;
  uintptr_t chunk = 0;
  uintptr_t top = 0;
  if (!read_stack_top(interpreter_, thread, &chunk, &top)) return false;
  if (chunk == 0 || chunk != thread.stack_chunk || top < chunk) return true;
  return std::none_of(links_.begin(), links_.end(), [chunk, top](const Link& link) {
    return link.frame >= top && link.frame - chunk < kPageBytes * 4;
  });
}

StackState StackReader::read(const ThreadWords& thread) {
  if (!copy_chain(thread)) return StackState::torn;
  if (frames_.empty()) return StackState::empty;
  if (!copy_heads() || !links_hold(thread)) return StackState::torn;
  return frames_.empty() ? StackState::empty : StackState::complete;
}

bool StackReader::is_still_running(const ThreadWords& thread, const CopiedFrame& frame) {
  if (second_ == nullptr) second_ = std::make_unique<StackReader>(interpreter_);
  return second_->copy_chain(thread) &&
         std::any_of(second_->frames_.begin(), second_->frames_.end(),
                     [&frame](const CopiedFrame& f) {
                       return f.frame == frame.frame && f.code == frame.code;
                     });
}

}  // namespace python_adapter
FASTPROF_NAMESPACE_END
