// SPDX-License-Identifier: Apache-2.0
// Double of <mach-o/dyld.h>: fake_darwin.cpp makes a Mach-O header of each ELF object that is
// loaded.
#pragma once

#include <cstdint>

#include "mach-o/loader.h"

extern "C" {
uint32_t _dyld_image_count();
const mach_header* _dyld_get_image_header(uint32_t index);
intptr_t _dyld_get_image_vmaddr_slide(uint32_t index);
const char* _dyld_get_image_name(uint32_t index);
int _NSGetExecutablePath(char* path, uint32_t* size);
}
