# SPDX-License-Identifier: Apache-2.0
"""Read the data of an HTML report in Python, by the description in packing.py; the counterpart of page/decode.js."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np

_BLOCK = re.compile(
    rb'<script type="application/octet-stream" data-block="([^"]*)">([^<]*)</script>'
)


class ReportData:
    """One dataset of a report. rows(): the columns of its rows, times in ns from t0."""

    def __init__(self, blocks: dict[str, bytes], prefix: str) -> None:
        self._blocks = blocks
        self._prefix = prefix
        self.head = json.loads(zlib.decompress(blocks[f"{prefix}:head"]))

    def text(self, name: str) -> Any:
        """Return a text block's value; None if the report has none of that name."""
        packed = self._blocks.get(f"{self._prefix}:text:{name}")
        return None if packed is None else json.loads(zlib.decompress(packed))

    def block(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the columns of a block."""
        data, at = self._blocks[f"{self._prefix}:block:{name}"], 0
        columns: dict[str, np.ndarray[Any, Any]] = {}
        for entry in self.head["blocks"][name]:
            planes = np.zeros((entry["n"], 8), np.uint8)
            for k, (codec, size) in enumerate(entry["planes"]):
                plane = data[at : at + size]
                at += size
                planes[:, k] = np.frombuffer(zlib.decompress(plane) if codec else plane, np.uint8)
            values: Any = planes.reshape(-1).view("<f8" if entry.get("float") else "<u8")
            if entry.get("zigzag"):
                values = (values >> np.uint64(1)).view("<i8") ^ -(values & np.uint64(1)).view("<i8")
            elif not entry.get("float"):
                values = values.view("<i8")
            columns[entry["name"]] = np.cumsum(values) if entry.get("delta") else values
        assert at == len(data)
        return columns

    def rows(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return start, length, site, depth, flags and lane of the rows."""
        block = self.block("rows")
        start = block.pop("start_delta").copy()
        firsts = block.pop("lane_start").tolist()
        lane = np.zeros(len(start), np.int64)
        for number, each in enumerate(self.head["lanes"]):
            first, count = each["first"], each["count"]
            if count:
                start[first] = firsts.pop(0)
                start[first : first + count] = np.cumsum(start[first : first + count])
                lane[first : first + count] = number
        assert not firsts
        return {**block, "start": start, "lane": lane}

    def names(self) -> list[str]:
        """Return the name of each row."""
        strings, sites = self.head["strings"], self.head["sites"]["name"]
        return [strings[sites[site]] for site in self.rows()["site"].tolist()]


def read_report(path: Path, prefix: str = "a") -> ReportData:
    """Return a dataset of a report."""
    found = {
        name.decode(): base64.b64decode(data, validate=True)
        for name, data in _BLOCK.findall(path.read_bytes())
    }
    return ReportData(found, prefix)
