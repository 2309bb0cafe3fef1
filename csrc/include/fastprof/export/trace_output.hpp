// SPDX-License-Identifier: Apache-2.0
// Where a trace writer's bytes go: a stream, or a file that appears only when it is whole. Writer
// is constructed from (const Capture&, options, ByteBuffer&) and has write().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fastprof/base/config.hpp"
#include "fastprof/base/error.hpp"
#include "fastprof/capture/capture.hpp"
#include "fastprof/capture/validate.hpp"
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/trace_file.hpp"

FASTPROF_NAMESPACE_BEGIN

// Told how many bytes are in the file, now and then while it is written, by the thread that writes.
// False: stop; the file is then not made. Null: nobody wants to know.
struct TraceProgress {
  bool (*call)(void* state, uint64_t bytes) = nullptr;
  void* state = nullptr;
};

namespace trace_output {

// A file that tells how far it is.
struct ToldFile {
  static constexpr uint64_t kStepBytes = 4 << 20;

  TraceFile file;
  TraceProgress progress;
  uint64_t bytes = 0;
  uint64_t told_bytes = 0;

  static bool write(void* self, const char* data, size_t size) {
    auto* to = static_cast<ToldFile*>(self);
    if (!to->file.write(data, size)) return false;
    to->bytes += size;
    if (to->progress.call == nullptr || to->bytes - to->told_bytes < kStepBytes) return true;
    to->told_bytes = to->bytes;
    if (to->progress.call(to->progress.state, to->bytes)) return true;
    to->file.cancel();
    return false;
  }
};

// Returns the bytes written. Raises ValueError for a capture whose columns disagree and IoError
// when the stream reports a failure.
template <class Writer, class Options, class Stream>
uint64_t to_stream(const Capture& capture, Stream& stream, const Options& options) {
  validate_capture(capture);
  const WriteFunction write = [](void* state, const char* data, size_t size) {
    Stream& to = *static_cast<Stream*>(state);
    to.write(data, static_cast<std::ptrdiff_t>(size));
    return stream_is_good(to);
  };
  ByteBuffer out(write, &stream);
  Writer(capture, options, out).write();
  out.flush();
  if (!out.ok()) raise<IoError>("cannot write the trace: the stream reports a failure");
  return out.bytes();
}

// Returns the file's size in bytes. Raises as above, and IoError when the file cannot be written;
// `path` is then what it was before.
template <class Writer, class Options>
uint64_t to_file(const Capture& capture, const std::string& path, const Options& options) {
  validate_capture(capture);
  ToldFile told{TraceFile(path), options.progress};
  ByteBuffer out(&ToldFile::write, &told);
  Writer(capture, options, out).write();
  out.flush();
  told.file.commit();
  return out.bytes();
}

}  // namespace trace_output
FASTPROF_NAMESPACE_END
