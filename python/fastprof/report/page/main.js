// SPDX-License-Identifier: Apache-2.0
// main: the page around the views: title, search, tabs, theme and keys. A view is created when it is first opened.

R.main = (() => {
  const { el } = R.base;
  const { shown, count, percent } = R.format;
  const KEYS = [
    ["1 … 9", "open a view"], ["/", "search names: words, or /a regular expression/"], ["Esc", "clear the selection, the interval or the search"],
    ["W S, + −, Ctrl+wheel", "zoom the timeline"], ["A D, ← →, drag", "move the timeline"], ["Shift+drag, or drag in the ruler", "measure an interval"],
    ["F, double click", "zoom to the selected slice"], ["M", "measure the selected slice"], ["N, P", "select the next or previous slice that the search matches, or that has the selected name"], ["0", "show everything"], ["O", "show or hide calls that were on the stack before the start"], ["T", "switch between dark and light"], ["?", "show these keys"],
  ];

  async function open() {
    const model = await R.model.load("a");
    const before = await R.model.load("b");
    R.state.begin(model);
    document.title = `${shown(model.head.title, 80)} · fastprof`;
    const views = viewsOf(model, before);
    const root = /** @type {HTMLElement} */ (document.getElementById("report"));
    const search = el("input", { type: "search", placeholder: "Search ( / )", "aria-label": "Search names", spellcheck: "false",
      oninput: () => R.state.set({ query: search.value }) });
    const matched = el("span", { class: "note", role: "status" });
    const tabs = el("nav", { role: "tablist" }, ...Object.entries(views).map(([id, view], i) => el("button", {
      role: "tab", id: `tab-${id}`, "aria-controls": `view-${id}`, onclick: () => R.state.set({ view: id }), title: `${view.title} (${i + 1})`,
    }, view.title)));
    const help = el("dialog", { class: "help" }, el("h2", null, "Keys"), el("dl", null, ...KEYS.flatMap(([key, what]) => [el("dt", null, key), el("dd", null, what)])),
      el("button", { onclick: () => help.close() }, "Close"));
    const theme = el("button", { title: "Dark or light (T)", onclick: () => nextTheme() }, "◐");
    const header = el("header", null, el("h1", null, "fastprof"), el("span", { class: "title", title: shown(model.head.title, 400) }, shown(model.head.title, 80)), tabs,
      el("span", { class: "find" }, search, matched), theme, el("button", { title: "Keys (?)", onclick: () => help.showModal() }, "?"));
    const main = el("main", null, ...Object.keys(views).map((id) => el("section", { id: `view-${id}`, class: `view ${id}`, role: "tabpanel", "aria-labelledby": `tab-${id}`, hidden: true })));
    const panel = el("aside", { class: "details", "aria-label": "Details" });
    R.base.fill(root, header, el("div", { class: "body" }, main, panel), help);

    const made = new Set();
    const showView = () => {
      const { view } = R.state.state;
      for (const [id, each] of Object.entries(views)) {
        const section = /** @type {any} */ (document.getElementById(`view-${id}`));
        const chosen = id === view;
        section.hidden = !chosen;
        /** @type {any} */ (document.getElementById(`tab-${id}`)).setAttribute("aria-selected", String(chosen));
        if (chosen && !made.has(id)) {
          made.add(id);
          each.start(section);
        }
      }
      besideControls();
      // In a notebook's frame (about:srcdoc), replaceState is not allowed.
      if (location.protocol !== "about:") history.replaceState(null, "", `#${view}`);
    };
    R.details.start(panel, model);
    // The panel opens below the controls of a view: they do not wrap, so nothing moves under the mouse.
    const besideControls = () => {
      const form = /** @type {HTMLElement | null} */ (main.querySelector(".view:not([hidden]) > .controls"));
      panel.style.setProperty("--below", `${form ? form.offsetTop + form.offsetHeight - main.offsetTop : 0}px`);
    };
    const sizes = new ResizeObserver(besideControls);
    sizes.observe(main);
    R.state.on((changed) => {
      if (changed.has("view")) showView();
      if (changed.has("query")) {
        if (search.value !== R.state.state.query) search.value = R.state.state.query;
        matched.textContent = matchText(model);
      }
    });
    const nextTheme = () => {
      R.base.forgetColours();
      document.documentElement.dataset.theme = R.base.colour("scheme") === "dark" ? "light" : "dark";
      R.base.forgetColours();
      R.state.set({ query: `${R.state.state.query} ` }); // a change of the query redraws everything
      R.state.set({ query: R.state.state.query.slice(0, -1) });
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { R.base.forgetColours(); R.timeline.redraw(); R.flame.redraw(); });
    // Paper is white: a dark page is printed in the light theme.
    let screenTheme = /** @type {string | undefined} */ (undefined);
    addEventListener("beforeprint", () => {
      screenTheme = document.documentElement.dataset.theme;
      document.documentElement.dataset.theme = "light";
      R.base.drawAll();
    });
    addEventListener("afterprint", () => {
      if (screenTheme === undefined) delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = screenTheme;
      R.base.drawAll();
    });
    document.addEventListener("keydown", (event) => onKey(event, Object.keys(views), search, help, nextTheme));
    const asked = location.hash.slice(1);
    R.state.state.view = "";
    R.state.set({ view: asked in views ? asked : before ? "diff" : "summary" });
    return { model, before };
  }

  /** The views for which this profile has data. */
  function viewsOf(/** @type {any} */ model, /** @type {any} */ before) {
    /** @type {Record<string, {title: string, start: (section: HTMLElement) => void}>} */
    const views = {};
    if (before) views.diff = { title: "Difference", start: (section) => R.diff.start(section, model, before) };
    views.summary = { title: "Summary", start: (section) => { R.summary.start(section, model); } };
    views.timeline = { title: "Timeline", start: (section) => R.timeline.start(section, model) };
    views.flame = { title: "Flame graph", start: (section) => { R.flame.start(section, model); R.flame.update(); } };
    views.table = { title: "Table", start: (section) => { R.table.start(section, model); R.table.update(); } };
    views.source = { title: "Source", start: (section) => { R.source.start(section, model); R.source.update(); } };
    if (model.keys.some((/** @type {any} */ key) => key.name === "ProfilerStep*")) views.steps = { title: "Steps", start: (section) => R.steps.start(section, model) };
    if (model.head.memory.length || model.head.failures.length) views.memory = { title: "Memory", start: (section) => R.memory.start(section, model) };
    return views;
  }

  function matchText(/** @type {any} */ model) {
    const matches = R.state.matches();
    if (!matches) return "";
    const names = matches.reduce((sum, each) => sum + each, 0);
    let [rows, self, all] = [0, 0, 0];
    for (let row = 0; row < model.n; row++) {
      const value = Math.max(model.self[row], 0);
      all += value;
      if (matches[model.rowKey[row]]) { rows += 1; self += value; }
    }
    return `${count(names)} ${names === 1 ? "name" : "names"}, ${count(rows)} ${rows === 1 ? "event" : "events"}, ${percent(all ? self / all : 0)} of self time`;
  }

  function onKey(/** @type {KeyboardEvent} */ event, /** @type {string[]} */ views, /** @type {any} */ search, /** @type {any} */ help, /** @type {() => void} */ nextTheme) {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement || event.target instanceof HTMLTextAreaElement;
    if (event.key === "Escape") {
      if (help.open) return;
      if (R.state.state.query) R.state.set({ query: "" });
      else R.state.set({ row: -1, key: -1, interval: null });
      if (typing) /** @type {HTMLElement} */ (event.target).blur();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const number = Number(event.key);
    if (event.key === "/") search.focus();
    else if (event.key === "?") help.showModal();
    else if (event.key === "t") nextTheme();
    else if (number >= 1 && number <= views.length) R.state.set({ view: views[number - 1] });
    else if (R.state.state.view !== "timeline" || !R.timeline.onKey(event)) return;
    event.preventDefault();
  }

  const begun = performance.now();
  const ready = open().then((opened) => {
    /** @type {any} */ (window).fastprof.opened_ms = performance.now();
    /** @type {any} */ (window).fastprof.decoded_ms = performance.now() - begun;
    return opened;
  }, (error) => {
    R.base.fill(/** @type {any} */ (document.getElementById("report")), el("p", { class: "padded" },
      `This report cannot be shown: ${error.message.replace(/\.+$/, "")}. Open it in a browser released in 2023 or later (it uses DecompressionStream).`));
    throw error;
  });
  // For tests and benchmarks: the modules of the page, and a promise that is fulfilled when the page is ready.
  /** @type {any} */ (window).fastprof = { ready, parts: R };
  return {};
})();
