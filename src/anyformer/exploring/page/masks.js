// Which keys a query sees, at any length, and which layers have which mask.

import { h, fill, later, s, say } from "./dom.js";
import { percent, tokens, whole } from "./numbers.js";

const LONGEST = 17; // 2^17 positions, beyond which a picture takes seconds

/** A picture of one pattern: queries downwards, keys to the right. */
function picture(pattern, number) {
  const canvas = h("canvas", { role: "img", "aria-label": `${pattern.title}: ${percent(pattern.share)} of ${whole(pattern.queries)} × ${whole(pattern.keys)} pairs` });
  canvas.width = pattern.columns;
  canvas.height = pattern.rows;
  const cells = Uint8Array.from(atob(pattern.cells), (letter) => letter.charCodeAt(0));
  const paint = canvas.getContext("2d"), image = paint.createImageData(pattern.columns, pattern.rows);
  const [red, green, blue] = colour(canvas, number);
  cells.forEach((share, i) => image.data.set([red, green, blue, share], 4 * i));
  paint.putImageData(image, 0, 0);
  return canvas;
}

function colour(canvas, number) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(`--c${1 + (number % 8)}`).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** Layers as cells in the colours of their patterns. */
function strip(each, patterns) {
  const wide = Math.min(9, 540 / each.layers.length);
  const cells = each.layers.flatMap((layer, number) => layer.map((pattern, i) =>
    s("rect", { class: `fill c${1 + (pattern % 8)}`, x: number * wide, y: (i * 12) / layer.length, width: Math.max(0.5, wide - 1), height: 12 / layer.length }, s("title", {}, `layer ${number}: ${patterns[pattern]?.title ?? ""}`))));
  const bare = each.layers.flatMap((layer, number) => (layer.length ? [] : [s("rect", { class: "bare", x: number * wide + 0.5, y: 0.5, width: Math.max(0.5, wide - 2), height: 11 }, s("title", {}, `layer ${number}: ${each.unmasked[number].join(", ") || "no mask"}`))]));
  return h("figure", { class: "strip" }, h("figcaption", {}, each.title), s("svg", { viewBox: `0 0 ${Math.max(each.layers.length * wide, 60)} 12`, width: Math.max(each.layers.length * wide, 60), height: 12, role: "img", "aria-label": each.title }, cells, bare));
}

/** The masks of a sheet; their length is moved without asking for anything else: `ask(length)` gives the section. */
export class Masks {
  constructor(ask) {
    this.ask = ask;
    this.drawn = "";
    this.pictures = h("div", { class: "masks" });
    this.slider = h("input", { type: "range", min: "5", max: String(LONGEST), step: "0.5", id: "mask-length" });
    this.said = h("output", { for: "mask-length" });
    this.element = h("div", {}, h("p", { class: "sliding" }, h("label", { for: "mask-length" }, "length of the pictures"), this.slider, this.said), this.pictures);
    const asked = later(60, () => this.moved());
    this.slider.addEventListener("input", () => {
      this.said.value = tokens(this.length);
      asked();
    });
  }

  get length() {
    const step = Number(this.slider.value);
    return Math.round(2 ** Math.floor(step) * (step % 1 ? 1.5 : 1));
  }

  async moved() {
    const section = await this.ask(this.length);
    if (section !== null) {
      this.draw(section);
      say(section.patterns.map((each) => `${each.title}: ${percent(each.share)} of pairs`).join("; "));
    }
  }

  /** Show the masks of a sheet at its own length. */
  show(section) {
    const key = JSON.stringify(section);
    if (key === this.drawn) return;
    this.drawn = key;
    this.slider.value = String(Math.round(Math.log2(section.length) * 2) / 2);
    this.draw(section);
  }

  draw(section) {
    this.said.value = tokens(section.length);
    const shown = section.patterns.map((each, number) => h("figure", {}, picture(each, number),
      h("figcaption", {}, h("strong", {}, h("i", { class: `dot c${1 + (number % 8)}`, "aria-hidden": "true" }), each.title), h("small", {}, each.holders), h("small", { title: `${whole(each.pairs)} pairs` }, `${percent(each.share)} of ${tokens(each.queries)} × ${tokens(each.keys)}`))));
    fill(this.pictures, shown.length ? shown : h("p", { class: "faint note" }, "No layer has a mask."), section.strips.map((each) => strip(each, section.patterns)));
  }
}
