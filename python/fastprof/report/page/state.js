// SPDX-License-Identifier: Apache-2.0
// state: selection, search and measured interval. Views read it, change it with set(), and listen to changes.

/**
 * @typedef {{row: number, key: number, interval: [number, number] | null, query: string, lane: number, calls: boolean,
 *            view: string}} State
 */
R.state = (() => {
  /** @type {State} */
  const state = { row: -1, key: -1, interval: null, query: "", lane: -1, calls: true, view: "summary" };
  /** @type {((changed: Set<string>) => void)[]} */
  const listeners = [];
  /** @type {Uint8Array | null} whether each key matches the query; null without a query */
  let matches = null;
  let model = /** @type {any} */ (null);

  /** Change fields of the state; listeners get the names of the fields that differ. */
  function set(/** @type {Partial<State>} */ patch) {
    const changed = new Set();
    for (const [name, value] of Object.entries(patch)) {
      if (/** @type {any} */ (state)[name] !== value) {
        /** @type {any} */ (state)[name] = value;
        changed.add(name);
      }
    }
    if (changed.has("query")) matches = matched(model, state.query);
    if (changed.size) for (const listener of [...listeners]) listener(changed);
  }

  /** Select a row, and with it its key. */
  const selectRow = (/** @type {number} */ row) => set({ row, key: row < 0 ? -1 : model.rowKey[row] });
  /** Select all rows of a key. */
  const selectKey = (/** @type {number} */ key) => set({ row: -1, key });

  /** @returns {(name: string) => boolean} a test for a query: words in any order, or /a regular expression/ */
  function tester(/** @type {string} */ query) {
    const expression = /^\/(.+)\/$/.exec(query);
    if (expression) {
      try {
        const pattern = new RegExp(expression[1], "i");
        return (name) => pattern.test(name);
      } catch {
        return () => false;
      }
    }
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    return (name) => {
      const lower = name.toLowerCase();
      return words.every((word) => lower.includes(word));
    };
  }

  function matched(/** @type {any} */ of, /** @type {string} */ query) {
    if (!query.trim()) return null;
    const test = tester(query.trim());
    return Uint8Array.from(of.keys, (/** @type {any} */ key) => (test(key.name) ? 1 : 0));
  }

  return {
    state, set, selectRow, selectKey, tester, matched,
    on: (/** @type {(changed: Set<string>) => void} */ listener) => listeners.push(listener),
    begin: (/** @type {any} */ first) => { model = first; },
    matches: () => matches,
  };
})();
