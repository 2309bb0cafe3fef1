/* SPDX-License-Identifier: Apache-2.0
   What tests say to the double of Metal (fake_metal.mm), and ask it. Any thread. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
#define FAKE_METAL_EXPORT __attribute__((visibility("default")))

/* Number of devices; 1 at the start. */
FAKE_METAL_EXPORT void fake_metal_devices(int count);
/* How long command buffers that are committed from now on run and are scheduled, at least. */
FAKE_METAL_EXPORT void fake_metal_run_ms(double gpu_ms, double kernel_ms);
/* The next command buffer fails with this description. */
FAKE_METAL_EXPORT void fake_metal_fail_next(const char* description);
/* While held, committed command buffers wait. */
FAKE_METAL_EXPORT void fake_metal_hold(int held);
/* Whether documents can be captured, and the description with which a start fails; null: none. */
FAKE_METAL_EXPORT void fake_metal_captures(int supported, const char* failure);
/* Whether Instruments looks at signposts. */
FAKE_METAL_EXPORT void fake_metal_watch_signposts(int watched);
/* What happened since the last call: a line each. Owned by the double, until the next call. */
FAKE_METAL_EXPORT const char* fake_metal_take_log(void);
/* Number of command buffers that exist. */
FAKE_METAL_EXPORT int fake_metal_live_buffers(void);

/* A program's own Metal work, for tests in Python: a queue (retained), work committed to it. */
FAKE_METAL_EXPORT void* fake_metal_new_queue(const char* label);
FAKE_METAL_EXPORT void fake_metal_release_queue(void* queue);
FAKE_METAL_EXPORT void fake_metal_label(void* command_buffer, const char* label);
FAKE_METAL_EXPORT void fake_metal_commit(void* queue, const char* label, int wait);
#ifdef __cplusplus
}
#endif
