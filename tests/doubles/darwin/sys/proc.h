// SPDX-License-Identifier: Apache-2.0
// Double of <sys/proc.h>, declared by us: states of a process.
#pragma once

#define SRUN 2
#define SZOMB 5
