// SPDX-License-Identifier: Apache-2.0
// decode: read the data blocks of the page. fastprof/report/packing.py writes them and describes the format.

/**
 * @typedef {Uint8Array | Uint16Array | Uint32Array | Float64Array} Column
 * @typedef {{name: string, n: number, planes: [number, number][], delta?: 1, zigzag?: 1, float?: 1}} ColumnEntry
 */
R.decode = (() => {
  const ZLIB = 1;
  const found = new Map(
    Array.from(document.querySelectorAll("script[data-block]"), (element) => [element.getAttribute("data-block"), element]),
  );

  /** Return the bytes of a block and free its text; a block can be read once. */
  function take(/** @type {string} */ name) {
    const element = found.get(name);
    if (!element) return null;
    const text = element.textContent || "";
    element.remove();
    found.delete(name);
    if ("fromBase64" in Uint8Array) return /** @type {any} */ (Uint8Array).fromBase64(text);
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    return bytes;
  }

  /** @returns {Promise<Uint8Array>} */
  async function inflate(/** @type {Uint8Array} */ bytes) {
    const stream = new Blob([/** @type {any} */ (bytes)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** Return the JSON value of a text block; null if the report has none of that name. */
  async function json(/** @type {string} */ name) {
    const bytes = take(name);
    return bytes === null ? null : JSON.parse(new TextDecoder().decode(await inflate(bytes)));
  }

  /**
   * Return the columns of a block by name; null if the report has no such block.
   * @param {string} name
   * @param {ColumnEntry[]} directory
   * @returns {Promise<Record<string, Column> | null>}
   */
  async function block(name, directory) {
    const bytes = take(name);
    if (bytes === null) return null;
    /** @type {Record<string, Column>} */
    const columns = {};
    let at = 0;
    for (const entry of directory) {
      const planes = [];
      for (const [codec, size] of entry.planes) {
        const packed = bytes.subarray(at, at + size);
        planes.push(codec === ZLIB ? inflate(packed) : packed);
        at += size;
      }
      columns[entry.name] = column(entry, await Promise.all(planes));
    }
    return columns;
  }

  /** @returns {Column} */
  function column(/** @type {ColumnEntry} */ entry, /** @type {Uint8Array[]} */ planes) {
    if (entry.float) return floats(entry.n, planes);
    let values = unsigned(entry.n, planes);
    if (entry.zigzag) {
      const signed = new Float64Array(entry.n);
      for (let i = 0; i < entry.n; i++) {
        const value = values[i];
        signed[i] = value % 2 ? -(value + 1) / 2 : value / 2;
      }
      values = signed;
    }
    if (entry.delta) {
      const sums = new Float64Array(entry.n);
      let sum = 0;
      for (let i = 0; i < entry.n; i++) sums[i] = sum += values[i];
      values = sums;
    }
    return values;
  }

  /** @returns {Column} of the narrowest type */
  function unsigned(/** @type {number} */ n, /** @type {Uint8Array[]} */ planes) {
    const width = planes.length;
    if (width === 0) return new Uint8Array(n);
    if (width === 1) return planes[0];
    const values = width === 2 ? new Uint16Array(n) : width <= 4 ? new Uint32Array(n) : new Float64Array(n);
    const [p0, p1, p2, p3] = planes;
    if (width === 2) for (let i = 0; i < n; i++) values[i] = p0[i] | (p1[i] << 8);
    else if (width === 3) for (let i = 0; i < n; i++) values[i] = p0[i] | (p1[i] << 8) | (p2[i] << 16);
    else for (let i = 0; i < n; i++) values[i] = (p0[i] | (p1[i] << 8) | (p2[i] << 16) | (p3[i] << 24)) >>> 0;
    for (let plane = 4; plane < width; plane++) {
      const scale = 2 ** (8 * plane);
      const high = planes[plane];
      for (let i = 0; i < n; i++) values[i] += high[i] * scale;
    }
    return values;
  }

  function floats(/** @type {number} */ n, /** @type {Uint8Array[]} */ planes) {
    const bytes = new Uint8Array(8 * n);
    planes.forEach((plane, k) => {
      for (let i = 0; i < n; i++) bytes[8 * i + k] = plane[i];
    });
    return new Float64Array(bytes.buffer);
  }

  return { json, block, has: (/** @type {string} */ name) => found.has(name) };
})();
