// SPDX-License-Identifier: Apache-2.0
// GNUstep's headers include this file of libobjc2; libBlocksRuntime has what they need of it.
#pragma once
#include <Block.h>
