// SPDX-License-Identifier: Apache-2.0
// The per-library definitions: its own State, the pointer to the elected State, its thread-local
// block, and the ELF note by which other libraries find it. All hidden, all emitted once per
// library.
#pragma once

#include "fastprof/base/config.hpp"
#include "fastprof/recorder/state/state.hpp"

// The thread block is defined in assembly so that no compiler accesses it by initial-exec TLS (a
// library that uses that fails dlopen once the static TLS surplus is spent).
// fastprof_v1_tls_probe(out) stores three words: the value after the first instruction of the
// TLSDESC sequence, the offset it resolves to, and the descriptor's second word; probe_tls
// (join.hpp) interprets them. .ifndef: LTO puts the text of several translation units into one
// assembly.
#if defined(__x86_64__)
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
    "fastprof_v1_tls_probe:\n"
    "endbr64\n"
    "pushq %rbx\n"
    "leaq fastprof_v1_thread_block@tlsdesc(%rip),%rax\n"
    "movq %rax,%rbx\n"
    "call *fastprof_v1_thread_block@tlscall(%rax)\n"
    "movq %rbx,(%rdi)\n"
    "movq %rax,8(%rdi)\n"
    "movq %rax,16(%rdi)\n"
    "cmpq %rax,%rbx\n"
    "je 1f\n"
    "movq 8(%rbx),%rbx\n"
    "movq %rbx,16(%rdi)\n"
    "1: popq %rbx\n"
    "ret\n"
    ".size fastprof_v1_tls_probe,.-fastprof_v1_tls_probe\n"
    ".popsection\n"
    ".endif\n");
#else
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
    "fastprof_v1_tls_probe:\n"
    "stp x29,x30,[sp,#-32]!\n"
    "stp x19,x20,[sp,#16]\n"
    "mov x19,x0\n"
    "adrp x0,:tlsdesc:fastprof_v1_thread_block\n"
    "ldr x1,[x0,:tlsdesc_lo12:fastprof_v1_thread_block]\n"
    "add x0,x0,:tlsdesc_lo12:fastprof_v1_thread_block\n"
    "mov x20,x0\n"
    ".tlsdesccall fastprof_v1_thread_block\n"
    "blr x1\n"
    "str x20,[x19]\n"
    "str x0,[x19,#8]\n"
    "str x0,[x19,#16]\n"
    "cmp x0,x20\n"
    "b.eq 1f\n"
    "ldr x20,[x20,#8]\n"
    "str x20,[x19,#16]\n"
    "1: ldp x19,x20,[sp,#16]\n"
    "ldp x29,x30,[sp],#32\n"
    "ret\n"
    ".size fastprof_v1_tls_probe,.-fastprof_v1_tls_probe\n"
    ".popsection\n"
    ".endif\n");
#endif

// The ELF note: owner "fastprof", type = ABI major, two PC-relative words (to State and to
// __ehdr_start). Readers use only their difference, so tools that move notes do no harm.
__asm__(
    ".ifndef fastprof_v1_note\n"
    ".pushsection .note.fastprof,\"aG\",%note,fastprof_v1_note,comdat\n"
    ".balign 8\n"
    ".weak fastprof_v1_note\n"
    ".hidden fastprof_v1_note\n"
    "fastprof_v1_note:\n"
    ".long 9\n"
    ".long 16\n"
    ".long " FASTPROF_STRING(FASTPROF_ABI_MAJOR) "\n"
    ".asciz \"fastprof\"\n"
    ".balign 4\n"
    ".hidden __ehdr_start\n"
    ".quad fastprof_v1_state - .\n"
    ".quad __ehdr_start - .\n"
    ".popsection\n"
    ".endif\n");

extern "C" {
__attribute__((visibility("hidden"))) void fastprof_v1_tls_probe(uintptr_t out[3]) noexcept;
}

FASTPROF_NAMESPACE_BEGIN

// This library's own State. The assembler name is the one that the note refers to. Recording uses
// *g_recorder.state.
__attribute__((used)) inline State own_state __asm__("fastprof_v1_state"){};

// The library's cached view of the elected State, in one cache line: every record reads it.
struct alignas(32) CurrentRecorder {
  // Never null: before the library has joined it is own_state, whose mask is 0.
  State* state;
  // Copies of State's fields, which save the hot path a load.
  intptr_t tls_offset;
  uint32_t tls_static;
};
inline CurrentRecorder g_recorder{&own_state, 0, 0};

FASTPROF_ALWAYS_INLINE State* state() noexcept {
  return load_relaxed(&g_recorder.state);
}

FASTPROF_ALWAYS_INLINE char* thread_pointer() noexcept {
  char* tp;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(tp));
#else
  __asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
  return tp;
}

// The calling thread's block. Valid only if g_recorder.tls_static; otherwise the mask contains
// mask_bit::dynamic. It is changed behind a process-wide barrier.
FASTPROF_ALWAYS_INLINE ThreadBlock* static_thread_block() noexcept {
  return reinterpret_cast<ThreadBlock*>(thread_pointer() + load_relaxed(&g_recorder.tls_offset));
}

// This library's own block, found through its TLS descriptor.
inline ThreadBlock* own_thread_block() noexcept {
  uintptr_t out[3];
  fastprof_v1_tls_probe(out);
  return reinterpret_cast<ThreadBlock*>(thread_pointer() + static_cast<intptr_t>(out[1]));
}

FASTPROF_COLD inline ThreadBlock* dynamic_thread_block() noexcept {
  State* s = state();
  return s->thread_block != nullptr ? s->thread_block() : own_thread_block();
}

// The calling thread's block, whichever TLS model applies. Any thread, any time.
FASTPROF_ALWAYS_INLINE ThreadBlock* thread_block() noexcept {
  return FASTPROF_LIKELY(load_acquire(&g_recorder.tls_static)) ? static_thread_block()
                                                               : dynamic_thread_block();
}

FASTPROF_NAMESPACE_END
