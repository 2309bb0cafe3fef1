// SPDX-License-Identifier: Apache-2.0
// A library's thread-local block on Linux: 32 bytes of ELF thread-local storage, found through a
// TLS descriptor, and by a fixed offset from the thread pointer where the loader gave it one.
#pragma once

#include <cstdint>

#include "fastprof/base/config.hpp"

// The thread block is defined in assembly so that no compiler accesses it by initial-exec TLS (a
// library that uses that fails dlopen once the static TLS surplus is spent).
// fastprof_v1_tls_probe(out) stores three words: the value after the first instruction of the
// TLSDESC sequence, the offset it resolves to, and the descriptor's second word;
// probe_thread_block() interprets them. .ifndef: LTO puts the text of several translation units
// into one assembly. FASTPROF_TLS_PROBE_CODE: the instructions, the only part that depends on the
// processor.
#if defined(__x86_64__)
#define FASTPROF_TLS_PROBE_CODE                        \
  "endbr64\n"                                          \
  "pushq %rbx\n"                                       \
  "leaq fastprof_v1_thread_block@tlsdesc(%rip),%rax\n" \
  "movq %rax,%rbx\n"                                   \
  "call *fastprof_v1_thread_block@tlscall(%rax)\n"     \
  "movq %rbx,(%rdi)\n"                                 \
  "movq %rax,8(%rdi)\n"                                \
  "movq %rax,16(%rdi)\n"                               \
  "cmpq %rax,%rbx\n"                                   \
  "je 1f\n"                                            \
  "movq 8(%rbx),%rbx\n"                                \
  "movq %rbx,16(%rdi)\n"                               \
  "1: popq %rbx\n"                                     \
  "ret\n"
#else
#define FASTPROF_TLS_PROBE_CODE                          \
  "stp x29,x30,[sp,#-32]!\n"                             \
  "stp x19,x20,[sp,#16]\n"                               \
  "mov x19,x0\n"                                         \
  "adrp x0,:tlsdesc:fastprof_v1_thread_block\n"          \
  "ldr x1,[x0,:tlsdesc_lo12:fastprof_v1_thread_block]\n" \
  "add x0,x0,:tlsdesc_lo12:fastprof_v1_thread_block\n"   \
  "mov x20,x0\n"                                         \
  ".tlsdesccall fastprof_v1_thread_block\n"              \
  "blr x1\n"                                             \
  "str x20,[x19]\n"                                      \
  "str x0,[x19,#8]\n"                                    \
  "str x0,[x19,#16]\n"                                   \
  "cmp x0,x20\n"                                         \
  "b.eq 1f\n"                                            \
  "ldr x20,[x20,#8]\n"                                   \
  "str x20,[x19,#16]\n"                                  \
  "1: ldp x19,x20,[sp,#16]\n"                            \
  "ldp x29,x30,[sp],#32\n"                               \
  "ret\n"
#endif
__asm__(
    ".ifndef fastprof_v1_tls_probe\n"
    ".pushsection .tbss.fastprof_v1_thread_block,\"awTG\",@nobits,fastprof_v1_thread_block,comdat\n"
    ".balign 32\n"
    ".weak fastprof_v1_thread_block\n"
    ".hidden fastprof_v1_thread_block\n"
    ".type fastprof_v1_thread_block,@object\n"
    ".size fastprof_v1_thread_block,32\n"
    "fastprof_v1_thread_block:\n"
    ".zero 32\n"
    ".popsection\n"
    ".pushsection .text.fastprof_v1_tls_probe,\"axG\",@progbits,fastprof_v1_tls_probe,comdat\n"
    ".weak fastprof_v1_tls_probe\n"
    ".hidden fastprof_v1_tls_probe\n"
    ".type fastprof_v1_tls_probe,@function\n"
    "fastprof_v1_tls_probe:\n" FASTPROF_TLS_PROBE_CODE
    ".size fastprof_v1_tls_probe,.-fastprof_v1_tls_probe\n"
    ".popsection\n"
    ".endif\n");
#undef FASTPROF_TLS_PROBE_CODE

extern "C" {
__attribute__((visibility("hidden"))) void fastprof_v1_tls_probe(uintptr_t out[3]) noexcept;
}

FASTPROF_NAMESPACE_BEGIN

FASTPROF_ALWAYS_INLINE char* thread_pointer() noexcept {
  char* tp;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(tp));
#else
  __asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
  return tp;
}

namespace platform {

// Whether this library's thread block has the same offset from the thread pointer in all threads.
inline bool probe_thread_block(intptr_t& offset) noexcept {
  uintptr_t out[3];
  fastprof_v1_tls_probe(out);
  offset = static_cast<intptr_t>(out[1]);
  return out[0] == out[1] || out[2] == out[1];
}

// The calling thread's block of this library.
inline void* find_thread_block() noexcept {
  uintptr_t out[3];
  fastprof_v1_tls_probe(out);
  return thread_pointer() + static_cast<intptr_t>(out[1]);
}

// Called before a library is unloaded whose block no other library uses. Nothing refers to it on
// this system.
inline void drop_thread_blocks() noexcept {}

}  // namespace platform
FASTPROF_NAMESPACE_END
