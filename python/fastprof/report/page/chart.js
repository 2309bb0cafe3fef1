// SPDX-License-Identifier: Apache-2.0
// chart: a step curve over time from columns of any length. Each pixel column shows the minimum and maximum in it.

R.chart = (() => {
  /** @returns {number} the number of values of a sorted column that are below `value` */
  function below(/** @type {ArrayLike<number>} */ column, /** @type {number} */ value) {
    let [low, high] = [0, column.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (column[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Minimum and maximum pyramid: level k has a pair for each 2^(k+4) values, so a pixel reads few values. */
  function pyramid(/** @type {ArrayLike<number>} */ values) {
    const levels = /** @type {Float64Array[]} */ ([]);
    let source = /** @type {ArrayLike<number>} */ (values);
    let pairs = false;
    let size = values.length;
    while (size > 32) {
      const factor = levels.length ? 2 : 16;
      const next = Math.ceil(size / factor);
      const level = new Float64Array(2 * next);
      for (let i = 0; i < next; i++) {
        let [least, most] = [Infinity, -Infinity];
        for (let j = i * factor; j < Math.min(size, (i + 1) * factor); j++) {
          least = Math.min(least, pairs ? source[2 * j] : source[j]);
          most = Math.max(most, pairs ? source[2 * j + 1] : source[j]);
        }
        level[2 * i] = least;
        level[2 * i + 1] = most;
      }
      levels.push(level);
      [source, pairs, size] = [level, true, next];
    }
    return levels;
  }

  /** @returns {[number, number]} minimum and maximum of values[from, to) */
  function range(/** @type {ArrayLike<number>} */ values, /** @type {Float64Array[]} */ levels, /** @type {number} */ from, /** @type {number} */ to) {
    let [least, most] = [Infinity, -Infinity];
    let at = from;
    while (at < to) {
      let level = -1;
      let size = 1;
      for (let k = 0; k < levels.length; k++) {
        const span = 16 * 2 ** k;
        if (at % span || at + span > to) break;
        [level, size] = [k, span];
      }
      if (level < 0) {
        least = Math.min(least, values[at]);
        most = Math.max(most, values[at]);
      } else {
        const i = at / size;
        least = Math.min(least, levels[level][2 * i]);
        most = Math.max(most, levels[level][2 * i + 1]);
      }
      at += size;
    }
    return [least, most];
  }

  /**
   * Draw a series into a box, as steps with the area below it filled.
   * @param {CanvasRenderingContext2D} context
   * @param {{time: ArrayLike<number>, value: ArrayLike<number>, levels: Float64Array[], least: number, most: number}} series
   * @param {{x: number, y: number, width: number, height: number, begin: number, end: number}} box
   * @param {string} line
   * @param {string | null} area
   */
  function draw(context, series, box, line, area) {
    const scale = (box.end - box.begin) / box.width;
    const low = Math.min(series.least, 0);
    const high = Math.max(series.most, low + 1e-12);
    const y = (/** @type {number} */ value) => box.y + box.height - ((value - low) / (high - low)) * box.height;
    let at = below(series.time, box.begin);
    let value = at > 0 ? series.value[at - 1] : NaN;
    const [tops, bottoms] = [/** @type {number[]} */ ([]), /** @type {number[]} */ ([])];
    for (let pixel = 0; pixel < box.width; pixel++) {
      const next = belowFrom(series.time, box.begin + (pixel + 1) * scale, at);
      let [least, most] = [value, value];
      if (next > at) {
        const [a, b] = range(series.value, series.levels, at, next);
        least = Number.isNaN(value) ? a : Math.min(value, a);
        most = Number.isNaN(value) ? b : Math.max(value, b);
        value = series.value[next - 1];
        at = next;
      }
      tops.push(most);
      bottoms.push(least);
    }
    context.fillStyle = area || line;
    if (area) tops.forEach((top, i) => { if (!Number.isNaN(top)) context.fillRect(box.x + i, y(top), 1, y(low) - y(top)); });
    context.fillStyle = line;
    tops.forEach((top, i) => {
      if (!Number.isNaN(top)) context.fillRect(box.x + i, y(top) - 0.5, 1, Math.max(1.5, y(bottoms[i]) - y(top) + 1));
    });
  }

  /** below() for a result that is known to be at least `from`, by doubling steps; consecutive pixels use it. */
  function belowFrom(/** @type {ArrayLike<number>} */ column, /** @type {number} */ value, /** @type {number} */ from) {
    let step = 1;
    let low = from;
    while (low + step < column.length && column[low + step] < value) { low += step; step *= 2; }
    let high = Math.min(column.length, low + step + 1);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (column[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @returns {any} a series with its pyramid */
  function series(/** @type {ArrayLike<number>} */ time, /** @type {ArrayLike<number>} */ value) {
    const levels = pyramid(value);
    const [least, most] = value.length ? range(value, levels, 0, value.length) : [0, 0];
    return { time, value, levels, least, most };
  }

  return { draw, series, below, belowFrom };
})();
