// SPDX-License-Identifier: Apache-2.0
// base: create elements, canvases and colours. Text of a profile only becomes text nodes: the page makes no markup of data.

/**
 * @typedef {Record<string, any>} Attributes  "on..." are event listeners, "css" styles; others are set as attributes
 */
R.base = (() => {
  /**
   * Create an element. Children are nodes or texts; null is skipped.
   * @param {string} tag
   * @param {Attributes | null} [attributes]
   * @param {...(Node | string | number | null | undefined)} children
   * @returns {any}
   */
  function el(tag, attributes, ...children) {
    const made = /** @type {any} */ (document.createElement(tag));
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "css") Object.assign(made.style, value);
      else if (name === "value" || name === "checked" || name === "disabled") made[name] = value;
      else made.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children) {
      if (child === null || child === undefined) continue;
      made.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return made;
  }

  /** Replace the children of an element. */
  function fill(/** @type {Element} */ parent, /** @type {any[]} */ ...children) {
    parent.replaceChildren(...children.filter((c) => c !== null && c !== undefined));
  }

  const canvases = new Set();

  /**
   * Create a canvas that fills its parent and is redrawn when its size changes or redraw() is called, at most once a
   * frame.
   * @param {HTMLElement} parent
   * @param {(context: CanvasRenderingContext2D, width: number, height: number) => void} draw  sizes in CSS pixels
   * @param {string} label  for screen readers
   */
  function canvas(parent, draw, label) {
    const element = el("canvas", { tabindex: "0", role: "img", "aria-label": label });
    parent.append(element);
    const context = element.getContext("2d", { alpha: false });
    let wanted = false;
    const made = { element, width: 0, height: 0, frames: 0, redraw, drawNow };
    function drawNow() {
      wanted = false;
      const width = parent.clientWidth;
      const height = parent.clientHeight;
      if (!width || !height) return;
      const scale = window.devicePixelRatio || 1;
      const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
      if (element.width !== across || element.height !== down) {
        element.width = across;
        element.height = down;
        element.style.width = `${width}px`;
        element.style.height = `${height}px`;
      }
      made.width = width;
      made.height = height;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      draw(context, width, height);
      made.frames += 1;
    }
    function redraw() {
      if (wanted) return;
      wanted = true;
      requestAnimationFrame(drawNow);
    }
    new ResizeObserver(redraw).observe(parent);
    canvases.add(made);
    return made;
  }

  /** Cached colours of the theme, by CSS variable name without the dashes; forgetColours() clears the cache. */
  let colours = /** @type {Record<string, string>} */ ({});
  function colour(/** @type {string} */ name) {
    if (!(name in colours)) {
      colours[name] = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    }
    return colours[name];
  }
  function forgetColours() {
    colours = {};
    setSliceColours();
  }

  const slices = /** @type {string[]} */ ([]);
  /** For each kind of fastprof/model/site_kinds.py: the hues of its shades, and the saturation (light, dark). */
  const KINDS = [
    { hues: [264, 304, 246], saturation: [62, 36] }, // ranges
    { hues: [212, 222, 202], saturation: [72, 46] }, // the user's code
    { hues: [178, 168, 190], saturation: [30, 22] }, // libraries
    { hues: [40, 32, 48], saturation: [78, 44] }, // imports
    { hues: [220, 220, 220], saturation: [7, 6] }, // waits
    { hues: [122, 104, 140], saturation: [42, 28] }, // ops
    { hues: [350, 336, 8], saturation: [74, 42] }, // work of a GPU
  ];
  const SHADES = 6;
  /** The fill of a slice: its kind's colour, in one of six shades by its name's hash. The same in all views. */
  function sliceColour(/** @type {{kind: number, hash: number}} */ { kind, hash }) {
    if (!slices.length) setSliceColours();
    return slices[kind * SHADES + (hash % SHADES)];
  }
  /** The same as a CSS variable, for elements, which then follow the theme. */
  function sliceVariable(/** @type {{kind: number, hash: number}} */ { kind, hash }) {
    if (!slices.length) setSliceColours();
    return `var(--slice-${kind * SHADES + (hash % SHADES)})`;
  }

  function setSliceColours() {
    const dark = colour("scheme") === "dark";
    slices.length = 0;
    for (const { hues, saturation } of KINDS) {
      for (let shade = 0; shade < SHADES; shade++) {
        const [hue, lower] = [hues[shade % 3], shade >= 3 ? 8 : 0];
        slices.push(dark ? `hsl(${hue} ${saturation[1]}% ${36 + lower}%)` : `hsl(${hue} ${saturation[0]}% ${80 - lower}%)`);
      }
    }
    slices.forEach((text, number) => document.documentElement.style.setProperty(`--slice-${number}`, text));
  }

  /** What the colours mean: a swatch for each kind that occurs in a profile. */
  function legend(/** @type {any} */ { head, keys }) {
    const found = new Set(keys.map((/** @type {any} */ key) => key.kind));
    return el("span", { class: "kinds" }, ...head.kinds.flatMap((/** @type {string} */ name, /** @type {number} */ kind) => (found.has(kind)
      ? [el("span", null, el("span", { class: "swatch", css: { background: sliceVariable({ kind, hash: 0 }) } }), name)] : [])));
  }

  /** @returns {number} a hash of a text (FNV-1a) */
  function hash(/** @type {string} */ text) {
    let value = 0x811c9dc5;
    for (let i = 0; i < text.length && i < 400; i++) {
      value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
    }
    return (value ^ (value >>> 13)) >>> 0;
  }

  /** Download a text as a file. */
  function download(/** @type {string} */ name, /** @type {string} */ text, /** @type {string} */ type) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    el("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  /** Copy a text to the clipboard. */
  async function copy(/** @type {string} */ text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = el("textarea", { value: text, css: { position: "fixed", opacity: "0" } });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  /** Draw all canvases at once with the current theme's colours: while a page is printed there are no animation frames. */
  function drawAll() {
    forgetColours();
    for (const each of canvases) each.drawNow();
  }

  return { el, fill, canvas, drawAll, colour, forgetColours, sliceColour, sliceVariable, SHADES, legend, hash, download, copy };
})();
