// SPDX-License-Identifier: Apache-2.0
// controls: the form above a view: toggles, selections, and the controls that all views share.

R.controls = (() => {
  const { el } = R.base;
  const bar = () => el("form", { class: "controls", onsubmit: (/** @type {Event} */ event) => event.preventDefault() });

  function toggle(/** @type {HTMLElement} */ form, /** @type {string} */ label, /** @type {boolean} */ on, /** @type {(on: boolean) => void} */ changed) {
    const box = el("input", { type: "checkbox", checked: on, onchange: () => changed(box.checked) });
    form.append(el("label", null, box, ` ${label}`));
    return box;
  }

  function select(/** @type {HTMLElement} */ form, /** @type {string} */ label, /** @type {Record<string, string>} */ options, /** @type {string} */ value,
    /** @type {(value: string) => void} */ changed) {
    const list = el("select", { onchange: () => changed(list.value) });
    for (const [name, text] of Object.entries(options)) list.append(el("option", { value: name }, text));
    list.value = value;
    form.append(el("label", null, `${label} `, list));
    return list;
  }

  /** Selection of one thread or stream, or of the tasks of one coroutine; it applies to all views. */
  function lane(/** @type {HTMLElement} */ form, /** @type {any} */ model) {
    const options = /** @type {Record<string, string>} */ ({ "-1": "all" });
    const several = new Set(model.lanes.map((/** @type {any} */ each) => each.pid)).size > 1;
    for (const { number, label, pid } of R.lanes.choices(model)) options[` ${number}`] = R.format.shown(several ? `${label} · pid ${pid}` : label, 60);
    if (Object.keys(options).length <= 2) return;
    const list = select(form, "Thread", options, "-1", (value) => R.state.set({ lane: Number(value) }));
    R.state.on((changed) => {
      if (changed.has("lane")) list.value = R.state.state.lane < 0 ? "-1" : ` ${R.state.state.lane}`;
    });
  }

  /** Toggle for showing Python calls; it applies to all views. */
  function calls(/** @type {HTMLElement} */ form) {
    const box = toggle(form, "Python calls", R.state.state.calls, (on) => R.state.set({ calls: on }));
    R.state.on((changed) => { if (changed.has("calls")) box.checked = R.state.state.calls; });
  }

  return { bar, toggle, select, lane, calls };
})();
