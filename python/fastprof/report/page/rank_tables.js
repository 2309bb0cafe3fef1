// SPDX-License-Identifier: Apache-2.0
// rank_tables: tables of a job, which a click on a heading sorts: ranks, slow ranks, stages, collectives.

R.rankTables = (() => {
  const { el } = R.base;
  const { time, bytes, count, shown } = R.format;
  const PAGE = 100; // rows at first; each click on "more rows" adds five times as many

  /**
   * @typedef {{title: string, value: (row: any) => number | string, text?: (row: any) => any, wide?: boolean}} RankColumn
   */

  /**
   * A table that sorts. chosen: index of the rank that a row selects.
   * @param {HTMLElement} parent @param {RankColumn[]} columns @param {any[]} rows
   * @param {(row: any) => number} chosen @param {string} [name]
   */
  function table(parent, columns, rows, chosen, name = "") {
    const order = { column: -1, down: true, limit: PAGE };
    const place = el("div", null);
    parent.append(place);
    const sorted = () => {
      if (order.column < 0) return rows;
      const { value } = columns[order.column];
      const sign = order.down ? -1 : 1;
      return [...rows].sort((a, b) => (value(a) < value(b) ? -sign : value(a) > value(b) ? sign : 0));
    };
    function sortBy(/** @type {number} */ column) {
      order.down = order.column === column ? !order.down : !columns[column].wide;
      order.column = column;
      render();
    }
    function render() {
      const head = el("tr", null, ...columns.map((column, at) => el("th", {
        scope: "col", class: column.wide ? "text" : null, "aria-sort": order.column !== at ? "none" : order.down ? "descending" : "ascending",
      }, el("button", { onclick: () => sortBy(at) }, column.title, order.column === at ? (order.down ? " ↓" : " ↑") : ""))));
      const body = sorted().slice(0, order.limit).map((row) => {
        const rank = chosen(row);
        const select = () => { if (rank >= 0) R.rankModel.select(rank); };
        return el("tr", { "data-rank": rank, tabindex: rank >= 0 ? "0" : null, onclick: select, class: rank >= 0 && rank === R.rankModel.selection.rank ? "chosen" : null,
          onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === "Enter") select(); } },
        ...columns.map((column) => el("td", { class: column.wide ? "text" : null }, column.text ? column.text(row) : column.value(row))));
      });
      const rest = rows.length - order.limit;
      R.base.fill(place, el("table", { class: "averages", "data-table": name }, el("thead", null, head), el("tbody", null, ...body)),
        rest > 0 ? el("button", { onclick: () => { order.limit *= 5; render(); } }, `${count(rest)} more rows`) : null);
    }
    R.rankModel.on(() => {
      const { rank } = R.rankModel.selection;
      for (const row of place.querySelectorAll("tbody tr")) row.classList.toggle("chosen", rank >= 0 && Number(row.dataset.rank) === rank);
    });
    render();
  }

  const ns = (/** @type {string} */ title, /** @type {(row: any) => number} */ value) => ({ title, value, text: (/** @type {any} */ row) => time(value(row)) });
  const text = (/** @type {string} */ title, /** @type {(row: any) => string} */ value) => ({ title, value, text: (/** @type {any} */ row) => shown(value(row), 200), wide: true });
  const rate = (/** @type {any} */ value) => (value === null ? "-" : `${(value / 1e9).toFixed(2)} GB/s`);

  function ranks(/** @type {HTMLElement} */ parent, /** @type {any} */ { head }) {
    const slow = new Set(head.stragglers.map((/** @type {any} */ each) => each.rank));
    const clocks = new Map(head.clocks.map((/** @type {any} */ each) => [each.rank, each]));
    const rows = head.per_rank.map((/** @type {any} */ row, /** @type {number} */ at) => ({ ...row, at, host: head.hosts[at], clock: clocks.get(row.rank) }));
    const times = head.values.map((/** @type {any} */ each) => ns(each.title, (row) => row[each.name]));
    table(parent, [
      { title: "Rank", value: (row) => row.rank, text: (row) => `${row.rank}${slow.has(row.rank) ? " slow" : ""}` },
      text("Host", (row) => row.host), { title: "Steps", value: (row) => row.steps }, ...times,
      { title: "Clock ahead", value: (row) => (row.clock ? row.clock.ahead_ns : -Infinity), text: (row) => (row.clock ? `${time(row.clock.ahead_ns)} ± ${time(row.clock.error_ns)}` : "unknown") },
    ], rows, (row) => row.at, "ranks");
  }

  function stragglers(/** @type {HTMLElement} */ parent, /** @type {any} */ { head }) {
    if (!head.stragglers.length) return void parent.append(el("p", { class: "note" }, "No rank is slower than the others beyond chance."));
    table(parent, [
      { title: "Rank", value: (row) => row.rank }, ns("Costs a step", (row) => row.cost_ns), ns("Own time", (row) => row.own_ns), ns("Median rank", (row) => row.median_ns),
      { title: "Sign", value: (row) => row.score, text: (row) => (row.by === "count" ? `last in ${Math.round(100 * row.score)} % of the steps` : `${row.score.toFixed(1)} deviations (MAD)`) },
      { title: "Longer in a step than the median rank's", wide: true, value: (row) => (row.more.length ? row.more[0][1] : 0),
        text: (row) => el("ul", { class: "more" }, ...row.more.map((/** @type {any} */ [name, value]) => el("li", null, `${time(value)} ${shown(name, 120)}`))) },
    ], head.stragglers, (row) => head.ranks.indexOf(row.rank), "stragglers");
  }

  function stages(/** @type {HTMLElement} */ parent, /** @type {any} */ { head }) {
    const bar = (/** @type {any} */ row) => el("span", { class: "share" }, el("span", { css: { width: `${row.percent}%` } }), el("b", null, `${row.percent.toFixed(1)} %`));
    table(parent, [text("Stage", (row) => row.stage), ns("Exposed", (row) => row.exposed_ns), { title: "Of the step", value: (row) => row.percent, text: bar },
      { title: "Most of it on rank", value: (row) => row.rank }], head.stages, (row) => head.ranks.indexOf(row.rank), "stages");
  }

  function collectives(/** @type {HTMLElement} */ parent, /** @type {any} */ { head }) {
    if (!head.collectives.length) return void parent.append(el("p", { class: "note" }, "No collective has a group and number by which ranks are matched."));
    table(parent, [text("Kind", (row) => row.kind), text("Group", (row) => row.group), { title: "Ranks", value: (row) => row.ranks }, { title: "Calls", value: (row) => row.calls, text: (row) => count(row.calls) },
      { title: "Size", value: (row) => row.size_bytes, text: (row) => (row.size_bytes < 0 ? "-" : bytes(row.size_bytes)) }, ns("Time", (row) => row.least_ns), ns("Waiting", (row) => row.waiting_ns),
      { title: "Algorithm", value: (row) => row.algorithm_bytes_per_s || 0, text: (row) => rate(row.algorithm_bytes_per_s) }, { title: "Bus", value: (row) => row.bus_bytes_per_s || 0, text: (row) => rate(row.bus_bytes_per_s) },
    ], head.collectives, () => -1, "collectives");
  }

  function path(/** @type {HTMLElement} */ parent, /** @type {any} */ { head }) {
    const note = (/** @type {string} */ words) => parent.append(el("p", { class: "note" }, words));
    if (!head.path_by_op.length) return void note("Not found: no step of ranks with known clocks, or many events: fastprof ranks --what-if NAME=K --html.");
    const bar = (/** @type {any} */ row) => el("span", { class: "share" }, el("span", { css: { width: `${row.percent}%` } }), el("b", null, `${row.percent.toFixed(1)} %`));
    note(`What the steps waited for: mean of ${count(head.path_steps)} steps.`);
    table(parent, [text("Op", (row) => row.name || "(outside of ranges)"), text("Where", (row) => row.what), { title: "Rank", value: (row) => row.rank }, ns("Time", (row) => row.ns),
      { title: "Of the step", value: (row) => row.percent, text: bar }], head.path_by_op, (row) => head.ranks.indexOf(row.rank), "path");
    if (head.inferred_waits.length) note("Waits between streams are inferred from times: record them with enable_cuda_sync_events.");
    if (!head.what_if.length) return;
    parent.append(el("h3", null, "What if, replayed"));
    const faster = (/** @type {any} */ row) => Object.entries(row.faster).map(([name, factor]) => `${shown(name, 80)} ${factor} times faster`).join(", ");
    table(parent, [text("If", faster), ns("Step", (row) => row.step_ns), ns("Would be", (row) => row.new_step_ns),
      { title: "Less", value: (row) => row.percent, text: (row) => `${row.percent.toFixed(1)} %` }], head.what_if, () => -1, "what-if");
  }

  return { ranks, path, stragglers, stages, collectives };
})();
