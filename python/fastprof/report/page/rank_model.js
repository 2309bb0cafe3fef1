// SPDX-License-Identifier: Apache-2.0
// rank_model: the ranks of a job: times by rank and step, and which rank is selected. fastprof/ranks/page.py writes them.

/**
 * @typedef {{head: any, ranks: number, steps: number, times: Record<string, ArrayLike<number>>}} RankModel
 *   times: ns by value, at rank * steps + step; -1 where a rank lacks the step
 */
R.rankModel = (() => {
  const selection = { rank: -1 }; // index of a rank
  /** @type {(() => void)[]} */
  const listeners = [];

  /** @returns {Promise<RankModel>} */
  async function load() {
    const head = await R.decode.json("a:head");
    const times = await R.decode.block("a:block:times", head.blocks.times);
    return { head, ranks: head.ranks.length, steps: head.step_numbers.length, times };
  }

  /** The median of numbers; NaN of none. */
  function median(/** @type {number[]} */ values) {
    if (!values.length) return NaN;
    values.sort((a, b) => a - b);
    const half = values.length >> 1;
    return values.length % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
  }

  /** The value's median over ranks by step. */
  function medians(/** @type {RankModel} */ model, /** @type {string} */ name) {
    const found = new Float64Array(model.steps);
    for (let step = 0; step < model.steps; step++) {
      const known = [];
      for (let rank = 0; rank < model.ranks; rank++) {
        const value = model.times[name][rank * model.steps + step];
        if (value >= 0) known.push(value);
      }
      found[step] = median(known);
    }
    return found;
  }

  /** A rank's median of numbers by (rank, step), where they are known; NaN without any. */
  function middle(/** @type {RankModel} */ model, /** @type {Float64Array} */ values, /** @type {number} */ rank) {
    return median([...values.subarray(rank * model.steps, (rank + 1) * model.steps)].filter((value) => !Number.isNaN(value)));
  }

  function select(/** @type {number} */ rank) {
    if (rank === selection.rank) return;
    selection.rank = rank;
    for (const listener of listeners) listener();
  }

  return { load, median, medians, middle, select, selection, on: (/** @type {() => void} */ listener) => listeners.push(listener) };
})();
