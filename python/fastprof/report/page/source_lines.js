// SPDX-License-Identifier: Apache-2.0
// source_lines: time by source line. The self time of a range with a Python stack counts as self time of the innermost
// line and as total of all lines of the stack; that of other calls and ranges counts for the line where they are defined.

/**
 * @typedef {{self: number, total: number, count: number, memory: number, keys: Set<number>}} SourceLine
 * @typedef {{file: string, lines: Map<number, SourceLine>, self: number, memory: number}} SourceFile
 */
R.sourceLines = (() => {
  /** @returns {Promise<Map<string, SourceFile>>} files by name, for the rows of a selection */
  async function compute(/** @type {any} */ model, /** @type {any} */ selection) {
    /** @type {Map<string, SourceFile>} */
    const files = new Map();
    const line = (/** @type {string} */ file, /** @type {number} */ number) => {
      let of = files.get(file);
      if (!of) files.set(file, (of = { file, lines: new Map(), self: 0, memory: 0 }));
      let found = of.lines.get(number);
      if (!found) of.lines.set(number, (found = { self: 0, total: 0, count: 0, memory: 0, keys: new Set() }));
      return found;
    };
    const stacks = await model.block("stacks");
    const allocated = ((await model.block("numbers")) || {}).self_cpu_memory_usage;
    const texts = stacks ? await model.json("values") : null;
    const byStack = texts ? texts.stacks.map(() => new Map()) : [];
    const counts = new Float64Array(byStack.length);
    const bytes = new Float64Array(byStack.length);
    const { keys, rowKey } = model;
    const places = keys.map(place);
    const open = new Int32Array(keys.length); // enclosing rows of each key: a recursive call adds no total
    const path = /** @type {number[]} */ ([]);
    R.aggregate.forRows(model, selection, (row, length, self, parent) => {
      while (path.length && path[path.length - 1] !== parent) open[rowKey[/** @type {number} */ (path.pop())]] -= 1;
      const key = rowKey[row];
      const code = stacks ? stacks.stack[row] : 0;
      const value = Math.max(self, 0);
      const memory = allocated ? Math.max(allocated[row], 0) : 0;
      if (code) {
        bytes[code - 1] += memory;
        byStack[code - 1].set(key, (byStack[code - 1].get(key) || 0) + value);
        counts[code - 1] += 1;
      } else if (places[key]) {
        const found = line(places[key].file, places[key].line);
        found.self += value;
        found.memory += memory;
        found.count += 1;
        found.keys.add(key);
        if (!open[key]) found.total += length;
      }
      open[key] += 1;
      path.push(row);
    });
    byStack.forEach((/** @type {Map<number, number>} */ parts, /** @type {number} */ code) => {
      if (!parts.size) return;
      const self = [...parts.values()].reduce((sum, each) => sum + each, 0);
      const seen = new Set();
      texts.stacks[code].forEach((/** @type {number} */ frame, /** @type {number} */ depth) => {
        const at = R.format.frame(model.text(frame));
        if (!at) return;
        const found = line(at.file, at.line);
        if (depth === 0) {
          found.self += self;
          found.memory += bytes[code];
          found.count += counts[code];
          for (const key of parts.keys()) found.keys.add(key);
        }
        if (!seen.has(found)) found.total += self;
        seen.add(found);
      });
    });
    for (const file of files.values()) for (const each of file.lines.values()) {
      file.self += each.self;
      file.memory += each.memory;
    }
    return files;
  }

  /** The place where a key is defined: that of its site, or that in a Python call's name; null if unknown. */
  function place(/** @type {any} */ key) {
    if (key.file && key.line > 0) return { file: key.file, line: key.line };
    const frame = R.format.frame(key.name);
    return frame && frame.line > 0 ? frame : null;
  }

  /** Callers and callees of a key with the time and number of these calls, longest first. */
  function neighbours(/** @type {any} */ model, /** @type {number} */ key) {
    const callers = new Map();
    const callees = new Map();
    const add = (/** @type {Map<number, [number, number]>} */ into, /** @type {number} */ of, /** @type {number} */ ns) => {
      const found = into.get(of) || [0, 0];
      into.set(of, [found[0] + ns, found[1] + 1]);
    };
    const { parent, rowKey, length } = model;
    for (let row = 0; row < model.n; row++) {
      const up = parent[row];
      const above = up >= 0 ? rowKey[up] : -1;
      if (rowKey[row] === key) add(callers, above, length[row]);
      if (above === key && up >= 0) add(callees, rowKey[row], length[row]);
    }
    const list = (/** @type {Map<number, [number, number]>} */ of) => [...of].sort((a, b) => b[1][0] - a[1][0]).slice(0, 12);
    return { callers: list(callers), callees: list(callees) };
  }

  return { compute, neighbours };
})();
