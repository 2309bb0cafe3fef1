// SPDX-License-Identifier: Apache-2.0
// source_lines: time by source line. The total of a line is the time of all calls made from it (block "call_lines"), its
// self time that of the calls of functions written in C. The time of a Python function outside of the calls that it makes
// has no line: it counts for the line where the function is defined. The time of a range with a Python stack counts for
// the innermost line, and, in profiles without lines of calls, as total of all lines of the stack.

/**
 * @typedef {{self: number, total: number, count: number, memory: number, keys: Set<number>}} SourceLine
 * @typedef {{file: string, lines: Map<number, SourceLine>, self: number, memory: number, own: boolean}} SourceFile
 *   own: neither of the standard library nor of an installed package
 * @typedef {{row: number, file: string, self: SourceLine | null, opened: SourceLine | null}} PathEntry
 *   file: of the innermost Python function. self: the line of its self time. opened: the line whose total it is part of
 */
R.sourceLines = (() => {
  const OWN_KINDS = new Set(["range", "user code"]);

  /** @returns {Promise<Map<string, SourceFile>>} files by name, for the rows of a selection */
  async function compute(/** @type {any} */ model, /** @type {any} */ selection) {
    /** @type {Map<string, SourceFile>} */
    const files = new Map();
    const line = (/** @type {string} */ file, /** @type {number} */ number) => {
      let of = files.get(file);
      if (!of) files.set(file, (of = { file, lines: new Map(), self: 0, memory: 0, own: false }));
      let found = of.lines.get(number);
      if (!found) of.lines.set(number, (found = { self: 0, total: 0, count: 0, memory: 0, keys: new Set() }));
      return found;
    };
    const stacks = await model.block("stacks");
    const allocated = ((await model.block("numbers")) || {}).self_cpu_memory_usage;
    const callLines = ((await model.block("call_lines")) || {}).line;
    const texts = stacks ? await model.json("values") : null;
    const byStack = texts ? texts.stacks.map(() => new Map()) : [];
    const innermost = texts ? texts.stacks.map((/** @type {number[]} */ frames) => {
      const at = frames.length ? R.format.frame(model.text(frames[0])) : null;
      return at ? line(at.file, at.line) : null;
    }) : [];
    const counts = new Float64Array(byStack.length);
    const bytes = new Float64Array(byStack.length);
    const { keys, rowKey } = model;
    const places = keys.map(place);
    const open = /** @type {Map<SourceLine, number>} */ (new Map()); // on the path: a recursive call adds no total
    const path = /** @type {PathEntry[]} */ ([]);
    const leave = () => {
      const { opened } = /** @type {PathEntry} */ (path.pop());
      if (opened) open.set(opened, /** @type {number} */ (open.get(opened)) - 1);
    };
    R.aggregate.forRows(model, selection, (row, length, self, parent) => {
      while (path.length && path[path.length - 1].row !== parent) leave();
      const key = rowKey[row];
      const at = places[key];
      const isFunction = at !== null && keys[key].call;
      const around = path.length ? path[path.length - 1] : { file: "", self: null };
      const code = stacks ? stacks.stack[row] : 0;
      const value = Math.max(self, 0);
      const memory = allocated ? Math.max(allocated[row], 0) : 0;
      const caller = callLines && callLines[row] && around.file ? line(around.file, callLines[row]) : null;
      const defined = at ? line(at.file, at.line) : null;
      const opened = caller || (isFunction && callLines ? null : defined);
      if (opened && !open.get(opened)) opened.total += length;
      if (opened) open.set(opened, (open.get(opened) || 0) + 1);
      const own = defined || caller || around.self;
      if (code) {
        bytes[code - 1] += memory;
        byStack[code - 1].set(key, (byStack[code - 1].get(key) || 0) + value);
        counts[code - 1] += 1;
        const inner = innermost[code - 1];
        if (callLines && inner && !open.get(inner)) inner.total += value;
      } else if (own) {
        own.self += value;
        own.memory += memory;
        own.count += own === around.self ? 0 : 1;
        own.keys.add(key);
        if (own !== opened && own === defined) own.total += value;
      }
      if (caller) caller.keys.add(key);
      // A call that is named otherwise than after its function ("nn.Module: ...") hides the file of its lines.
      const file = isFunction ? at.file : keys[key].call && !keys[key].name.startsWith("<built-in ") ? "" : around.file;
      path.push({ row, file, self: own, opened });
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
        if (!seen.has(found) && !callLines) found.total += self;
        seen.add(found);
      });
    });
    for (const file of files.values()) for (const each of file.lines.values()) {
      file.self += each.self;
      file.memory += each.memory;
    }
    markOwn(model, files, texts);
    return files;
  }

  /** Find the program's own files: those of its functions, ranges and frames. */
  function markOwn(/** @type {any} */ model, /** @type {Map<string, SourceFile>} */ files, /** @type {any} */ texts) {
    const mark = (/** @type {any} */ at, /** @type {number} */ kind) => {
      const of = at && OWN_KINDS.has(model.head.kinds[kind]) ? files.get(at.file) : null;
      if (of) of.own = true;
    };
    for (const key of model.keys) mark(place(key), key.kind);
    for (const [frame, kind] of Object.entries(texts ? texts.frame_kinds : {})) mark(R.format.frame(model.text(Number(frame))), kind);
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
