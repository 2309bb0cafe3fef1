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
#include "fastprof/export/byte_buffer.hpp"
#include "fastprof/export/trace_file.hpp"

FASTPROF_NAMESPACE_BEGIN
namespace trace_output {

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
  TraceFile file(path);
  ByteBuffer out(&TraceFile::write_function, &file);
  Writer(capture, options, out).write();
  out.flush();
  file.commit();
  return out.bytes();
}

}  // namespace trace_output
FASTPROF_NAMESPACE_END
