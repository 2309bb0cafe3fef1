# SPDX-License-Identifier: Apache-2.0
"""Read x86-64 machine code as objdump prints it: enough to follow the paths of one function."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compilers import need, run

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(.*)$")
_SYMBOL = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_TARGET = re.compile(r"^([0-9a-f]+)\b")
_PADDING = {"endbr64", "nop", "nopw", "nopl", "data16", "xchg"}


@dataclass(frozen=True)
class Instruction:
    """One instruction in AT&T spelling: ``mnemonic`` without size prefixes, ``operands`` without the comment."""

    address: int
    mnemonic: str
    operands: str

    @property
    def is_conditional(self) -> bool:
        return self.mnemonic.startswith("j") and self.mnemonic != "jmp"

    @property
    def target(self) -> int | None:
        match = _TARGET.match(self.operands)
        return int(match[1], 16) if match else None

    @property
    def reads_memory(self) -> bool:
        """A memory operand that is read: any but the destination of a move and the address of lea."""
        if "(" not in self.operands or self.mnemonic.startswith(("lea", "nop")):
            return False
        if self.mnemonic.startswith("mov"):
            return "(" in self.operands.rsplit(",", 1)[0] and not self.operands.startswith("%")
        return True


@dataclass(frozen=True)
class Program:
    """The code of a linked program or library."""

    path: Path

    @cached_property
    def _text(self) -> tuple[dict[str, int], dict[int, Instruction], dict[int, int]]:
        symbols: dict[str, int] = {}
        code: dict[int, Instruction] = {}
        following: dict[int, int] = {}
        last: int | None = None
        for line in run([need("objdump"), "-d", "--no-show-raw-insn", self.path]).splitlines():
            if symbol := _SYMBOL.match(line):
                symbols[symbol[2]] = int(symbol[1], 16)
                last = None
            elif found := _LINE.match(line):
                text = found[2].split("#")[0].split("<")[0].strip()
                words = text.split(maxsplit=1)
                while words and words[0] in {
                    "bnd",
                    "notrack",
                    "rep",
                    "repz",
                    "lock",
                    "data16",
                    "cs",
                }:
                    if words[0] == "lock":
                        break
                    words = words[1].split(maxsplit=1) if len(words) > 1 else []
                address = int(found[1], 16)
                mnemonic = words[0] if words else "nop"
                code[address] = Instruction(address, mnemonic, words[1] if len(words) > 1 else "")
                if last is not None:
                    following[last] = address
                last = address
        return symbols, code, following

    def quietest_path(self, function: str) -> list[Instruction]:
        """Return the shortest path through ``function`` from entry to return without a call.

        Padding is left out; the return is the last element. Raises LookupError if every path contains a call.
        """
        symbols, code, following = self._text
        paths: list[list[Instruction]] = [[]]
        places = [symbols[function]]
        while places:
            place, path = places.pop(0), paths.pop(0)
            instruction = code[place]
            if instruction.mnemonic in {"call", "callq", "hlt", "ud2"} or len(path) > 200:
                continue
            if instruction.mnemonic not in _PADDING:
                path = [*path, instruction]
            if instruction.mnemonic.startswith("ret"):
                return path
            nexts: list[int | None] = []
            if instruction.mnemonic == "jmp":
                nexts = [instruction.target if "<" not in instruction.operands else None]
            else:
                nexts = [following.get(place)]
                if instruction.is_conditional:
                    nexts.append(instruction.target)
            for following_place in nexts:
                if following_place in code:
                    places.append(following_place)
                    paths.append(path)
        raise LookupError(f"every way through {function} calls something")
