// SPDX-License-Identifier: Apache-2.0
// format: times, sizes, counts and names as text.

R.format = (() => {
  const UNITS = /** @type {[number, string][]} */ ([[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);

  /** A time in ns with three or four digits and a unit. */
  function time(/** @type {number} */ ns) {
    if (!Number.isFinite(ns)) return "-";
    const size = Math.abs(ns);
    if (size < 0.5) return "0";
    for (const [scale, unit] of UNITS) {
      if (size >= scale * 0.9995 || scale === 1) return `${digits(ns / scale)} ${unit}`;
    }
    return "0";
  }

  function digits(/** @type {number} */ value) {
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1000) return String(value);
    const text = value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
    return text.replace(/\B(?=(\d{3})+(?!\d)(?=\.|$))/g, size >= 1000 ? "," : "");
  }

  /** A position on the time axis, with as many digits as the distance `step` of the ticks needs. */
  function tick(/** @type {number} */ ns, /** @type {number} */ step) {
    const size = Math.max(Math.abs(ns), step);
    const [scale, unit] = UNITS.find(([each]) => size >= each) || UNITS[3];
    const places = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / scale) - 1e-9)));
    return ns === 0 ? "0" : `${(ns / scale).toFixed(places)} ${unit}`;
  }

  /** @returns {number} the least 1, 2 or 5 times a power of ten that is at least `wanted`, a positive distance of ticks */
  function tickStep(/** @type {number} */ wanted) {
    const power = 10 ** Math.floor(Math.log10(wanted));
    return power * ([1, 2, 5].find((each) => each * power >= wanted) || 10);
  }

  /** A number of bytes, with its sign. */
  function bytes(/** @type {number} */ value) {
    const size = Math.abs(value);
    if (size < 1024) return `${value} B`;
    const power = Math.min(5, Math.floor(Math.log2(size) / 10));
    return `${digits(value / 2 ** (10 * power))} ${"KMGTP"[power - 1]}iB`;
  }

  const count = (/** @type {number} */ value) => value.toLocaleString("en-US");
  const percent = (/** @type {number} */ share) =>
    !Number.isFinite(share) ? "-" : share > 0 && share < 0.001 ? "<0.1 %" : `${(100 * share).toFixed(1)} %`;

  // Invisible characters, and those that change the direction of the text beside them.
  const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

  /**
   * A name as it is displayed: invisible characters as their code points, cut to `limit` characters.
   * @param {string} text
   * @param {number} [limit]
   */
  function shown(text, limit = 300) {
    let seen = text.length > limit ? `${text.slice(0, limit)}…` : text;
    const number = (/** @type {string} */ c) => `⟨${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
    seen = seen.replace(UNSEEN, number).replace(LONE, number);
    return seen === "" ? "(no name)" : seen;
  }

  /** A source line as it is displayed; a tab is four spaces. */
  const sourceLine = (/** @type {string} */ text) => shown(text.replaceAll("\t", "    "), 600).replace("(no name)", "");

  /**
   * Cut a text to a width in pixels, as measured by the canvas: at its end, or in the middle, so that numbered names differ.
   * @param {CanvasRenderingContext2D} context
   * @param {string} text
   * @param {number} width
   * @param {boolean} [middle]
   */
  function fitted(context, text, width, middle = false) {
    const guess = Math.floor(width / 4);
    if (guess < 2) return "";
    if (middle && context.measureText(text).width > width) {
      let kept = Math.min(text.length - 1, guess);
      const cut = () => `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
      while (kept > 2 && context.measureText(cut()).width > width) kept -= 1;
      return cut();
    }
    let cut = text.length > guess ? text.slice(0, guess) : text;
    let size = context.measureText(cut).width;
    if (cut === text && size <= width) return text;
    while (cut.length > 1 && size > width - 8) {
      cut = cut.slice(0, Math.min(cut.length - 1, Math.ceil((cut.length * (width - 8)) / size)));
      size = context.measureText(cut).width;
    }
    return cut.length > 1 ? `${cut}…` : "";
  }

  /** @returns {{file: string, line: number, name: string} | null} the parts of "file(line): function" */
  function frame(/** @type {string} */ text) {
    const match = /^(.*)\((\d+)\): (.*)$/s.exec(text);
    return match && { file: match[1], line: Number(match[2]), name: match[3] };
  }

  // "<built-in function sleep>", "<built-in method poll of select.epoll object>", "<method 'append' of 'list' objects>"
  const IN_C = /^<(?:built-in function|(?:built-in )?method) '?([^ ']+)'?(?: of '?(?:[^ ']*\.)?([^ .']+)'? objects?)?>$/;

  /** A short form of a name: of a Python call its function and place, "work (train.py:12)"; of a call in C "sleep", "list.append". */
  function label(/** @type {string} */ text, limit = 300) {
    const inC = text.startsWith("<") && IN_C.exec(text);
    if (inC) return shown(inC[2] ? `${inC[2]}.${inC[1]}` : inC[1], limit);
    const place = text.endsWith(")") ? null : frame(text);
    return shown(place && place.name ? `${place.name} (${baseName(place.file)}:${place.line})` : text, limit);
  }

  const baseName = (/** @type {string} */ path) => path.slice(path.lastIndexOf("/") + 1);

  return { time, tick, tickStep, bytes, count, percent, shown, sourceLine, fitted, frame, baseName, label };
})();
