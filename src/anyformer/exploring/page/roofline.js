// The roofline of accelerators with the points of training, prefill and decoding, and what they reach in numbers.

import { h, s } from "./dom.js";
import { frame, key, powers, through } from "./axes.js";
import { bandwidth, dollars, percent, rate, seconds, three, whole } from "./numbers.js";

const MODES = [["train", "training step"], ["prefill", "prefill"], ["decode", "decoding step"]];
const MARKS = { train: "M0-5L5 0L0 5L-5 0Z", prefill: "M-4.2-4.2H4.2V4.2H-4.2Z", decode: "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z" };
const WIDE = 560, HIGH = 270;

/** The picture: a roof per accelerator, a mark per mode. */
export function roofline(all) {
  const accelerators = all.filter((each) => each.peak);
  const points = accelerators.flatMap((each, number) => MODES.filter(([mode]) => each.modes[mode]).map(([mode, words]) =>
    ({ ...each.modes[mode], mode, words, number, title: each.title })));
  if (!points.length) return null;
  const ridges = accelerators.map((each) => each.peak / each.bandwidth);
  const low = 10 ** Math.floor(Math.log10(Math.min(1, ...points.map((point) => point.intensity / 1.5)))), high = 10 ** Math.ceil(Math.log10(Math.max(...points.map((point) => point.intensity), ...ridges) * 2));
  const least = Math.min(...accelerators.map((each) => each.bandwidth * low), ...points.map((point) => point.flops_per_second)), most = Math.max(...accelerators.map((each) => each.peak));
  const x = { from: low, to: high, log: true, ticks: powers(low, high), says: tens, title: "FLOPs per byte moved" };
  const y = { from: least / 1.5, to: most * 2.2, log: true, ticks: powers(least, most, 10, 6), says: rate };
  const said = points.map((point) => `${point.title}, ${point.words}: ${rate(point.flops_per_second)} at ${three(point.intensity)} FLOPs per byte`).join("; ");
  const { svg, x: atX, y: atY, edges } = frame({ width: WIDE, height: HIGH, x, y, label: `roofline. ${said}`, left: 72, right: 22 });
  accelerators.forEach((each, number) => {
    const ridge = each.peak / each.bandwidth;
    svg.append(s("path", { class: `roof c${number + 1}`, d: through([[atX(low), atY(low * each.bandwidth)], [atX(ridge), atY(each.peak)], [edges.right, atY(each.peak)]]) }, s("title", {}, each.title)));
  });
  for (const point of points) {
    svg.append(s("path", { class: `mark c${point.number + 1} ${point.mode}`, d: MARKS[point.mode], transform: `translate(${atX(point.intensity).toFixed(1)} ${atY(point.flops_per_second).toFixed(1)})` },
      s("title", {}, `${point.title}, ${point.words}: ${rate(point.flops_per_second)}`)));
  }
  const shown = MODES.filter(([mode]) => points.some((point) => point.mode === mode));
  const list = h("ul", { class: "key" }, shown.map(([mode, words]) => h("li", {}, s("svg", { viewBox: "-7 -7 14 14", width: 12, height: 12, "aria-hidden": "true" }, s("path", { class: `mark ink ${mode}`, d: MARKS[mode] })), words)));
  return [svg, key(accelerators.map((each, number) => [number + 1, `${each.title}: ${rate(each.peak)}, ${bandwidth(each.bandwidth)}`])), list];
}

/** The same in numbers, and the price. */
export function speeds(accelerators) {
  const rows = accelerators.flatMap((each, number) => [
    h("tr", { class: "of" }, h("th", { scope: "rowgroup", colspan: "6" }, h("i", { class: `dot c${number + 1}`, "aria-hidden": "true" }), each.title, each.why ? h("small", {}, ` ${each.why}`) : null, short(each))),
    ...MODES.filter(([mode]) => each.modes[mode]).map(([mode, words]) => speed(each.modes[mode], mode, words)),
  ]);
  const heads = ["", "time", "tokens/s", "MFU", "waits for", "$ per 1M"];
  const small = accelerators.flatMap((each) => MODES.filter(([mode]) => each.modes[mode]?.too_small).map(([mode, words]) => `* ${each.title}, ${words}: ${each.modes[mode].too_small}`));
  return h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "predicted speeds" }, h("table", { class: "speeds" }, h("thead", {}, h("tr", {}, heads.map((head) => (head ? h("th", { scope: "col", class: head === "waits for" ? null : "number" }, head) : h("td", {}))))), h("tbody", {}, rows)), small.map((note) => h("p", { class: "faint note" }, note)));
}

/** That inference needs several of an accelerator, of which times and prices know nothing. */
function short(accelerator) {
  const needed = accelerator.devices?.inference ?? 1;
  return needed > 1 ? h("small", { class: "lacking" }, ` weights and state need ${needed}: times and prices are as if they fitted into one`) : null;
}

function speed(of, mode, words) {
  return h("tr", {}, h("th", { scope: "row" }, words, of.too_small ? " *" : null), h("td", { class: "number" }, seconds(of.seconds)),
    h("td", { class: "number" }, of.tokens_per_second >= 1000 ? whole(Math.round(of.tokens_per_second)) : three(of.tokens_per_second)),
    h("td", { class: "number" }, mode === "decode" || !of.mfu?.exact ? "–" : percent(of.mfu.exact)), h("td", {}, of.waits_for ? `${of.waits_for} ${percent(of.waits)}` : "–"),
    h("td", { class: "number" }, dollars(of.price_per_million_tokens)));
}

const tens = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1e4 ? `${value / 1e3}k` : whole(value));
